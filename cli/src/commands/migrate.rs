//! `kubectl berth migrate`: a CloneSet in the place of a Deployment, a few pods at a time. The pods
//! are new pods.

mod made;
mod moving;

use std::time::Duration;

use anyhow::{Context, bail};
use berth_api::name::Name;
use berth_workload::objects::resource::{CLONE_SETS, DEPLOYMENTS};
use clap::Args;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use self::moving::{Goal, Replicas, Step};
use super::expose::AUTOSCALERS;
use crate::exit::{Exit, WrongUsage};
use crate::flags::duration;
use crate::kinds::{self, NamedKind};
use crate::objects;
use crate::session::Session;
use crate::write::{DryRun, WriteFlags, title};

/// The time between two reads of both workloads.
const AGAIN: Duration = Duration::from_secs(1);

/// The two workloads, and how pods move.
#[derive(Debug, Args)]
pub struct Migrate {
    /// The kind of the new workload: cloneset.
    #[arg(value_name = "cloneset")]
    pub to: String,
    /// The old workload: deployment/NAME, or `deployment` beside --src-name.
    #[arg(long)]
    pub from: String,
    /// The name of the old workload.
    #[arg(long)]
    pub src_name: Option<String>,
    /// The name of the new workload; without it, that of the old one.
    #[arg(long)]
    pub dst_name: Option<String>,
    /// Create the CloneSet with the template of the Deployment and 0 replicas, and move no pod.
    #[arg(long)]
    pub create: bool,
    /// With --create: as many replicas as the Deployment has.
    #[arg(long, requires = "create")]
    pub copy: bool,
    /// How many pods move; without it, all.
    #[arg(long, alias = "copies", conflicts_with = "create")]
    pub replicas: Option<u32>,
    /// How many pods may exist at a time beyond those before.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_surge: u32,
    /// How long to move pods, such as 5m; 0 for no limit.
    #[arg(long, alias = "timeout-seconds", default_value = "0", value_parser = duration)]
    pub timeout: Duration,
    /// How the CloneSet is written.
    #[command(flatten)]
    pub write: WriteFlags,
}

/// The workloads that pods move between.
struct Pair {
    source: (NamedKind, String),
    target: (NamedKind, String),
}

impl Migrate {
    /// Creates the CloneSet, or moves pods to it.
    ///
    /// # Errors
    /// The command line is wrong, a workload does not exist, or the apiserver refused a write.
    pub async fn run(&self, session: &Session) -> anyhow::Result<Exit> {
        let pair = self.pair()?;
        let (kind, name) = &pair.source;
        let deployment = session.get(kind, name).await?;
        if self.create {
            let cloneset = made::cloneset(&deployment, &pair.target.1, self.copy);
            let created = self.write.create(session, CLONE_SETS, cloneset).await?;
            self.write.print(CLONE_SETS, &created, "created")?;
            return Ok(Exit::Done);
        }
        check_autoscalers(session, name).await?;
        let cloneset = session.get(&pair.target.0, &pair.target.1).await;
        let cloneset =
            cloneset.context("pods move to a CloneSet that exists; --create makes it")?;
        let (source, target) = (Replicas::of(&deployment), Replicas::of(&cloneset));
        let goal = Goal::new(
            &source,
            &target,
            self.replicas.map(i64::from),
            self.max_surge.into(),
        );
        let titles = pair.titles();
        anstream::println!(
            "{} of {} pods of {} move to {}, by new pods, {} at a time{}",
            goal.moved(),
            source.wanted,
            titles.0,
            titles.1,
            self.max_surge,
            self.write.dry_run.suffix()
        );
        if self.write.dry_run != DryRun::None {
            return Ok(Exit::Done);
        }
        self.move_pods(session, &pair, &goal).await
    }

    fn pair(&self) -> Result<Pair, WrongUsage> {
        let source = match (self.from.split_once('/'), &self.src_name) {
            (Some(_), None) => kinds::object(std::slice::from_ref(&self.from))?,
            (None, Some(name)) => (kinds::parse(&self.from)?, name.clone()),
            _ => return Err(WrongUsage("write --from deployment/NAME".to_owned())),
        };
        let target = kinds::parse(&self.to)?;
        if source.0.resource != DEPLOYMENTS || target.resource != CLONE_SETS {
            return Err(WrongUsage(format!(
                "from {} to {}: only pods of a deployment move, to a cloneset",
                source.0.singular(),
                target.singular()
            )));
        }
        let name = self.dst_name.as_ref().unwrap_or(&source.1).clone();
        Name::parse(&name).map_err(|error| WrongUsage(error.to_string()))?;
        Ok(Pair {
            source,
            target: (target, name),
        })
    }

