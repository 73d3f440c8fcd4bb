//! The workloads of a UnitedDeployment's subsets, of all four kinds.

use crate::reconcile::podset::unreadable_in;
use crate::stores::triggers::each;
use crate::stores::watched::by_namespace;
use crate::stores::watched::{
    SUBSET_CLONE_SETS, SUBSET_DEPLOYMENTS, SUBSET_NATIVE_SETS, SUBSET_STATEFUL_SETS, Watched,
    namespace_of_subset,
};
use berth_api::text::JsonText;
use berth_api::v1beta1::cloneset::CloneSet;
use berth_api::v1beta1::statefulset::StatefulSet;
use berth_api::v1beta1::uniteddeployment::UnitedDeployment;
use berth_kinds::uniteddeployment::UNITED_DEPLOYMENTS;
use berth_kinds::uniteddeployment::{SubsetKind, SubsetWorkload};
use berth_runtime::queue::Queue;
use berth_runtime::store::event::Odd;
use berth_runtime::{Key, Object, Store};
use berth_workload::objects::owner::{self, OwnerKey, Reference};
use berth_workload::objects::pod::Pod;
use berth_workload::objects::untyped_workload::stateful::StatefulWorkload;
use berth_workload::objects::untyped_workload::{UntypedWorkload, WorkloadStatus};
use berth_workload::update::podset::Unreadable;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use std::sync::Arc;

/// The workloads of all four kinds.
pub(super) struct Workloads {
    pub(super) native: Arc<Store<Watched<StatefulWorkload>>>,
    pub(super) stateful_sets: Arc<Store<Watched<StatefulSet>>>,
    pub(super) clone_sets: Arc<Store<Watched<CloneSet>>>,
    pub(super) deployments: Arc<Store<Watched<UntypedWorkload>>>,
}

/// Wakes the UnitedDeployments that an unreadable object names as its owners.
pub(super) fn wake_owners(queue: &Queue<Key>, odd: &Odd) {
    let owners = odd.owners.iter().map(Reference::from);
    let owners = owners.filter(|owner| UNITED_DEPLOYMENTS.owner_kind().is_of(owner));
    owners.for_each(|owner| queue.add(Key::new(&odd.namespace, owner.name)));
}

/// Whether the reference names an owner of this kind and name, maybe an earlier one.
pub(super) fn is_namesake(owner: &OwnerKey<'_>, name: &str, reference: &Reference<'_>) -> bool {
    owner.kind.is_of(reference) && reference.name == name
}

impl Workloads {
    /// The workloads with a subset's name that this owner or an earlier one of its name controls,
    /// and those of its namespace that no object controls.
    pub(super) fn of(&self, owner: &OwnerKey<'_>, name: &str) -> Vec<SubsetWorkload> {
        let is = |metadata: &ObjectMeta| {
            owner::controller(metadata).is_none_or(|reference| is_namesake(owner, name, &reference))
        };
        let native = self.native.by_index(&SUBSET_NATIVE_SETS, owner.namespace);
        let native = native
            .iter()
            .filter_map(|set| set.0.subset.as_ref())
            .filter(|set| is(&set.metadata));
        let native = native.map(|set| (SubsetKind::StatefulSet, set.clone()));
        let sets = self
            .stateful_sets
            .by_index(&SUBSET_STATEFUL_SETS, owner.namespace);
        let sets = sets.iter().filter(|set| is(&set.0.metadata));
        let sets = sets.map(|set| {
            (
                SubsetKind::AdvancedStatefulSet,
                untyped(&set.0.metadata, &set.0.spec, &set.0.status),
            )
        });
        let clones = self
            .clone_sets
            .by_index(&SUBSET_CLONE_SETS, owner.namespace);
        let clones = clones.iter().filter(|set| is(&set.0.metadata));
        let clones = clones.map(|set| {
            (
                SubsetKind::CloneSet,
                untyped(&set.0.metadata, &set.0.spec, &set.0.status),
            )
        });
        let deployments = self
            .deployments
            .by_index(&SUBSET_DEPLOYMENTS, owner.namespace);
        let deployments = deployments
            .iter()
            .filter(|deployment| is(&deployment.0.metadata));
        let deployments =
            deployments.map(|deployment| (SubsetKind::Deployment, deployment.0.clone()));
        let all = native.chain(sets).chain(clones).chain(deployments);
        all.map(|(kind, object)| SubsetWorkload { kind, object })
            .collect()
    }

