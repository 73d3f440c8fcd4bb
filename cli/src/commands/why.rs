//! `kubectl berth why`: what an object waits for, and what its controller does next.

mod budget;
mod conditions;
mod place;
mod pod;

use std::time::Duration;

use berth_api::kinds::{BROADCAST_JOB, CONTAINER_RECREATE_REQUEST};
use berth_controller::plugin::{Explained, ExplainedObject, NoPlan};
use berth_controller::settings::published::Published;
use berth_workload::objects::resource::{NODES, POD_DISRUPTION_BUDGETS, PODS};
use clap::{Args, ValueEnum};
use serde_json::json;
use tokio::time::sleep;

use super::get::health;
use crate::exit::{Exit, WrongUsage, sentence};
use crate::kinds::{self, NamedKind};
use crate::objects;
use crate::pod_spec;
use crate::session::Session;
use crate::text::{self, clean, clean_lines, fitted, json, width};

/// The time between two answers of `--watch`.
const AGAIN: Duration = Duration::from_secs(1);

/// The kinds whose objects end.
const ENDING: [&str; 2] = [BROADCAST_JOB.plural, CONTAINER_RECREATE_REQUEST.plural];

/// The object, and how the answer looks.
#[derive(Debug, Args)]
pub struct Why {
    /// TYPE/NAME, or TYPE NAME.
    #[arg(required = true, num_args = 1..=2, value_name = "TYPE/NAME")]
    pub object: Vec<String>,
    /// Of a budget (`pub`, `dpdb`, `pdb`): what `kubectl drain` of this node would get now, pod by
    /// pod. Without it, which nodes could be drained.
    #[arg(long)]
    pub node: Option<String>,
    /// Print the answer again each time that it changes.
    #[arg(short, long)]
    pub watch: bool,
    /// `text` for people, `json` for the plan as data.
    #[arg(short, long, value_enum, default_value = "text")]
    pub output: Output,
}

/// How an answer is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Sentences.
    Text,
    /// The plan as data.
    Json,
}

