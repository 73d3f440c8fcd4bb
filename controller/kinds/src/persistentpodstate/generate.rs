//! PersistentPodStates that workloads of the same name ask for by annotations.

use std::collections::BTreeMap;

use berth_api::names::annotation::{
    AUTO_GENERATE_PERSISTENT_POD_STATE, PERSISTENT_POD_ANNOTATIONS, PREFERRED_PERSISTENT_TOPOLOGY,
    REQUIRED_PERSISTENT_TOPOLOGY,
};
use berth_api::v1beta1::persistentpodstate::PersistentPodState;
use berth_api::validation::is_label_key;
use berth_workload::objects::owner::{OwnerKey, group};
use berth_workload::objects::resource::{
    NATIVE_STATEFUL_SETS, PERSISTENT_POD_STATES, Resource, STATEFUL_SETS,
};
use berth_workload::plan::{Action, Event, IfExists, Plan, Step, Target as PlanTarget};
use serde_json::{Map, Value, json};

use super::{Snapshot, Target};

/// The weight of a preferred topology.
const WEIGHT: i32 = 100;
/// The most keys of one annotation.
const MOST_KEYS: usize = 16;

/// A workload that may ask for a PersistentPodState of its name.
#[derive(Debug, Clone, PartialEq)]
pub struct Generator {
    /// Its kind.
    pub resource: Resource,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// Whether it is being deleted.
    pub is_going: bool,
}

/// Creates, changes or deletes the PersistentPodState that the workload owns. One of another
/// creator stays as it is.
pub(super) fn plan(snapshot: &Snapshot, plan: &mut Plan) {
    let mut asking = snapshot
        .generators
        .iter()
        .filter_map(|generator| Some((generator, generator.spec()?)));
    let Some(state) = &snapshot.state else {
        if let Some((generator, spec)) = asking.next() {
            plan.add_stage("generate", vec![generator.create(&spec)]);
            plan.events.extend(generator.odd_keys());
            plan.events
                .extend(asking.next().map(|(other, _)| both_ask(generator, other)));
        }
        return;
    };
    if let Some(step) = take_over(snapshot, state) {
        return plan.add_stage("generate", vec![step]);
    }
    let owner = snapshot
        .generators
        .iter()
        .find(|generator| generator.owns(state) && !generator.is_going);
    let (Some(owner), None) = (owner, &state.metadata.deletion_timestamp) else {
        return;
    };
    let target = PlanTarget::from(&state.metadata);
    let step = match owner.spec() {
        None => {
            let reason = format!(
                "{} has no annotations any more that ask for it",
                target.name
            );
            Some(Step::new(
                Action::Delete {
                    resource: PERSISTENT_POD_STATES,
                    target,
                },
                reason,
            ))
        }
        Some(spec) => change(&json!(state.spec), &spec).map(|patch| {
            let reason = format!(
                "the annotations of {} ask for other topologies",
                target.name
            );
            Step::new(
                Action::Patch {
                    resource: PERSISTENT_POD_STATES,
                    target,
                    patch,
                },
                reason,
            )
        }),
    };
    plan.events
        .extend(step.as_ref().and_then(|_| owner.odd_keys()));
    plan.add_stage("generate", step.into_iter().collect());
}

/// Hands the PersistentPodState of a StatefulSet that is gone to the StatefulSet of the same name
/// in the other group, Kubernetes' own or Berth's, if that one asks for it: it has the pods, so it
/// must have their records.
fn take_over(snapshot: &Snapshot, state: &PersistentPodState) -> Option<Step> {
    let has_no_controller = !state
        .metadata
        .owner_references
        .iter()
        .flatten()
        .any(|owner| owner.controller == Some(true));
    let target = &state.spec.target_ref;
    let is_left = snapshot.target == Target::Gone
        && has_no_controller
        && state.metadata.deletion_timestamp.is_none();
    let is_its = |resource: &Resource| {
        [STATEFUL_SETS, NATIVE_STATEFUL_SETS].contains(resource)
            && resource.kind == target.kind
            && resource.group != group(&target.api_version)
    };
    let mut heirs = snapshot
        .generators
        .iter()
        .filter(|heir| is_its(&heir.resource) && heir.name == target.name);
    let (heir, spec) = heirs
        .find_map(|heir| Some((heir, heir.spec()?)))
        .filter(|_| is_left)?;
    // The rest of the spec follows when the new StatefulSet owns the object, because this account
    // may write no more of an object without an owner.
    let patch = json!({"metadata": {"ownerReferences": [heir.owner_reference()]}, "spec": {"targetRef": spec["targetRef"]}});
    let (name, to) = (&target.name, heir.resource.api_version());
    let reason = format!(
        "StatefulSet {name} of {} is gone, and that of {to} asks for its records",
        target.api_version
    );
    let message = format!(
        "PersistentPodState {name} keeps the records of the StatefulSet of {to} from now on"
    );
    Some(Step {
        done: Some(Event::normal("PersistentPodStateTakenOver", message)),
        ..Step::new(
            Action::Patch {
                resource: PERSISTENT_POD_STATES,
                target: PlanTarget::from(&state.metadata),
                patch,
            },
            reason,
        )
    })
}

fn both_ask(generator: &Generator, other: &Generator) -> Event {
    let message = format!(
        "{} of {} and of {} both ask for a PersistentPodState of the name {}, which there can be one of: that of {} has it; \
         take the annotation {AUTO_GENERATE_PERSISTENT_POD_STATE} off one of them",
        generator.resource.kind,
        generator.resource.group,
        other.resource.group,
        generator.name,
        generator.resource.group
    );
    Event::warning("PersistentPodStateNameTaken", message)
}

