//! A StatefulSet asks for a PersistentPodState of its name by annotations.

use berth_api::names::annotation::{
    AUTO_GENERATE_PERSISTENT_POD_STATE, PERSISTENT_POD_ANNOTATIONS, PREFERRED_PERSISTENT_TOPOLOGY,
    REQUIRED_PERSISTENT_TOPOLOGY,
};
use berth_api::v1beta1::statefulset::StatefulSet;
use berth_workload::owner::OwnerKey;
use berth_workload::plan::{Action, Event, IfExists, Plan, Step, Target};
use berth_workload::resource::{PERSISTENT_POD_STATES, STATEFUL_SETS};
use serde_json::{Map, Value, json};

use super::Snapshot;

/// How much a preferred topology counts.
const WEIGHT: i32 = 100;
/// The most keys of one annotation.
const MOST_KEYS: usize = 16;

/// Makes, changes or deletes what the workload owns. What somebody else made is left alone.
pub(super) fn plan(snapshot: &Snapshot, plan: &mut Plan) {
    let Some(set) = snapshot.generator.as_deref().filter(|set| set.metadata.deletion_timestamp.is_none()) else {
        return;
    };
    let wanted = spec(set);
    match (&snapshot.state, wanted) {
        (None, Some(spec)) => plan.add_stage("generate", vec![create(set, &spec)]),
        (Some(state), wanted) if is_owned(set, state.metadata.owner_references.as_deref().unwrap_or_default()) => {
            if state.metadata.deletion_timestamp.is_some() {
                return;
            }
            let target = Target::from(&state.metadata);
            let step = match wanted {
                None => {
                    let reason = format!("{} has no annotations any more that ask for it", target.name);
                    Some(Step::new(Action::Delete { resource: PERSISTENT_POD_STATES, target }, reason))
                }
                Some(spec) => change(&json!(state.spec), &spec).map(|patch| {
                    let reason = format!("the annotations of {} ask for other topologies", target.name);
                    Step::new(Action::Patch { resource: PERSISTENT_POD_STATES, target, patch }, reason)
                }),
            };
            plan.add_stage("generate", step.into_iter().collect());
        }
        _ => {}
    }
}

/// The spec that the annotations ask for; `None` where they ask for none, or for nothing that could be kept.
fn spec(set: &StatefulSet) -> Option<Value> {
    let annotation = |key: &str| set.metadata.annotations.as_ref()?.get(key).map(String::as_str);
    let keys = |key: &str| -> Vec<String> {
        let parts = annotation(key).unwrap_or_default().split(',').map(str::trim).filter(|part| !part.is_empty());
        parts.map(str::to_owned).take(MOST_KEYS).collect()
    };
    let (required, preferred) = (keys(REQUIRED_PERSISTENT_TOPOLOGY), keys(PREFERRED_PERSISTENT_TOPOLOGY));
    if annotation(AUTO_GENERATE_PERSISTENT_POD_STATE) != Some("true") || (required.is_empty() && preferred.is_empty()) {
        return None;
    }
    let name = set.metadata.name.as_deref().unwrap_or_default();
    let mut spec = Map::new();
    spec.insert(
        "targetRef".to_owned(),
        json!({"apiVersion": STATEFUL_SETS.api_version(), "kind": STATEFUL_SETS.kind, "name": name}),
    );
    if !required.is_empty() {
        spec.insert("requiredPersistentTopology".to_owned(), json!({"keys": required}));
    }
    let terms: Vec<_> = preferred.iter().map(|key| json!({"weight": WEIGHT, "preference": {"keys": [key]}})).collect();
    if !terms.is_empty() {
        spec.insert("preferredPersistentTopology".to_owned(), json!(terms));
    }
    let annotations: Vec<_> = keys(PERSISTENT_POD_ANNOTATIONS).into_iter().map(|key| json!({"key": key})).collect();
    if !annotations.is_empty() {
        spec.insert("persistentPodAnnotations".to_owned(), json!(annotations));
    }
    Some(Value::Object(spec))
}

/// The merge patch from one spec to another. The target and a retention policy that was set by hand stay.
fn change(old: &Value, new: &Value) -> Option<Value> {
    let fields = ["requiredPersistentTopology", "preferredPersistentTopology", "persistentPodAnnotations"];
    let differing = fields.into_iter().filter(|field| old[field] != new[field]);
    let patch: Map<_, _> = differing.map(|field| (field.to_owned(), new[field].clone())).collect();
    (!patch.is_empty()).then(|| json!({"spec": patch}))
}

fn create(set: &StatefulSet, spec: &Value) -> Step {
    let metadata = &set.metadata;
    let name = metadata.name.as_deref().unwrap_or_default();
    let owner = json!({
        "apiVersion": STATEFUL_SETS.api_version(), "kind": STATEFUL_SETS.kind, "name": name, "uid": metadata.uid,
        "controller": true, "blockOwnerDeletion": true,
    });
    let body = json!({
        "apiVersion": PERSISTENT_POD_STATES.api_version(), "kind": PERSISTENT_POD_STATES.kind, "spec": spec,
        "metadata": {"name": name, "namespace": metadata.namespace, "ownerReferences": [owner]},
    });
    let event = |warning, reason, message| Some(Event { warning, reason, message });
    Step {
        done: event(
            false,
            "PersistentPodStateCreated",
            format!("made PersistentPodState {name}, as the annotations ask"),
        ),
        failed: event(true, "FailedCreatePersistentPodState", format!("failed to make PersistentPodState {name}")),
        ..Step::new(
            Action::Create { resource: PERSISTENT_POD_STATES, body, if_exists: IfExists::IsOfSameOwner },
            format!("the annotations of StatefulSet {name} ask for a PersistentPodState"),
        )
    }
}

fn is_owned(set: &StatefulSet, owners: &[k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference]) -> bool {
    let metadata = &set.metadata;
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let key =
        OwnerKey { kind: STATEFUL_SETS.owner_kind(), namespace, uid: metadata.uid.as_deref().unwrap_or_default() };
    owners.iter().any(|owner| owner.controller == Some(true) && key.owns(namespace, &owner.into()))
}