    async fn move_pods(&self, session: &Session, pair: &Pair, goal: &Goal) -> anyhow::Result<Exit> {
        let until = Instant::now() + self.timeout;
        let mut reported = String::new();
        loop {
            let deployment = session.get(&pair.source.0, &pair.source.1).await?;
            let cloneset = session.get(&pair.target.0, &pair.target.1).await?;
            let (source, target) = (Replicas::of(&deployment), Replicas::of(&cloneset));
            let (kind, name, to) = match goal.step(&source, &target) {
                Step::Done => {
                    let (from, to) = pair.titles();
                    anstream::println!(
                        "moved: {from} has spec.replicas {}, {to} has {}",
                        source.wanted,
                        target.wanted
                    );
                    return Ok(Exit::Done);
                }
                Step::Wait(why) => {
                    if why != reported {
                        anstream::println!("waiting: {why}");
                        reported = why;
                    }
                    let is_over = !self.timeout.is_zero() && Instant::now() >= until;
                    if is_over || interrupted(AGAIN).await {
                        return end_early(session, pair, (&source, &target), goal, is_over).await;
                    }
                    continue;
                }
                Step::ScaleSource(to) => (&pair.source.0, &pair.source.1, to),
                Step::ScaleTarget(to) => (&pair.target.0, &pair.target.1, to),
            };
            let patch = json!({"spec": {"replicas": to}});
            session.patch(kind, name, &patch, false).await?;
            anstream::println!("{} scaled to {to}", title(kind.resource, name));
        }
    }
}

impl Pair {
    fn titles(&self) -> (String, String) {
        let of = |(kind, name): &(NamedKind, String)| title(kind.resource, name);
        (of(&self.source), of(&self.target))
    }
}

/// Waits, and returns early if the user interrupts the command.
async fn interrupted(time: Duration) -> bool {
    tokio::select! {
        signal = tokio::signal::ctrl_c() => signal.is_ok(),
        () = sleep(time) => false,
    }
}

/// Deletes new pods that replace no old ones yet, so that the same command can continue.
async fn end_early(
    session: &Session,
    pair: &Pair,
    (source, target): (&Replicas, &Replicas),
    goal: &Goal,
    is_timeout: bool,
) -> anyhow::Result<Exit> {
    let to = goal.matching(source);
    if target.wanted > to {
        let (kind, name) = &pair.target;
        let patch = json!({"spec": {"replicas": to}});
        session.patch(kind, name, &patch, false).await?;
        anstream::println!("{} scaled back to {to}", title(kind.resource, name));
    }
    let (why, exit) = match is_timeout {
        true => ("the time of --timeout is over", Exit::TimedOut),
        false => ("interrupted", Exit::Failed),
    };
    anstream::eprintln!("error: {why}; the same command moves the other pods");
    Ok(exit)
}

/// A HorizontalPodAutoscaler of the Deployment would undo each step.
async fn check_autoscalers(session: &Session, deployment: &str) -> anyhow::Result<()> {
    let listed = session.list_if_allowed(AUTOSCALERS, &session.namespace, "");
    let scales = |one: &Value| {
        objects::text(one, "/spec/scaleTargetRef/kind") == "Deployment"
            && objects::text(one, "/spec/scaleTargetRef/name") == deployment
    };
    let listed = match listed.await? {
        Ok(listed) => listed,
        Err(refused) => {
            anstream::eprintln!(
                "note: whether an autoscaler scales the deployment is unknown: {refused}"
            );
            return Ok(());
        }
    };
    match listed.iter().find(|one| scales(one)) {
        Some(one) => bail!(
            "horizontalpodautoscaler {:?} scales deployment {deployment:?}: delete it, and use `kubectl berth \
             autoscale` for the cloneset afterwards",
            objects::name(one)
        ),
        None => Ok(()),
    }
}
