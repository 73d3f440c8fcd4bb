//! Pods that are not gone, or not scheduled, because of their nodes.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_api::commands::{self, Named};
use berth_api::names::annotation::{FORGET_POD_STATES, INJECTED_PERSISTENT_POD_STATE};
use berth_api::v1beta1::persistentpodstate::{PersistentPodState, PodState};
use berth_workload::blocked::Cause;
use berth_workload::objects::pod::Pod;

use super::super::Snapshot;
use super::lasting::lasting;

/// The taint that an administrator sets on a node that is surely off: Kubernetes then releases its
/// pods and their volumes.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute";

/// Most pods that a message names.
const MOST: usize = 20;

/// The names of nodes that show why one of these pods is not gone, or not scheduled.
pub fn nodes_to_watch(
    pods: &[Arc<Pod>],
    records: Option<&PersistentPodState>,
) -> BTreeSet<Box<str>> {
    let of = |pod: &Arc<Pod>| match &pod.metadata.deletion_timestamp {
        Some(_) => (!pod.spec.node_name.is_empty()).then(|| pod.spec.node_name.clone()),
        None => pinned_by(pod, records?).map(|record| record.node_name.as_str().into()),
    };
    pods.iter().filter_map(of).collect()
}

/// The pods that wait for a node, each with the cause.
pub(super) fn causes(snapshot: &Snapshot) -> impl Iterator<Item = (&Arc<Pod>, Cause)> {
    snapshot.pods.iter().filter_map(|pod| {
        Some((
            pod,
            terminating(snapshot, pod).or_else(|| pinned(snapshot, pod))?,
        ))
    })
}

/// The cause if a pod is being deleted, and its node does not answer: the set creates no pod of the
/// same name before this one is known to have ended.
fn terminating(snapshot: &Snapshot, pod: &Pod) -> Option<Cause> {
    let due = pod.metadata.deletion_timestamp?;
    let node = snapshot
        .own
        .watched_nodes
        .get(&pod.spec.node_name)
        .filter(|node| !node.ready)?;
    if !pod.metadata.finalizers.is_empty() {
        return None;
    }
    let (name, node) = (&pod.metadata.name, &node.metadata.name);
    let message = format!(
        "{}: pod {name} is being deleted, and node {node}, which is not ready, does not say that it has ended; the \
         controller does not delete the pod by force, because two pods of one name might run at once: bring the node back, or, once \
         it is surely off, run {}",
        snapshot.view().workload,
        commands::taint(node, OUT_OF_SERVICE)
    );
    Some(lasting("NodeNotReady", message, Some(due)))
}

/// The cause if a pod must run on the node of its predecessor, and that node takes no pods.
fn pinned(snapshot: &Snapshot, pod: &Pod) -> Option<Cause> {
    let records = snapshot.own.records.as_deref()?;
    let record = pinned_by(pod, records)?;
    let (what, remedy) = no_place(snapshot, record)?;
    let (node, name) = (&record.node_name, &pod.metadata.name);
    let (workload, state) = (
        snapshot.view().workload,
        records.metadata.name.as_deref().unwrap_or_default(),
    );
    let object = Named {
        resource: "persistentpodstate",
        namespace: workload.namespace(),
        name: state,
    };
    let waiting = waiting(snapshot, records, name);
    let message = format!(
        "{workload}: pod {name} has no node: PersistentPodState {state} wants it to be where it was, on node {node}, which {what}; \
         {remedy}, or run {}, then delete pods {waiting}, and for new records of their places, once they are ready, run {}",
        commands::annotate(object, FORGET_POD_STATES, &waiting),
        commands::take_annotation(object, FORGET_POD_STATES)
    );
    let condition = pod.condition("PodScheduled");
    let since = condition
        .and_then(|c| c.last_transition_time)
        .or(pod.metadata.creation_timestamp);
    Some(lasting("PinnedNodeUnavailable", message, since))
}

/// The reason why no pod can run at the recorded place, and the remedy.
fn no_place(snapshot: &Snapshot, record: &PodState) -> Option<(&'static str, &'static str)> {
    match snapshot.own.watched_nodes.get(&*record.node_name) {
        None => Some(("is gone", "bring it back")),
        Some(node) if node.cordoned => Some(("is cordoned", "uncordon it")),
        Some(node) if !node.ready => Some(("is not ready", "bring it back")),
        Some(_) => None,
    }
}

/// The names of all pods that wait for such a node, including this one, separated by commas as in
/// the annotation. All names are one value, because a new value of the annotation replaces the old
/// one.
fn waiting(snapshot: &Snapshot, records: &PersistentPodState, name: &str) -> String {
    let waits = |pod: &&Arc<Pod>| {
        pinned_by(pod, records)
            .and_then(|record| no_place(snapshot, record))
            .is_some()
    };
    let others = snapshot
        .pods
        .iter()
        .filter(waits)
        .map(|pod| &*pod.metadata.name)
        .filter(|other| *other != name);
    let mut names: Vec<_> = others.take(MOST - 1).chain([name]).collect();
    names.sort_unstable();
    names.join(",")
}

/// The record that binds the pod to its former place, if the scheduler finds no node for the pod.
fn pinned_by<'a>(pod: &Pod, records: &'a PersistentPodState) -> Option<&'a PodState> {
    let condition = pod.condition("PodScheduled")?;
    let is_unscheduled = &*condition.status == "False" && &*condition.reason == "Unschedulable";
    if !pod.is_active() || !pod.spec.node_name.is_empty() || !is_unscheduled {
        return None;
    }
    let by = pod.metadata.annotation(INJECTED_PERSISTENT_POD_STATE)?;
    records
        .metadata
        .name
        .as_deref()
        .filter(|name| *name == by)?;
    let record = records
        .status
        .as_ref()?
        .pod_states
        .get(&*pod.metadata.name)?;
    let required = &records.spec.required_persistent_topology.as_ref()?.keys;
    required
        .iter()
        .any(|key| record.node_topology_labels.contains_key(key))
        .then_some(record)
}
