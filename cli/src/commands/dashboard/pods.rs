//! Pods of a workload, by revision.

use std::collections::BTreeMap;

use berth_api::names::{annotation, label};
use berth_workload::update::revision::short;
use serde_json::{Value, json};

use crate::objects::{self, items, text};

/// The most pods of one revision that are shown.
const MOST: usize = 200;

/// The pods of one revision.
#[derive(Debug, Default)]
pub(super) struct OfRevision {
    count: usize,
    ready: usize,
    /// The pods that are shown: those that are not ready first.
    shown: Vec<Value>,
}

impl OfRevision {
    /// The pods as data.
    pub(super) fn data(self) -> Value {
        json!({"count": self.count, "ready": self.ready, "shown": self.shown})
    }
}

/// The pods by the hash of their revision; `waits` has the reasons for which pods wait.
pub(super) fn by_revision(
    pods: &[Value],
    waits: &BTreeMap<&str, &str>,
) -> BTreeMap<String, OfRevision> {
    let mut order: Vec<_> = pods.iter().collect();
    order.sort_by_key(|pod| (is_ready(pod), objects::name(pod)));
    let mut all: BTreeMap<String, OfRevision> = BTreeMap::new();
    for pod in order {
        let of = all.entry(hash(pod).to_owned()).or_default();
        of.count += 1;
        of.ready += usize::from(is_ready(pod));
        if of.shown.len() < MOST {
            of.shown
                .push(line(pod, waits.get(objects::name(pod)).copied()));
        }
    }
    all
}

/// The hash of a pod's revision; empty without one.
fn hash(pod: &Value) -> &str {
    let labels = &pod["metadata"]["labels"];
    let of = |key: &str| labels[key].as_str();
    let own =
        of(label::KRUISE_CONTROLLER_REVISION_HASH).or_else(|| of(label::CONTROLLER_REVISION_HASH));
    short(own.unwrap_or_default())
}

fn line(pod: &Value, waits: Option<&str>) -> Value {
    let containers = || items(pod, "/status/containerStatuses");
    let restarts: i64 = containers()
        .map(|one| objects::number(one, "/restartCount"))
        .sum();
    let in_place = &pod["metadata"]["annotations"][annotation::INPLACE_UPDATE_STATE];
    json!({
        "name": objects::name(pod),
        "namespace": objects::namespace(pod),
        "node": text(pod, "/spec/nodeName"),
        "created": text(pod, "/metadata/creationTimestamp"),
        "state": state(pod),
        "isReady": is_ready(pod),
        "ready": containers().filter(|one| one["ready"] == true).count(),
        "containers": items(pod, "/spec/containers").count(),
        "restarts": restarts,
        "inPlace": in_place.is_string(),
        "waits": waits,
        "message": message(pod),
    })
}

fn is_ready(pod: &Value) -> bool {
    objects::condition(pod, "Ready").is_some_and(|ready| ready["status"] == "True")
}

/// The state of a pod in a word.
fn state(pod: &Value) -> &str {
    let lifecycle = pod["metadata"]["labels"][label::LIFECYCLE_STATE]
        .as_str()
        .unwrap_or_default();
    match text(pod, "/status/phase") {
        _ if pod.pointer("/metadata/deletionTimestamp").is_some() => "Terminating",
        phase @ ("Succeeded" | "Failed") => phase,
        _ if fault(pod).is_some() => fault(pod).map_or("", |fault| text(fault, "/reason")),
        _ if !matches!(lifecycle, "" | "Normal") => lifecycle,
        _ if is_ready(pod) => "Ready",
        _ if text(pod, "/spec/nodeName").is_empty() => "Unscheduled",
        "Pending" => "Starting",
        _ => "NotReady",
    }
}

/// The state of a container that waits for another reason than its start.
fn fault(pod: &Value) -> Option<&Value> {
    let statuses = ["/status/initContainerStatuses", "/status/containerStatuses"];
    let containers = statuses.iter().flat_map(|list| items(pod, list));
    containers
        .filter_map(|container| container.pointer("/state/waiting"))
        .find(|waiting| {
            !matches!(
                text(waiting, "/reason"),
                "" | "ContainerCreating" | "PodInitializing"
            )
        })
}

/// Why a pod does not run, if its status says so.
fn message(pod: &Value) -> &str {
    let unscheduled = objects::condition(pod, "PodScheduled").filter(|it| it["status"] == "False");
    fault(pod)
        .or(unscheduled)
        .map_or("", |one| text(one, "/message"))
}

#[cfg(test)]
mod tests;
