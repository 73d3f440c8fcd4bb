//! Category `berth-daemon`: the daemon of each node.

use berth_api::names::condition::RUNTIME_READY;
use berth_controller::settings::gates;
use berth_workload::feature_gates::Gate;
use berth_workload::objects::resource::{NODE_IMAGES, NODES, Resource};
use jiff::Timestamp;
use serde_json::Value;

use super::context::{Context, DAEMON_SET, named};
use super::outcome::{Category, Found, Outcome, Rule, count, some_of};
use crate::objects::{condition, name, number, text};
use crate::text::age_of;

const NATIVE_DAEMON_SETS: Resource = Resource::new("apps", "v1", "daemonsets", "DaemonSet");
const OFF: &str = "no daemon is wanted: feature gate KruiseDaemon is false";

/// The daemons.
pub(super) static CATEGORY: Category = Category {
    name: "berth-daemon",
    rules: &[
        Rule::new("daemons", |c| Box::pin(daemons(c))),
        Rule::new("runtimes", |c| Box::pin(runtimes(c))),
    ],
};

async fn is_off(context: &Context<'_>) -> bool {
    let (settings, _) = context.settings().await;
    gates::parse(&settings.feature_gates).is_ok_and(|gates| !gates.has(Gate::KruiseDaemon))
}

async fn daemons(context: &Context<'_>) -> Found {
    if is_off(context).await {
        return Ok(Outcome::Ok(OFF.to_owned()));
    }
    let set = context.own(NATIVE_DAEMON_SETS, DAEMON_SET).await?;
    Ok(judge_daemons(set.as_ref(), context.namespace()))
}

pub(super) fn judge_daemons(set: Option<&Value>, namespace: &str) -> Outcome {
    let Some(set) = set else {
        return Outcome::Fail(
            format!("there is no DaemonSet {DAEMON_SET} in namespace {namespace}"),
            "run helm upgrade; without daemons set the feature gate KruiseDaemon=false".to_owned(),
        );
    };
    let (wanted, ready) = (
        number(set, "/status/desiredNumberScheduled"),
        number(set, "/status/numberReady"),
    );
    let text = format!("{ready} of {wanted} daemons are ready");
    if ready >= wanted && wanted > 0 {
        return Outcome::Ok(text);
    }
    let hint =
        format!("kubectl -n {namespace} get pods -l app.kubernetes.io/component=daemon -o wide");
    Outcome::Fail(text, hint)
}

async fn runtimes(context: &Context<'_>) -> Found {
    if is_off(context).await {
        return Ok(Outcome::Ok(OFF.to_owned()));
    }
    let nodes = context.list(NODES).await?;
    let images = context.list(NODE_IMAGES).await?;
    Ok(judge_runtimes(&nodes, &images, Timestamp::now()))
}

/// Judges the container runtime of each node by its NodeImage.
pub(super) fn judge_runtimes(nodes: &[Value], images: &[Value], now: Timestamp) -> Outcome {
    let (mut failed, mut missing) = (Vec::new(), Vec::new());
    for node in nodes.iter().map(name) {
        let Some(image) = named(images, node) else {
            missing.push(node);
            continue;
        };
        match condition(image, RUNTIME_READY) {
            Some(ready) if ready["status"] == "True" => {}
            Some(ready) => failed.push(format!(
                "{node}: NodeImage condition {RUNTIME_READY} is {} since {}: {}",
                text(ready, "/status"),
                age_of(text(ready, "/lastTransitionTime"), now),
                text(ready, "/message")
            )),
            None => failed.push(format!(
                "{node}: NodeImage has no condition {RUNTIME_READY}: its daemon has not reported"
            )),
        }
    }
    let all = nodes.len();
    if !failed.is_empty() {
        return Outcome::Fail(
            format!("{} of {all} runtimes do not answer", failed.len()),
            failed.join("\n"),
        );
    }
    if !missing.is_empty() {
        return Outcome::Warn(
            format!("{} without a NodeImage", count(missing.len(), "node")),
            some_of(&missing),
        );
    }
    Outcome::Ok(format!("the container runtimes of all {all} nodes answer"))
}
