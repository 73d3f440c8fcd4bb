//! The pods of a rollout that is at its partition.
//!
//! Numbers suffice where a partition keeps a number of pods. Other partitions keep certain pods:
//! the lowest ordinals of a StatefulSet, the first nodes of a DaemonSet that holds revisions, the
//! pods of a subset. After a rollback to the revision of the kept pods, these count as updated
//! while others still run the revision that was rolled back.

use berth_api::names::annotation::DAEMONSET_HOLD_REVISION;
use berth_api::names::label::{
    CONTROLLER_REVISION_HASH, KRUISE_CONTROLLER_REVISION_HASH, SUBSET_NAME,
};
use berth_workload::objects::ordinals::ordinal_of;
use berth_workload::update::revision;
use serde_json::Value;

use super::kind::{RolloutKind, count};
use super::progress::{Progress, unfinished};
use crate::objects::{controller, items, name, text};

/// Whether only the pods tell the end of the rollout, once the status has its numbers.
pub fn needs_pods(kind: RolloutKind, object: &Value) -> bool {
    let keeps_certain = match kind {
        RolloutKind::StatefulSet => {
            let unordered = "/spec/updateStrategy/rollingUpdate/unorderedUpdate";
            let is_unordered = object
                .pointer(unordered)
                .is_some_and(|unordered| !unordered.is_null());
            !is_unordered || text(object, "/spec/podManagementPolicy") != "Parallel"
        }
        RolloutKind::DaemonSet => annotation(object, DAEMONSET_HOLD_REVISION) == "true",
        RolloutKind::UnitedDeployment => true,
        _ => false,
    };
    let kept = kind.kept_of(object).unwrap_or_default();
    keeps_certain && kept > 0 && updated(kind, object) < kind.total(object)
}

fn updated(kind: RolloutKind, object: &Value) -> i64 {
    let field = match kind {
        RolloutKind::DaemonSet => "/status/updatedNumberScheduled",
        _ => "/status/updatedReplicas",
    };
    count(object, field).unwrap_or_default()
}

/// The state of the rollout if a pod outside of the partition is not updated, or if the pods are
/// newer than the status; `None` at the end.
pub fn unfinished_by_pods(kind: RolloutKind, object: &Value, pods: &[Value]) -> Option<Progress> {
    let kept = kind.kept_of(object).unwrap_or_default();
    let kept = usize::try_from(kept).unwrap_or(usize::MAX);
    let outdated = match kind {
        RolloutKind::UnitedDeployment => outdated_subset(object, pods)?,
        _ => {
            let pods = in_order(kind, object, pods);
            let is_old = |pod: &&Value| !is_updated(object, pod);
            let listed = pods.iter().filter(|pod| !is_old(pod)).count();
            let listed = i64::try_from(listed).unwrap_or(i64::MAX);
            match pods.iter().skip(kept).copied().find(is_old) {
                Some(pod) => format!("pod {} outside of the partition is not updated", name(pod)),
                None if listed > updated(kind, object) => {
                    let waits = "the controller has not counted all pods";
                    return Some(unfinished(kind, object, waits, false));
                }
                None => return None,
            }
        }
    };
    Some(unfinished(kind, object, &outdated, true))
}

/// The workload's pods in the order in which a partition keeps them.
fn in_order<'a>(kind: RolloutKind, object: &Value, pods: &'a [Value]) -> Vec<&'a Value> {
    let uid = text(object, "/metadata/uid");
    let is_own = |pod: &&Value| {
        let owner = controller(pod);
        owner.is_some_and(|owner| text(owner, "/uid") == uid)
    };
    let mut pods: Vec<_> = pods.iter().filter(is_own).collect();
    match kind {
        RolloutKind::StatefulSet => pods.sort_by_key(|pod| ordinal_of(name(object), name(pod))),
        _ => pods.sort_by_key(|pod| node(pod)),
    }
    pods
}

/// The node of a DaemonSet's pod; before it is scheduled, that of its affinity.
fn node(pod: &Value) -> &str {
    let terms = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution\
                 /nodeSelectorTerms/0/matchFields/0/values/0";
    match text(pod, "/spec/nodeName") {
        "" => text(pod, terms),
        node => node,
    }
}

fn is_updated(object: &Value, pod: &Value) -> bool {
    let update = text(object, "/status/updateRevision");
    pod.pointer("/metadata/deletionTimestamp").is_none()
        && revision::same(label(pod, CONTROLLER_REVISION_HASH), update)
}

/// The first subset with too few updated pods, in words.
fn outdated_subset(object: &Value, pods: &[Value]) -> Option<String> {
    let update = text(object, "/status/updatedRevision");
    items(object, "/status/subsetStatuses").find_map(|subset| {
        let of = |field| count(subset, field).unwrap_or_default();
        let expected = (of("/replicas") - of("/partition")).max(0);
        let is_updated = |pod: &&Value| {
            label(pod, SUBSET_NAME) == text(subset, "/name")
                && label(pod, KRUISE_CONTROLLER_REVISION_HASH) == update
                && is_ready(pod)
        };
        let updated = pods.iter().filter(is_updated).count();
        let updated = i64::try_from(updated).unwrap_or(i64::MAX);
        (updated < expected).then(|| {
            let subset = text(subset, "/name");
            format!("{updated} of {expected} pods of subset {subset} are updated and ready")
        })
    })
}

fn is_ready(pod: &Value) -> bool {
    pod.pointer("/metadata/deletionTimestamp").is_none()
        && crate::objects::condition(pod, "Ready")
            .is_some_and(|ready| text(ready, "/status") == "True")
}

fn label<'a>(object: &'a Value, key: &str) -> &'a str {
    let labels = object.pointer("/metadata/labels");
    let value = labels.and_then(|labels| labels.get(key));
    value.and_then(Value::as_str).unwrap_or_default()
}

fn annotation<'a>(object: &'a Value, key: &str) -> &'a str {
    let annotations = object.pointer("/metadata/annotations");
    let value = annotations.and_then(|annotations| annotations.get(key));
    value.and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests;