    /// The workloads of this owner that cannot be read.
    pub(super) fn unreadable_of(&self, owner: &OwnerKey<'_>) -> Vec<Unreadable> {
        let mut all = unreadable_in(&self.native, owner);
        all.extend(unreadable_in(&self.stateful_sets, owner));
        all.extend(unreadable_in(&self.clone_sets, owner));
        all.extend(unreadable_in(&self.deployments, owner));
        all
    }

    pub(super) fn wake_for_unreadable(&self, queue: &Arc<Queue<Key>>) {
        let wake = || {
            let to = queue.clone();
            move |odd: &Odd| wake_owners(&to, odd)
        };
        self.native.on_unreadable(wake());
        self.stateful_sets.on_unreadable(wake());
        self.clone_sets.on_unreadable(wake());
        self.deployments.on_unreadable(wake());
    }

    /// Wakes the owner of a workload that changes. For a workload without an owner it wakes all
    /// that could adopt it.
    pub(super) fn wake(
        &self,
        united: &Arc<Store<Watched<UnitedDeployment>>>,
        queue: &Arc<Queue<Key>>,
    ) {
        let concerned = |united: &Arc<Store<Watched<UnitedDeployment>>>,
                         queue: &Arc<Queue<Key>>| {
            let (united, to) = (united.clone(), queue.clone());
            move |metadata: &ObjectMeta| {
                let Some(namespace) = namespace_of_subset(metadata) else {
                    return;
                };
                match owner::controller(metadata) {
                    Some(owner) if UNITED_DEPLOYMENTS.owner_kind().is_of(&owner) => {
                        to.add(Key::new(namespace, owner.name));
                    }
                    Some(_) => {}
                    None => united
                        .by_index(&by_namespace(), namespace)
                        .iter()
                        .for_each(|one| to.add(Key::of(&**one))),
                }
            }
        };
        let wake = concerned(united, queue);
        self.native.on_change(move |change| {
            each(change, |set| {
                set.0.subset.iter().for_each(|set| wake(&set.metadata))
            });
        });
        let wake = concerned(united, queue);
        self.stateful_sets
            .on_change(move |change| each(change, |set| wake(&set.0.metadata)));
        let wake = concerned(united, queue);
        self.clone_sets
            .on_change(move |change| each(change, |set| wake(&set.0.metadata)));
        let wake = concerned(united, queue);
        self.deployments
            .on_change(move |change| each(change, |deployment| wake(&deployment.0.metadata)));
    }

    /// The name of the UnitedDeployment whose workload has this pod.
    pub(super) fn united_of(&self, pod: &Pod) -> Option<String> {
        let owner = pod.metadata.controller()?;
        let (namespace, name) = (&*pod.metadata.namespace, &*owner.name);
        let of = |metadata: &ObjectMeta| {
            let owner = owner::controller(metadata)
                .filter(|owner| UNITED_DEPLOYMENTS.owner_kind().is_of(owner))?;
            Some(owner.name.to_owned())
        };
        match &*owner.kind {
            "CloneSet" => of(&self.clone_sets.get(namespace, name)?.0.metadata),
            "StatefulSet" => {
                let advanced = self.stateful_sets.get(namespace, name);
                let advanced = advanced
                    .filter(|set| *owner.uid == *set.uid())
                    .and_then(|set| of(&set.0.metadata));
                advanced.or_else(|| {
                    of(&self
                        .native
                        .get(namespace, name)?
                        .0
                        .subset
                        .as_ref()?
                        .metadata)
                })
            }
            "ReplicaSet" => of(&self
                .deployments
                .get(namespace, name.rsplit_once('-')?.0)?
                .0
                .metadata),
            _ => None,
        }
    }
}

/// A typed workload in the untyped form that decisions read.
fn untyped<S: Serialize, T: Serialize>(
    metadata: &ObjectMeta,
    spec: &S,
    status: &Option<T>,
) -> Arc<UntypedWorkload> {
    let status =
        serde_json::to_value(status).and_then(serde_json::from_value::<Option<WorkloadStatus>>);
    let spec = serde_json::to_value(spec).unwrap_or_default();
    let status = status.ok().flatten().unwrap_or_default();
    Arc::new(UntypedWorkload::new(
        metadata.clone(),
        JsonText::from(&spec),
        status,
    ))
}
