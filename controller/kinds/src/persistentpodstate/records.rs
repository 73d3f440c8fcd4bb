//! The records: taken when a pod is ready, and dropped when nothing will take its place.

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
/// The longest value of an annotation that is kept, in bytes.
pub const LONGEST_ANNOTATION: usize = 4096;
/// What a record takes beside its texts.
const OVERHEAD: usize = 64;

/// The status to write: equal to the one that it has when nothing changed.
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
    // What pins pods stands before the first record.
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

/// Takes the records of ready pods, as long as there is room.
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

/// From Kubernetes' own StatefulSet to an Advanced one of its name, and back, the places go along.
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

/// Is the record of this pod still of use?
fn is_kept(snapshot: &Snapshot, state: &PersistentPodState, name: &str) -> bool {
    if is_forgotten(state, name) {
        return false;
    }
    match &snapshot.target {
        // Pods that outlive their workload are on their way to another, and their records with them.
        Target::Gone => snapshot.present.contains(name),
        // Nobody knows which pods there are to be.
        Target::Unsupported | Target::Unseen | Target::Set(None) => true,
        Target::Set(Some(ordinals)) => {
            state.spec.persistent_pod_state_retention_policy == RetentionPolicy::WhenDeleted
                || set_and_ordinal(name).is_some_and(|(_, ordinal)| ordinals.contains(ordinal))
                || snapshot.pods.iter().any(|pod| *pod.metadata.name == *name)
        }
    }
}

/// Did somebody let go of the pod's record, by annotation?
pub(super) fn is_forgotten(state: &PersistentPodState, name: &str) -> bool {
    let annotations = state.metadata.annotations.iter().flatten();
    let names = annotations
        .filter(|(key, _)| *key == FORGET_POD_STATES)
        .flat_map(|(_, names)| names.split(','));
    names
        .map(str::trim)
        .any(|forgotten| forgotten == name || forgotten == "*")
}

/// Where a ready pod is. `None` keeps what is known: of a pod that is not ready, or whose node is not known.
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

/// The keys of the annotations of pods that the spec names.
pub fn wanted_annotations(state: &PersistentPodState) -> impl Iterator<Item = &str> {
    state
        .spec
        .persistent_pod_annotations
        .iter()
        .map(|annotation| &*annotation.key)
}

/// Does the feed drop the annotation, so that it is to be read from the pod itself?
pub fn is_outside(key: &str) -> bool {
    !Metadata::keeps_annotation(key)
}
