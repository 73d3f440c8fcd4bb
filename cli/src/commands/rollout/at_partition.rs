//! The pods of a rollout whose status is at its end.
//!
//! Numbers suffice where a partition keeps a number of pods. Other partitions keep certain pods:
//! the lowest ordinals of a StatefulSet, the first nodes of a DaemonSet that holds revisions, the
//! pods of a subset. After a rollback to the revision of the kept pods, these count as updated
//! while others still run the revision that was rolled back. The status of a StatefulSet also
//! counts kept pods that are being deleted, and that of a DaemonSet one pod of a node.

use berth_api::names::annotation::DAEMONSET_HOLD_REVISION;
use berth_api::names::label::{
    CONTROLLER_REVISION_HASH, KRUISE_CONTROLLER_REVISION_HASH, SUBSET_NAME,
};
use berth_workload::objects::ordinals::{Ordinals, ordinal_of};
use berth_workload::update::revision;
use serde_json::Value;

use super::kind::{RolloutKind, count};
use super::progress::{Progress, unfinished};
use crate::objects::{controller, items, name, text};

/// Whether only the pods tell the end of the rollout, once the status has its numbers.
pub fn needs_pods(kind: RolloutKind, object: &Value) -> bool {
    let keeps_certain = match kind {
        RolloutKind::StatefulSet | RolloutKind::UnitedDeployment => true,
        RolloutKind::DaemonSet => annotation(object, DAEMONSET_HOLD_REVISION) == "true",
        _ => false,
    };
    let kept = kind.kept_of(object).unwrap_or_default();
    let keeps_some = keeps_certain && kept > 0 && updated(kind, object) < kind.total(object);
    keeps_some || surges(kind, object)
}

/// Whether nodes may have two pods, of which the status counts one.
fn surges(kind: RolloutKind, object: &Value) -> bool {
    let surge = object.pointer("/spec/updateStrategy/rollingUpdate/maxSurge");
    kind == RolloutKind::DaemonSet && surge.is_some_and(|surge| !surge.is_null() && *surge != 0)
}

/// Whether the kept pods may be any. Only the controller knows which nodes are to have a pod of a
/// DaemonSet, so its pods do not tell the kept ones while others run elsewhere.
fn keeps_any(kind: RolloutKind, object: &Value) -> bool {
    if kind == RolloutKind::DaemonSet {
        return annotation(object, DAEMONSET_HOLD_REVISION) != "true"
            || count(object, "/status/numberMisscheduled").is_some_and(|pods| pods > 0);
    }
    let unordered = object.pointer("/spec/updateStrategy/rollingUpdate/unorderedUpdate");
    text(object, "/spec/podManagementPolicy") == "Parallel"
        && unordered.is_some_and(|unordered| !unordered.is_null())
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
    let (waits, is_outdated) = match kind {
        RolloutKind::UnitedDeployment => (outdated_subset(object, pods)?, true),
        _ => unfinished_pod(kind, object, &in_order(kind, object, pods))?,
    };
    Some(unfinished(kind, object, &waits, is_outdated))
}

/// What the rollout waits for, and whether a pod is to be updated.
fn unfinished_pod(kind: RolloutKind, object: &Value, pods: &[&Value]) -> Option<(String, bool)> {
    let kept = kind.kept_of(object).unwrap_or_default();
    let kept = usize::try_from(kept).unwrap_or(usize::MAX);
    let is_old = |pod: &&&Value| !is_updated(object, pod);
    let keeps_any = keeps_any(kind, object);
    let mut outside = pods.iter().skip(kept);
    let outdated = outside.find(|pod| is_old(pod) && !keeps_any);
    if let Some(pod) = outdated {
        let waits = format!("pod {} outside of the partition is not updated", name(pod));
        return Some((waits, true));
    }
    let mut pairs = pods.iter().zip(pods.iter().skip(1));
    let pair = pairs.find(|(one, other)| surges(kind, object) && node(one) == node(other));
    if let Some((pod, _)) = pair {
        return Some((format!("node {} has two pods", node(pod)), false));
    }
    let is_set = kind == RolloutKind::StatefulSet;
    let mut deleted = pods.iter().filter(|pod| is_set && is_deleted(pod));
    if let Some(pod) = deleted.next() {
        return Some((format!("pod {} is being deleted", name(pod)), false));
    }
    let listed = pods.iter().filter(|pod| !is_old(pod)).count();
    let listed = i64::try_from(listed).unwrap_or(i64::MAX);
    let is_counted = if is_set {
        listed <= updated(kind, object) && has_ordinals(object, pods)
    } else {
        keeps_any || listed <= updated(kind, object)
    };
    (!is_counted).then(|| ("the controller has not counted all pods".to_owned(), false))
}

/// Whether a StatefulSet has the pods of the ordinals in its spec, and no others. Their start
/// counts only with the feature gate `StatefulSetStartOrdinal`, so both starts are right here.
fn has_ordinals(object: &Value, pods: &[&Value]) -> bool {
    let replicas = RolloutKind::StatefulSet.total(object);
    let reserved = items(object, "/spec/reserveOrdinals");
    let reserved: Vec<_> = reserved
        .filter_map(|entry| serde_json::from_value(entry.clone()).ok())
        .collect();
    let start = count(object, "/spec/ordinals/start").unwrap_or_default();
    [0, start].into_iter().any(|start| {
        let start = i32::try_from(start).unwrap_or_default();
        let wanted = Ordinals::of_spec(i32::try_from(replicas).ok(), start, &reserved);
        let found = pods.iter().map(|pod| ordinal_of(name(object), name(pod)));
        wanted.is_ok_and(|wanted| found.eq(wanted.iter().map(Some)))
    })
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

fn is_deleted(pod: &Value) -> bool {
    pod.pointer("/metadata/deletionTimestamp").is_some()
}

/// Whether the pod has the template's revision and, as the controller counts, a volume of
/// each claim template: these are in no revision.
fn is_updated(object: &Value, pod: &Value) -> bool {
    let update = text(object, "/status/updateRevision");
    let has_volume = |template: &Value| {
        let is_of = |volume: &Value| {
            volume["persistentVolumeClaim"].is_object() && text(volume, "/name") == name(template)
        };
        items(pod, "/spec/volumes").any(is_of)
    };
    !is_deleted(pod)
        && revision::same(label(pod, CONTROLLER_REVISION_HASH), update)
        && items(object, "/spec/volumeClaimTemplates").all(has_volume)
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
    !is_deleted(pod)
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
