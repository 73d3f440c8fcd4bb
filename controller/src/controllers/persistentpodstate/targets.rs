//! Whose pods a PersistentPodState is of, and which workloads may ask for one.

use std::sync::Arc;

use berth_api::names::GROUP;
use berth_api::v1beta1::persistentpodstate::PersistentPodState;
use berth_kinds::persistentpodstate::{Generator, Target};
use berth_kinds::statefulset::ordinals;
use berth_runtime::object::owner_key;
use berth_runtime::{Key, Object, Resource, Store, object};
use berth_workload::gates::{Gate, Gates};
use berth_workload::owner::{OwnerKey, group};
use berth_workload::pod::Pod;

use super::{BY_TARGET, Reads};
use crate::watched::Watched;

/// Which kind of workload an object is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TargetKind {
    /// An Advanced StatefulSet.
    Ours,
    /// Kubernetes' own.
    Native,
    /// Of another controller, or of none.
    Other,
}

impl TargetKind {
    pub(crate) fn of(state: &PersistentPodState) -> Self {
        let target = &state.spec.target_ref;
        match (group(&target.api_version), &*target.kind) {
            (GROUP, "StatefulSet") => Self::Ours,
            ("apps", "StatefulSet") => Self::Native,
            _ => Self::Other,
        }
    }
}

/// Group, kind and name count, the version does not.
fn is_of(state: &PersistentPodState, (api_version, kind, name): (&str, &str, &str)) -> bool {
    let target = &state.spec.target_ref;
    target.name == name && target.kind == kind && group(&target.api_version) == group(api_version)
}

/// The one that keeps the records of this workload: the oldest, where there are several.
pub(crate) fn of_workload(
    states: &Store<Watched<PersistentPodState>>,
    namespace: &str,
    workload: (&str, &str, &str),
) -> Option<Arc<PersistentPodState>> {
    let all = states.by_index(&BY_TARGET, workload.2);
    let ours = all
        .iter()
        .filter(|state| state.namespace() == namespace && is_of(&state.0, workload));
    let age = |state: &&Arc<Watched<PersistentPodState>>| {
        let metadata = &state.0.metadata;
        (
            metadata.creation_timestamp.as_ref().map(|time| time.0),
            metadata.name.clone(),
        )
    };
    ours.min_by_key(age).map(|state| state.0.clone())
}

/// The one that keeps the records of this Advanced StatefulSet.
pub(crate) fn of_set(
    states: &Store<Watched<PersistentPodState>>,
    namespace: &str,
    set: &str,
) -> Option<Arc<PersistentPodState>> {
    of_workload(
        states,
        namespace,
        (
            &object::STATEFUL_SETS.api_version(),
            object::STATEFUL_SETS.kind,
            set,
        ),
    )
}

/// The name of the one that counts in place of this one.
pub(super) fn rival(
    states: &Store<Watched<PersistentPodState>>,
    state: &PersistentPodState,
) -> Option<String> {
    let target = &state.spec.target_ref;
    let namespace = state.metadata.namespace.as_deref().unwrap_or_default();
    let first = of_workload(
        states,
        namespace,
        (&target.api_version, &target.kind, &target.name),
    )?;
    first
        .metadata
        .name
        .clone()
        .filter(|_| first.metadata.uid != state.metadata.uid)
}

/// The one of a StatefulSet of the same name, Kubernetes' own or ours, whose pods this one's workload may have taken over.
pub(super) fn predecessor(
    states: &Store<Watched<PersistentPodState>>,
    state: &PersistentPodState,
) -> Option<Arc<PersistentPodState>> {
    let other = match TargetKind::of(state) {
        TargetKind::Ours => &object::NATIVE_STATEFUL_SETS,
        TargetKind::Native => &object::STATEFUL_SETS,
        TargetKind::Other => return None,
    };
    let namespace = state.metadata.namespace.as_deref().unwrap_or_default();
    of_workload(
        states,
        namespace,
        (
            &other.api_version(),
            other.kind,
            &state.spec.target_ref.name,
        ),
    )
}

impl Reads {
    /// The object's workload, and the pods that it controls.
    pub(super) fn target(
        &self,
        state: &PersistentPodState,
        gates: Gates,
    ) -> (Target, Vec<Arc<Pod>>) {
        let target = &state.spec.target_ref;
        let namespace = state.metadata.namespace.as_deref().unwrap_or_default();
        let pods = |owner: &OwnerKey<'_>| self.pods.owned_by(owner);
        let gone = (Target::Gone, Vec::new());
        match TargetKind::of(state) {
            TargetKind::Ours => self.sets.get(namespace, &target.name).map_or(gone, |set| {
                // None of a spec that is refused.
                let ordinals = ordinals(&set.0.spec, gates.has(Gate::StatefulSetStartOrdinal)).ok();
                (Target::Set(ordinals), pods(&owner_key(&*set)))
            }),
            TargetKind::Native => self
                .native
                .get(namespace, &target.name)
                .map_or(gone, |set| {
                    (Target::Set(set.0.ordinals.clone()), pods(&owner_key(&*set)))
                }),
            TargetKind::Other => {
                let Some((resource, store)) =
                    self.custom.of(group(&target.api_version), &target.kind)
                else {
                    return (Target::Unsupported, Vec::new());
                };
                match store.get(namespace, &target.name) {
                    None if !store.is_synced() => (Target::Unseen, Vec::new()),
                    None => gone,
                    Some(workload) => {
                        let owner = OwnerKey {
                            kind: resource.owner_kind(),
                            namespace,
                            uid: workload.uid(),
                        };
                        (Target::Set(workload.0.ordinals.clone()), pods(&owner))
                    }
                }
            }
        }
    }

    /// The workloads of this name, each as it may ask for an object of its name.
    pub(super) fn generators(&self, key: &Key) -> Vec<Generator> {
        let mut all = Vec::new();
        all.extend(self.sets.get(&key.namespace, &key.name).map(|set| {
            generator(
                object::STATEFUL_SETS,
                &*set,
                set.0.metadata.annotations.clone().unwrap_or_default(),
            )
        }));
        let foreign = self
            .native
            .get(&key.namespace, &key.name)
            .map(|set| (object::NATIVE_STATEFUL_SETS, set));
        for (resource, workload) in foreign.into_iter().chain(self.custom.of_name(key)) {
            let annotations = workload.0.metadata.annotations.iter();
            let annotations = annotations.map(|(key, value)| (key.to_string(), value.to_string()));
            all.push(generator(resource, &*workload, annotations.collect()));
        }
        all
    }

    /// The first of them, as the one on which is told what comes of its wish.
    pub(super) fn first_generator(&self, key: &Key) -> Option<berth_runtime::executor::Owner> {
        let Generator {
            resource,
            namespace,
            name,
            uid,
            ..
        } = self.generators(key).into_iter().next()?;
        Some(berth_runtime::executor::Owner {
            resource,
            namespace,
            name,
            uid,
        })
    }
}

fn generator<T: Object>(
    resource: Resource,
    workload: &T,
    annotations: std::collections::BTreeMap<String, String>,
) -> Generator {
    Generator {
        resource,
        namespace: workload.namespace().to_owned(),
        name: workload.name().to_owned(),
        uid: workload.uid().to_owned(),
        annotations,
        is_going: workload.terminating(),
    }
}
