//! The records: written when a pod is ready, and dropped when no pod will take its place.

use std::collections::BTreeMap;

use berth_api::names::annotation::FORGET_POD_STATES;
use berth_api::v1beta1::persistentpodstate::{
    PersistentPodState, PersistentPodStateStatus, PodState, RetentionPolicy,
};
use berth_workload::objects::ordinals::{Ordinals, set_and_ordinal};
use berth_workload::objects::pod::{Metadata, Pod};

use super::{Pinning, Snapshot, Target};

/// The most records of one object.
const MOST: usize = 5000;
/// The most bytes of all its records: an object has 1.5 MiB at most.
const MOST_BYTES: usize = 1 << 20;
/// The longest value of a stored annotation, in bytes.
pub const LONGEST_ANNOTATION: usize = 4096;
/// Bytes of a record beside its texts.
const OVERHEAD: usize = 64;

/// The status to write: it equals the present one if nothing changed.
pub fn status(snapshot: &Snapshot) -> Option<PersistentPodStateStatus> {
    let state = snapshot.state.as_ref()?;
    let observed_generation = state.metadata.generation.unwrap_or_default();
    if snapshot.rival.is_some() || snapshot.beyond.is_some() {
        return Some(PersistentPodStateStatus {
            observed_generation,
            ..PersistentPodStateStatus::default()
        });
    }
    let old = state.status.clone().unwrap_or_default();
    let mut pod_states: BTreeMap<_, _> = old
        .pod_states
        .into_iter()
        .filter(|(name, _)| is_kept(snapshot, state, name))
        .collect();
    // A pod's first record is written only once pods of the workload are pinned.
    if let Target::Set(ordinals) = &snapshot.target
        && snapshot.pinning != Pinning::NotYet
    {
        inherit(snapshot, state, ordinals.as_ref(), &mut pod_states);
        take(snapshot, state, &mut pod_states);
    }
    Some(PersistentPodStateStatus {
        observed_generation,
        pod_states,
    })
}

/// Writes the records of ready pods, as long as there is space.
fn take(
    snapshot: &Snapshot,
    state: &PersistentPodState,
    pod_states: &mut BTreeMap<String, PodState>,
) {
    let mut bytes: usize = pod_states
        .iter()
        .map(|(name, record)| size(name, record))
        .sum();
    for pod in &snapshot.pods {
        let name = &*pod.metadata.name;
        if is_forgotten(state, name) || (pod_states.len() >= MOST && !pod_states.contains_key(name))
        {
            continue;
        }
        let Some(record) = record(snapshot, state, pod) else {
            continue;
        };
        let before = pod_states.get(name).map_or(0, |old| size(name, old));
        let after = bytes - before + size(name, &record);
        if after <= MOST_BYTES || after <= bytes {
            bytes = after;
            pod_states.insert(name.to_owned(), record);
        }
    }
}

/// Copies the records from Kubernetes' own StatefulSet to an Advanced one of its name, and back.
fn inherit(
    snapshot: &Snapshot,
    state: &PersistentPodState,
    ordinals: Option<&Ordinals>,
    pod_states: &mut BTreeMap<String, PodState>,
) {
    let (Some(ordinals), Some(predecessor)) = (ordinals, &snapshot.predecessor) else {
        return;
    };
    let records = predecessor
        .status
        .iter()
        .flat_map(|status| &status.pod_states);
    let is_wanted =
        |name: &str| set_and_ordinal(name).is_some_and(|(_, ordinal)| ordinals.contains(ordinal));
    for (name, record) in records
        .filter(|(name, _)| is_wanted(name) && !is_forgotten(state, name))
        .take(MOST)
    {
        if pod_states.len() < MOST {
            pod_states
                .entry(name.clone())
                .or_insert_with(|| record.clone());
        }
    }
}

fn size(name: &str, record: &PodState) -> usize {
    let texts = record
        .node_topology_labels
        .iter()
        .chain(&record.annotations);
    name.len()
        + record.node_name.len()
        + texts
            .map(|(key, value)| key.len() + value.len() + 8)
            .sum::<usize>()
        + OVERHEAD
}

/// Whether the record of this pod is still needed.
fn is_kept(snapshot: &Snapshot, state: &PersistentPodState, name: &str) -> bool {
    if is_forgotten(state, name) {
        return false;
    }
    match &snapshot.target {
        // Pods that outlive their workload will get another one, which needs their records.
        Target::Gone => snapshot.present.contains(name),
        // It is unknown which pods the workload must have.
        Target::Unsupported | Target::Unseen | Target::Set(None) => true,
        Target::Set(Some(ordinals)) => {
            state.spec.persistent_pod_state_retention_policy == RetentionPolicy::WhenDeleted
                || set_and_ordinal(name).is_some_and(|(_, ordinal)| ordinals.contains(ordinal))
                || snapshot.pods.iter().any(|pod| *pod.metadata.name == *name)
        }
    }
}

/// Whether a user dropped the pod's record by annotation.
pub(super) fn is_forgotten(state: &PersistentPodState, name: &str) -> bool {
    let annotations = state.metadata.annotations.iter().flatten();
    let names = annotations
        .filter(|(key, _)| *key == FORGET_POD_STATES)
        .flat_map(|(_, names)| names.split(','));
    names
        .map(str::trim)
        .any(|forgotten| forgotten == name || forgotten == "*")
}

/// The place of a ready pod. `None` keeps the present record, if the pod is not ready or its node
/// is unknown.
pub(super) fn record(
    snapshot: &Snapshot,
    state: &PersistentPodState,
    pod: &Pod,
) -> Option<PodState> {
    if !pod.is_active() || !pod.is_true("Ready") {
        return None;
    }
    let node = snapshot.nodes.get(&pod.spec.node_name)?;
    let spec = &state.spec;
    let preferred = spec
        .preferred_persistent_topology
        .iter()
        .map(|term| &term.preference);
    let keys = spec
        .required_persistent_topology
        .iter()
        .chain(preferred)
        .flat_map(|term| &term.keys);
    let labels = keys.filter_map(|key| Some((key.clone(), node.metadata.label(key)?.to_owned())));
    let read = snapshot.annotations.get(&pod.metadata.uid);
    let value = |key: &str| {
        let value = if is_outside(key) {
            read?.get(key).map(String::as_str)
        } else {
            pod.metadata.annotation(key)
        };
        value
            .filter(|value| value.len() <= LONGEST_ANNOTATION)
            .map(str::to_owned)
    };
    let annotations =
        wanted_annotations(state).filter_map(|key| Some((key.to_owned(), value(key)?)));
    Some(PodState {
        node_name: pod.spec.node_name.to_string(),
        node_topology_labels: labels.collect(),
        annotations: annotations.collect(),
    })
}

/// The keys of the pod annotations that the spec names.
pub fn wanted_annotations(state: &PersistentPodState) -> impl Iterator<Item = &str> {
    state
        .spec
        .persistent_pod_annotations
        .iter()
        .map(|annotation| &*annotation.key)
}

/// Whether the cache drops the annotation, so that the controller must read it from the pod itself.
pub fn is_outside(key: &str) -> bool {
    !Metadata::keeps_annotation(key)
}
