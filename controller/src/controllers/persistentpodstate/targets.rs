//! The pods of a PersistentPodState, and the workloads that may ask for one.

use std::sync::Arc;

use berth_api::v1beta1::persistentpodstate::PersistentPodState;
use berth_kinds::persistentpodstate::{Generator, Target};
use berth_kinds::statefulset::ordinals;
use berth_runtime::object::owner_key;
use berth_runtime::{Key, Object, Resource, object};
use berth_workload::feature_gates::{Gate, Gates};
use berth_workload::objects::owner::{OwnerKey, group};
use berth_workload::objects::pod::Pod;

use super::PersistentPodStateController;
use crate::admission::pod_states::TargetKind;

impl PersistentPodStateController {
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
                // No ordinals from a spec that is refused.
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

    /// The workloads of this name, which may ask for an object of the same name.
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

    /// The first of them: the events about the object that it asked for are of this workload.
    pub(super) fn first_generator(&self, key: &Key) -> Option<berth_runtime::events::Owner> {
        let Generator {
            resource,
            namespace,
            name,
            uid,
            ..
        } = self.generators(key).into_iter().next()?;
        Some(berth_runtime::events::Owner {
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
