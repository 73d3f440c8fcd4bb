//! The text about each pod's place.

use std::collections::BTreeSet;

use berth_api::names::annotation::{FORGET_POD_STATES, INJECTED_PERSISTENT_POD_STATE};
use berth_api::v1beta1::persistentpodstate::{PersistentPodState, PodState};
use berth_workload::plan::Waiting;

use super::records::is_forgotten;
use super::{Pinning, Snapshot, Target};

/// For each pod: the node on which it was last, whether that node is available, and how the next
/// pod of its name is pinned.
pub fn explain(snapshot: &Snapshot) -> Vec<Waiting> {
    let Some(state) = &snapshot.state else {
        return Vec::new();
    };
    let of_all = Waiting {
        pod: String::new(),
        reason: of_workload(snapshot, state),
    };
    let records = state.status.iter().flat_map(|status| &status.pod_states);
    let recorded =
        records.map(|(name, record)| (name.clone(), of_record(snapshot, state, name, record)));
    let mut lines: Vec<_> = recorded.collect();
    let known: BTreeSet<_> = lines.iter().map(|(name, _)| name.clone()).collect();
    let unknown = snapshot
        .pods
        .iter()
        .filter(|pod| !known.contains(&*pod.metadata.name));
    lines.extend(unknown.map(|pod| {
        let name = pod.metadata.name.to_string();
        let why = if is_forgotten(state, &name) {
            format!("has no record, as the annotation {FORGET_POD_STATES} asks: remove that to have its place recorded again")
        } else {
            "has no record yet: one is taken when the pod is ready".to_owned()
        };
        (name, why)
    }));
    let lines = lines
        .into_iter()
        .map(|(pod, reason)| Waiting { pod, reason });
    std::iter::once(of_all).chain(lines).collect()
}

fn of_workload(snapshot: &Snapshot, state: &PersistentPodState) -> String {
    let target = &state.spec.target_ref;
    let workload = format!("{} {} ({})", target.kind, target.name, target.api_version);
    if let Some(rival) = &snapshot.rival {
        return format!(
            "is of {workload}, whose records PersistentPodState {rival} keeps, the older one: delete one of the two"
        );
    }
    if let Some(why) = &snapshot.beyond {
        return format!("is of {workload}; {why}");
    }
    match &snapshot.target {
        Target::Unsupported => format!("is of {workload}, a kind of which no records are kept"),
        Target::Unseen => format!("is of {workload}, which was not looked for yet"),
        Target::Gone => format!("is of {workload}, which does not exist: records go with the pods"),
        Target::Set(_) => format!("is of {workload}; {}", how(snapshot.pinning)),
    }
}

fn how(pinning: Pinning) -> &'static str {
    match pinning {
        Pinning::Protected => "its pods are not pinned, because its namespace is protected",
        Pinning::AtCreation => "its controller pins a pod when it makes it",
        Pinning::Policy => {
            "the MutatingAdmissionPolicy kruise-pod-pinning pins a pod when it is created"
        }
        Pinning::Webhook => "the pod webhook pins a pod when it is created",
        Pinning::NotYet => {
            "the pod webhook is not called for its pods yet, and before that no record is taken"
        }
        Pinning::Off => "its pods are not pinned: the chart's value podPinning.by is none",
        Pinning::TooMany => {
            "its pods are not pinned: the names of all such workloads are more than the webhook's configuration holds"
        }
    }
}

fn of_record(
    snapshot: &Snapshot,
    state: &PersistentPodState,
    name: &str,
    record: &PodState,
) -> String {
    let node = &record.node_name;
    let condition = match snapshot.nodes.get(node.as_str()) {
        None => "which is gone",
        Some(node) if !node.ready => "which is not ready",
        Some(node) if node.cordoned => "which is cordoned: no new pod is scheduled to it",
        Some(_) => "which is ready",
    };
    let pod = snapshot.pods.iter().find(|pod| *pod.metadata.name == *name);
    let now = match pod {
        None if snapshot.present.contains(name) => {
            "a pod of that name is there, which its workload does not control".to_owned()
        }
        None => "no pod has the name now".to_owned(),
        Some(pod) => {
            let at = if pod.spec.node_name.is_empty() {
                "no node yet"
            } else {
                &*pod.spec.node_name
            };
            let pinned = pod.metadata.annotation(INJECTED_PERSISTENT_POD_STATE);
            let how = pinned.map_or("made without a record".to_owned(), |by| {
                format!("pinned by {by}")
            });
            format!("the pod is on {at}, {how}")
        }
    };
    let next = match snapshot.target {
        Target::Gone => "its workload is gone, so nothing pins the next one".to_owned(),
        _ => format!("the next one gets {}", pins(state, record)),
    };
    format!("was ready last on node {node}, {condition}; {now}; {next}")
}

/// The pins for the next pod of the record's name.
fn pins(state: &PersistentPodState, record: &PodState) -> String {
    let label = |key: &String| {
        record
            .node_topology_labels
            .get(key)
            .map(|value| format!("{key}={value}"))
    };
    let required: Vec<_> = state
        .spec
        .required_persistent_topology
        .iter()
        .flat_map(|term| &term.keys)
        .filter_map(label)
        .collect();
    let preferred = state.spec.preferred_persistent_topology.iter();
    let preferred: Vec<_> = preferred
        .flat_map(|term| {
            term.preference
                .keys
                .iter()
                .filter_map(label)
                .map(|label| format!("{label} (weight {})", term.weight))
        })
        .collect();
    let mut parts = Vec::new();
    if !required.is_empty() {
        parts.push(format!("nodeSelector {}", required.join(", ")));
    }
    let required_keys = state
        .spec
        .required_persistent_topology
        .iter()
        .flat_map(|term| &term.keys);
    let missing: Vec<_> = required_keys
        .filter(|key| !record.node_topology_labels.contains_key(*key))
        .map(String::as_str)
        .collect();
    if !required.is_empty() && !missing.is_empty() {
        parts.push(format!(
            "nothing of {}, which the node has no label of",
            missing.join(", ")
        ));
    }
    if !preferred.is_empty() {
        parts.push(format!("preferred node affinity {}", preferred.join(", ")));
    }
    if !record.annotations.is_empty() {
        let keys: Vec<_> = record.annotations.keys().map(String::as_str).collect();
        parts.push(format!("annotations {}", keys.join(", ")));
    }
    if parts.is_empty() {
        "nothing: the node had none of the labels".to_owned()
    } else {
        parts.join("; ")
    }
}