impl Why {
    /// Prints the answer, with `--watch` again and again.
    ///
    /// # Errors
    /// The object does not exist, the user may not read it, or the apiserver did not answer.
    pub async fn run(&self, session: &Session) -> anyhow::Result<Exit> {
        let (kind, name) = kinds::object(&self.object)?;
        let can_drain = kind.resource.group == berth_api::names::POLICY_GROUP
            || kind.resource == POD_DISRUPTION_BUDGETS;
        if self.node.is_some() && !can_drain {
            let message =
                "--node shows what a drain would get from a budget: name a pub, a dpdb or a pdb";
            return Err(WrongUsage(message.to_owned()).into());
        }
        let (settings, note) = session.settings().await;
        if let Some(note) = note {
            text::note(&note);
        }
        let mut last = self.answer(session, &settings, (&kind, &name)).await?;
        anstream::println!("{}", self.shown(&last));
        if !self.watch {
            return Ok(Exit::Done);
        }
        loop {
            sleep(AGAIN).await;
            match self.answer(session, &settings, (&kind, &name)).await {
                Ok(answer) if answer == last => {}
                Ok(answer) => {
                    anstream::println!("\n{}", self.shown(&answer));
                    last = answer;
                }
                Err(error) if is_passing(&error) => {
                    text::note(&format!("{}; trying again", sentence(&error)));
                    sleep(AGAIN * 4).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn shown(&self, answer: &str) -> String {
        match self.output {
            Output::Text => fitted(answer, width()),
            Output::Json => answer.to_owned(),
        }
    }

    /// The answer about an object whose plan needs more than the user may read: its status.
    async fn without_plan(
        &self,
        session: &Session,
        (kind, name): (&NamedKind, &str),
        why: &NoPlan,
    ) -> anyhow::Result<String> {
        let object = session.get(kind, name).await?;
        if self.output == Output::Json {
            return Ok(json(
                &json!({"status": object["status"], "unread": [why.to_string()]}),
            )?);
        }
        let mut lines = conditions::lines(&object);
        let state = health::state(kind.resource.plural, &object);
        lines.insert(1, format!("{}: {}", state.short(), state.sentence));
        lines.push(format!(
            "Not known: what its controller does next, because {why}"
        ));
        Ok(cleaned(&lines))
    }

    async fn answer(
        &self,
        session: &Session,
        settings: &Published,
        (kind, name): (&NamedKind, &str),
    ) -> anyhow::Result<String> {
        let lines = match kind.resource {
            PODS => Some(pod::answer(session, settings, (kind, name)).await?),
            NODES if self.output == Output::Text => {
                let node = session.get(kind, name).await?;
                let pods = session.list_if_allowed(PODS, "", "").await?;
                Some(conditions::node(&node, &pods))
            }
            POD_DISRUPTION_BUDGETS => {
                Some(budget::native(session, (kind, name), self.node.as_deref()).await?)
            }
            _ => None,
        };
        if let Some(answer) = lines {
            return Ok(match self.output {
                Output::Json => json(&json!({"lines": answer}))?,
                Output::Text => cleaned(&answer),
            });
        }
        if !kind.has_plan {
            let object = session.get(kind, name).await?;
            return Ok(match self.output {
                Output::Json => json(&object["status"])?,
                Output::Text => cleaned(&conditions::lines(&object)),
            });
        }
        self.plan(session, settings, (kind, name)).await
    }

    /// The answer about an object whose controller makes a plan.
    async fn plan(
        &self,
        session: &Session,
        settings: &Published,
        (kind, name): (&NamedKind, &str),
    ) -> anyhow::Result<String> {
        let object = ExplainedObject {
            kind: kind.resource.plural,
            namespace: &session.namespace,
            name,
            node: self.node.as_deref(),
        };
        let mut explained = match session.explain(settings, object).await {
            Ok(explained) => explained,
            Err(error) => match error.downcast_ref::<NoPlan>() {
                Some(why) => return self.without_plan(session, (kind, name), why).await,
                None => return Err(error),
            },
        };
        let never = budget::never(session, kind, name).await?;
        if never.is_some() {
            for one in &mut explained.plan.waiting {
                one.reason = budget::without_waiting(&one.reason);
            }
        }
        if self.output == Output::Json {
            let mut explained = serde_json::to_value(&explained)?;
            if let Some(never) = never {
                explained["warning"] = json!(never);
            }
            return Ok(json(&explained)?);
        }
        let mut answer = clean_lines(explained.to_string().trim_end());
        if let Some(line) = of_nodes(session, (kind, name), &explained).await? {
            answer = format!("{answer}\n{}", clean(&line));
        }
        // A job that has ended has no plan any more, and its status says how it ended.
        if ENDING.contains(&kind.resource.plural) && explained.plan.is_idle() {
            let lines = conditions::lines(&session.get(kind, name).await?);
            answer = format!("{answer}\n{}", cleaned(lines.get(1..).unwrap_or_default()));
        }
        if let Some(never) = never {
            answer = format!("{answer}\n‼ {}", clean(&never));
        }
        Ok(answer)
    }
}

/// The line about the node selector of a workload whose pods find no node.
async fn of_nodes(
    session: &Session,
    (kind, name): (&NamedKind, &str),
    explained: &Explained,
) -> anyhow::Result<Option<String>> {
    if !finds_no_node(explained) {
        return Ok(None);
    }
    let object = session.get(kind, name).await?;
    let Ok(at) = pod_spec::pointer(kind.resource, &object) else {
        return Ok(None);
    };
    let spec = object.pointer(&at).cloned().unwrap_or_default();
    if !spec["nodeSelector"].is_object() {
        return Ok(None);
    }
    let nodes = session.list_if_allowed(NODES, "", "").await?;
    let field = format!(
        "{}.nodeSelector",
        at.trim_start_matches('/').replace('/', ".")
    );
    Ok(place::node_selector(&spec, &field, &nodes))
}

/// Whether the scheduler finds no node for a pod.
fn finds_no_node(explained: &Explained) -> bool {
    let blocked = explained.blocked.iter();
    let mut blocked = blocked.map(|one| objects::text(one, "/reason"));
    let mut waiting = explained.plan.waiting.iter();
    blocked.any(|reason| reason == "PodUnschedulable")
        || waiting.any(|one| one.reason.starts_with("is not scheduled"))
}

fn cleaned(lines: &[String]) -> String {
    let lines: Vec<_> = lines.iter().map(|line| clean(line)).collect();
    lines.join("\n")
}

/// Whether a failure may pass by itself: the apiserver did not answer, or answered that it has
/// trouble.
pub(super) fn is_passing(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        match (
            cause.downcast_ref::<kube::Error>(),
            cause.downcast_ref::<berth_runtime::client::Failed>(),
        ) {
            (Some(kube::Error::Api(refused)), _) => refused.code >= 500 || refused.code == 429,
            (Some(_), _) => true,
            (_, Some(failed)) => failed.code == 0 || failed.code >= 500 || failed.code == 429,
            _ => cause.is::<tokio::time::error::Elapsed>(),
        }
    })
}
