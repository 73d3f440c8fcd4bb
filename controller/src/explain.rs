//! `explain`: the controller's own observe and decide, printed instead of executed.

use anyhow::{Context, bail};
use berth_api::name::Namespace;
use berth_api::names::condition;
use berth_api::v1beta1::cloneset::{CloneSetCondition, CloneSetStatus};
use berth_controller::flags::{Explain, ExplainKind, Output};
use berth_kinds::cloneset::{Snapshot, decide, status};
use berth_runtime::metrics::Metrics;
use berth_runtime::object::NODES;
use berth_workload::gates::Gates;
use berth_workload::plan::{Outcome, Plan, Step};
use berth_workload::pod::spread;
use jiff::Timestamp;
use serde::Serialize;

use crate::controllers::Controller;
use crate::controllers::cloneset::{Reads, observe};
use crate::reads::Stores;
use crate::resize;

/// Prints the plan for one object.
///
/// # Errors
/// The object does not exist, or the apiserver did not answer.
pub(crate) async fn explain(explain: &Explain, config: kube::Config, gates: Gates) -> anyhow::Result<()> {
    let ExplainKind::Cloneset = explain.kind;
    let namespace = Namespace::parse(explain.namespace.as_ref().unwrap_or(&config.default_namespace))?;
    let namespace = namespace.as_str();
    let client = berth_runtime::client::connect(config, Metrics::new(|_| {}))?;
    let mut stores = Stores::default();
    let reads = Reads::new(&mut stores.reader());
    const UNREAD: &str = "cannot read the cluster's state";
    stores.look(&client, namespace, |resource| resource != NODES).await.context(UNREAD)?;
    // Only a template that spreads its pods asks where its nodes are.
    if reads.clonesets.all().iter().any(|set| spread::is_constrained(&set.0.spec.template)) {
        stores.look(&client, namespace, |resource| resource == NODES).await.context(UNREAD)?;
    }
    let Some(set) = reads.clonesets.get(namespace, &explain.name) else {
        bail!("there is no CloneSet {:?} in namespace {namespace:?}; see `kubectl get clonesets -A`", explain.name);
    };
    let resize = resize::ability(&client, gates).await.context("cannot ask whether the cluster resizes pods")?;
    let snapshot = observe(&reads, &set, gates, resize);
    let now = Timestamp::now();
    let plan = decide(&snapshot, now);
    let blocked = blocked(&snapshot, &plan, now);
    match explain.output {
        Output::Json => println!("{}", serde_json::to_string_pretty(&Explained { blocked: &blocked, plan: &plan })?),
        Output::Text => print!("{}", text(&snapshot, blocked.as_ref(), &plan)),
    }
    Ok(())
}

/// What is printed as JSON.
#[derive(Serialize)]
struct Explained<'a> {
    blocked: &'a Option<CloneSetCondition>,
    #[serde(flatten)]
    plan: &'a Plan,
}

/// The cause that holds the CloneSet back: as it shows now, or, where it shows only when something is written, as it was
/// told when that was tried.
fn blocked(snapshot: &Snapshot, plan: &Plan, now: Timestamp) -> Option<CloneSetCondition> {
    let of = |status: Option<CloneSetStatus>| {
        status.into_iter().flat_map(|status| status.conditions).find(|c| c.type_ == condition::BLOCKED)
    };
    let told = of(snapshot.set.status.clone()).filter(|_| !plan.is_idle());
    of(status(snapshot, plan, &Outcome::default(), now)).or(told)
}

/// The plan in sentences.
fn text(snapshot: &Snapshot, blocked: Option<&CloneSetCondition>, plan: &Plan) -> String {
    let mut lines = vec![format!("CloneSet {}", snapshot.name())];
    lines.extend(blocked.map(|condition| format!("Blocked ({}): {}", condition.reason, condition.message)));
    let now = if plan.is_idle() { "Now: nothing to do." } else { "Now:" };
    lines.push(now.to_owned());
    for stage in &plan.stages {
        lines.push(format!("  {} ({})", stage.name, stage.steps.len()));
        lines.extend(stage.steps.iter().map(step));
    }
    if !plan.waiting.is_empty() {
        lines.push("Waits:".to_owned());
        for waiting in &plan.waiting {
            let who = if waiting.pod.is_empty() { "the CloneSet" } else { &waiting.pod };
            lines.push(format!("  {who}: {}", waiting.reason));
        }
    }
    if let Some(wait) = plan.look_again {
        lines.push(format!("Looks again in {:.1} s, or when something changes.", wait.as_secs_f64()));
    }
    lines.push(String::new());
    lines.join("\n")
}

fn step(step: &Step) -> String {
    let kinds: Vec<_> = step.actions.iter().map(|action| action.deed().to_string()).collect();
    format!("    - {} [{}]", step.reason, kinds.join(", "))
}
