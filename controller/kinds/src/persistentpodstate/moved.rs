//! Pods that came back in another place than their record names.

use berth_api::names::annotation::INJECTED_PERSISTENT_POD_STATE;
use berth_api::v1beta1::persistentpodstate::{PersistentPodState, PodState};
use berth_workload::objects::pod::Pod;
use berth_workload::plan::Event;

use super::Snapshot;
use super::records::record;

/// Most events in one round.
const MOST: usize = 8;

/// One event for each pod whose record is about to change its place: the events go with the write
/// of the record.
pub(super) fn events(snapshot: &Snapshot, state: &PersistentPodState) -> Vec<Event> {
    let Some(status) = &state.status else {
        return Vec::new();
    };
    let moved = snapshot.pods.iter().filter_map(|pod| {
        // A pod on the same node has not moved, even if the node's labels have changed.
        let old = status
            .pod_states
            .get(&*pod.metadata.name)
            .filter(|old| *old.node_name != *pod.spec.node_name)?;
        let new = record(snapshot, state, pod)?;
        is_elsewhere(state, old, &new).then(|| event(snapshot, old, &new, pod))
    });
    moved.take(MOST).collect()
}

/// Whether the new place has other labels than the old one. Only keys count that the old record
/// has: keys that are new in the spec do not mean that a pod moved.
fn is_elsewhere(state: &PersistentPodState, old: &PodState, new: &PodState) -> bool {
    let preferred = state
        .spec
        .preferred_persistent_topology
        .iter()
        .map(|term| &term.preference);
    let mut keys = state
        .spec
        .required_persistent_topology
        .iter()
        .chain(preferred)
        .flat_map(|term| &term.keys);
    keys.any(|key| {
        let value = |record: &PodState| record.node_topology_labels.get(key).cloned();
        value(old).is_some_and(|old| value(new) != Some(old))
    })
}

fn event(snapshot: &Snapshot, old: &PodState, new: &PodState, pod: &Pod) -> Event {
    let (name, before, now) = (&pod.metadata.name, &old.node_name, &new.node_name);
    let message = format!(
        "pod {name} came back on node {now}, not on {before}: {}",
        cause(snapshot, old, pod)
    );
    Event::warning("PodMoved", message)
}

fn cause(snapshot: &Snapshot, old: &PodState, pod: &Pod) -> String {
    let before = &old.node_name;
    if pod
        .metadata
        .annotation(INJECTED_PERSISTENT_POD_STATE)
        .is_none()
    {
        return "it was made without being pinned, because the webhook or policy that pins pods did not answer then, or it had no record"
            .to_owned();
    }
    match snapshot.nodes.get(before.as_str()) {
        None => format!("node {before} is gone"),
        Some(node) if !node.ready => format!("node {before} is not ready"),
        Some(node) if node.cordoned => format!("node {before} is cordoned"),
        Some(_) => {
            "its template asks for another place, or the record's was only preferred and could not be had".to_owned()
        }
    }
}