impl Generator {
    /// The spec that the annotations ask for; `None` if they ask for none, or for nothing that
    /// could be recorded.
    fn spec(&self) -> Option<Value> {
        let keys = |key: &str| -> Vec<String> {
            let list = self
                .annotations
                .get(key)
                .map(String::as_str)
                .unwrap_or_default();
            let parts = list
                .split(',')
                .map(str::trim)
                .filter(|part| is_label_key(part));
            parts.map(str::to_owned).take(MOST_KEYS).collect()
        };
        let (required, preferred) = (
            keys(REQUIRED_PERSISTENT_TOPOLOGY),
            keys(PREFERRED_PERSISTENT_TOPOLOGY),
        );
        let asks = self
            .annotations
            .get(AUTO_GENERATE_PERSISTENT_POD_STATE)
            .is_some_and(|value| value == "true");
        if self.is_going || !asks || (required.is_empty() && preferred.is_empty()) {
            return None;
        }
        let Self { resource, name, .. } = self;
        let target =
            json!({"apiVersion": resource.api_version(), "kind": resource.kind, "name": name});
        let mut spec = Map::from_iter([("targetRef".to_owned(), target)]);
        if !required.is_empty() {
            spec.insert(
                "requiredPersistentTopology".to_owned(),
                json!({"keys": required}),
            );
        }
        let terms: Vec<_> = preferred
            .iter()
            .map(|key| json!({"weight": WEIGHT, "preference": {"keys": [key]}}))
            .collect();
        if !terms.is_empty() {
            spec.insert("preferredPersistentTopology".to_owned(), json!(terms));
        }
        let annotations: Vec<_> = keys(PERSISTENT_POD_ANNOTATIONS)
            .into_iter()
            .map(|key| json!({"key": key}))
            .collect();
        if !annotations.is_empty() {
            spec.insert("persistentPodAnnotations".to_owned(), json!(annotations));
        }
        Some(Value::Object(spec))
    }

    /// The event for keys in the annotations that no label or annotation can have.
    fn odd_keys(&self) -> Option<Event> {
        let of = |annotation: &'static str| {
            let list = self
                .annotations
                .get(annotation)
                .map(String::as_str)
                .unwrap_or_default();
            let parts = list
                .split(',')
                .map(str::trim)
                .filter(|part| !part.is_empty() && !is_label_key(part));
            parts.map(move |part| format!("{annotation}: {part:?}"))
        };
        let annotations = [
            REQUIRED_PERSISTENT_TOPOLOGY,
            PREFERRED_PERSISTENT_TOPOLOGY,
            PERSISTENT_POD_ANNOTATIONS,
        ];
        let odd: Vec<_> = annotations
            .into_iter()
            .flat_map(of)
            .take(MOST_KEYS)
            .collect();
        (!odd.is_empty()).then(|| {
            let message = format!(
                "{} is no key of a label or annotation, and is left out: correct the annotation",
                odd.join(", ")
            );
            Event::warning("InvalidPersistentTopology", message)
        })
    }

    fn create(&self, spec: &Value) -> Step {
        let Self {
            resource,
            namespace,
            name,
            ..
        } = self;
        let owner = self.owner_reference();
        let body = json!({
            "apiVersion": PERSISTENT_POD_STATES.api_version(), "kind": PERSISTENT_POD_STATES.kind, "spec": spec,
            "metadata": {"name": name, "namespace": namespace, "ownerReferences": [owner]},
        });
        let event = |warning, reason, message| {
            Some(Event {
                warning,
                reason,
                message,
            })
        };
        Step {
            done: event(
                false,
                "PersistentPodStateCreated",
                format!("made PersistentPodState {name}, as the annotations ask"),
            ),
            failed: event(
                true,
                "FailedCreatePersistentPodState",
                format!("failed to make PersistentPodState {name}"),
            ),
            ..Step::new(
                Action::Create {
                    resource: PERSISTENT_POD_STATES,
                    body,
                    if_exists: IfExists::IsOfSameOwner,
                },
                format!(
                    "the annotations of {} {name} ask for a PersistentPodState",
                    resource.kind
                ),
            )
        }
    }

    /// The owner reference does not block the workload's deletion, because that would need a
    /// permission for each kind of workload.
    fn owner_reference(&self) -> Value {
        let Self {
            resource,
            name,
            uid,
            ..
        } = self;
        json!({"apiVersion": resource.api_version(), "kind": resource.kind, "name": name, "uid": uid, "controller": true})
    }

    fn owns(&self, state: &PersistentPodState) -> bool {
        let key = OwnerKey {
            kind: self.resource.owner_kind(),
            namespace: &self.namespace,
            uid: &self.uid,
        };
        let mut owners = state.metadata.owner_references.iter().flatten();
        owners
            .any(|owner| owner.controller == Some(true) && key.owns(&self.namespace, &owner.into()))
    }
}

/// The merge patch from one spec to another. The target stays, and so does a retention policy that
/// a user has set.
fn change(old: &Value, new: &Value) -> Option<Value> {
    let fields = [
        "requiredPersistentTopology",
        "preferredPersistentTopology",
        "persistentPodAnnotations",
    ];
    let differing = fields.into_iter().filter(|field| old[field] != new[field]);
    let patch: Map<_, _> = differing
        .map(|field| (field.to_owned(), new[field].clone()))
        .collect();
    (!patch.is_empty()).then(|| json!({"spec": patch}))
}
