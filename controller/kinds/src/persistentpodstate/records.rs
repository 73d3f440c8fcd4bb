//! The records: taken when a pod is ready, and dropped when nothing will take its place.

use std::collections::BTreeMap;

use berth_api::names::annotation::FORGET_POD_STATES;
use berth_api::v1beta1::persistentpodstate::{PersistentPodState, PersistentPodStateStatus, PodState, RetentionPolicy};
use berth_workload::ordinals::set_and_ordinal;
use berth_workload::pod::Pod;

use super::{Snapshot, Target};

/// The most records of one object.
const MOST: usize = 5000;

/// The status to write: equal to the one that it has when nothing changed.
pub fn status(snapshot: &Snapshot) -> Option<PersistentPodStateStatus> {
    let state = snapshot.state.as_ref()?;
    let old = state.status.clone().unwrap_or_default();
    let mut pod_states: BTreeMap<_, _> =
        old.pod_states.into_iter().filter(|(name, _)| is_kept(snapshot, state, name)).collect();
    if matches!(snapshot.target, Target::Set(_)) {
        for pod in &snapshot.pods {
            let name = pod.metadata.name.to_string();
            if !is_forgotten(state, &name)
                && (pod_states.len() < MOST || pod_states.contains_key(&name))
                && let Some(record) = record(snapshot, state, pod)
            {
                pod_states.insert(name, record);
            }
        }
    }
    Some(PersistentPodStateStatus { observed_generation: state.metadata.generation.unwrap_or_default(), pod_states })
}

/// Is the record of this pod still of use?
fn is_kept(snapshot: &Snapshot, state: &PersistentPodState, name: &str) -> bool {
    if is_forgotten(state, name) {
        return false;
    }
    match &snapshot.target {
        Target::Unknown | Target::Gone => false,
        // Nobody knows which pods there are to be.
        Target::Set(None) => true,
        Target::Set(Some(ordinals)) => {
            state.spec.persistent_pod_state_retention_policy == RetentionPolicy::WhenDeleted
                || snapshot.pods.iter().any(|pod| *pod.metadata.name == *name)
                || set_and_ordinal(name).is_some_and(|(_, ordinal)| ordinals.contains(ordinal))
        }
    }
}

/// Did somebody let go of the pod's record, by annotation?
fn is_forgotten(state: &PersistentPodState, name: &str) -> bool {
    let annotations = state.metadata.annotations.iter().flatten();
    let names = annotations.filter(|(key, _)| *key == FORGET_POD_STATES).flat_map(|(_, names)| names.split(','));
    names.map(str::trim).any(|forgotten| forgotten == name || forgotten == "*")
}

/// Where a ready pod is. `None` keeps what is known: of a pod that is not ready, or whose node is not known.
fn record(snapshot: &Snapshot, state: &PersistentPodState, pod: &Pod) -> Option<PodState> {
    if !pod.is_active() || !pod.is_true("Ready") {
        return None;
    }
    let node = snapshot.nodes.get(&pod.spec.node_name)?;
    let spec = &state.spec;
    let preferred = spec.preferred_persistent_topology.iter().map(|term| &term.preference);
    let keys = spec.required_persistent_topology.iter().chain(preferred).flat_map(|term| &term.keys);
    let labels = keys.filter_map(|key| Some((key.clone(), node.metadata.label(key)?.to_owned())));
    let annotations = spec.persistent_pod_annotations.iter();
    let annotations = annotations
        .filter_map(|annotation| Some((annotation.key.clone(), pod.metadata.annotation(&annotation.key)?.to_owned())));
    Some(PodState {
        node_name: pod.spec.node_name.to_string(),
        node_topology_labels: labels.collect(),
        annotations: annotations.collect(),
    })
}
