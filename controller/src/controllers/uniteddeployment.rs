//! The UnitedDeployment controller: one workload for each subset.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_api::names::label::{KRUISE_CONTROLLER_REVISION_HASH, SUBSET_NAME};
use berth_api::text::JsonText;
use berth_api::v1beta1::cloneset::CloneSet;
use berth_api::v1beta1::statefulset::StatefulSet;
use berth_api::v1beta1::uniteddeployment::UnitedDeployment;
use berth_kinds::uniteddeployment::{
    Round, Snapshot, SubsetKind, SubsetWorkload, decide, is_urgent, status,
};
use berth_runtime::driver::Next;
use berth_runtime::feed::Odd;
use berth_runtime::object::{UNITED_DEPLOYMENTS, owner_key};
use berth_runtime::queue::Queue;
use berth_runtime::store::pods;
use berth_runtime::{Change, Key, Object, Resource, Store};
use berth_workload::objects::owner::{self, OwnerKey, Reference};
use berth_workload::objects::pod::Pod;
use berth_workload::objects::untyped_workload::stateful::StatefulWorkload;
use berth_workload::objects::untyped_workload::{UntypedWorkload, WorkloadStatus};
use berth_workload::plan::Outcome;
use berth_workload::update::podset::Unreadable;
use berth_workload::update::revision::{self, Revision};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;

use crate::budgets::BudgetStores;
use crate::context::Context;
use crate::controller::Controller;
use crate::explain::look::{Explains, Look};
use crate::explain::printed::Explained;
use crate::podset::unreadable_in;
use crate::reads::Reader;
use crate::refused::Refused;
use crate::reported::Reported;
use crate::status_throttle::{StatusThrottle, at_latest};
use crate::triggers::each;
use crate::unreadable;
use crate::watched::by_namespace;
use crate::watched::{
    ORPHANED_REVISIONS, SUBSET_CLONE_SETS, SUBSET_DEPLOYMENTS, SUBSET_NATIVE_SETS,
    SUBSET_STATEFUL_SETS, Watched, namespace_of_subset,
};
use berth_kinds::uniteddeployment::explain;
use serde_json::json;

/// At least between two writes of a status where only numbers of pods differ.
const PACE: Duration = Duration::from_secs(10);

/// What a decision is made of.
pub(crate) struct UnitedDeploymentController {
    pub(crate) united: Arc<Store<Watched<UnitedDeployment>>>,
    workloads: Arc<Workloads>,
    revisions: Arc<Store<Watched<Revision>>>,
    pods: Arc<Store<Pod>>,
    told: Reported,
    refused: Refused,
    paced: StatusThrottle,
}

/// The workloads of all four kinds.
struct Workloads {
    native: Arc<Store<Watched<StatefulWorkload>>>,
    stateful_sets: Arc<Store<Watched<StatefulSet>>>,
    clone_sets: Arc<Store<Watched<CloneSet>>>,
    deployments: Arc<Store<Watched<UntypedWorkload>>>,
}

impl Controller for UnitedDeploymentController {
    const RESOURCE: Resource = UNITED_DEPLOYMENTS;
    const NAME: &'static str = "uniteddeployment";

    fn new(reader: &mut Reader<'_>) -> Self {
        let workloads = Workloads {
            native: reader.read(),
            stateful_sets: reader.read(),
            clone_sets: reader.read(),
            deployments: reader.read(),
        };
        Self {
            united: reader.read(),
            workloads: Arc::new(workloads),
            revisions: reader.read(),
            pods: reader.read(),
            told: Reported::default(),
            refused: Refused::default(),
            paced: StatusThrottle::of(PACE),
        }
    }

    /// Wakes a UnitedDeployment when it, one of its workloads, their pods or one of its revisions changes.
    fn wake(&self, queue: &Arc<Queue<Key>>, context: &Arc<Context>) {
        let (to, context) = (queue.clone(), context.clone());
        self.united.on_change(move |change| match change {
            Change::Applied { new, .. } => to.add(Key::of(&**new)),
            Change::Deleted { old } => context.expectations.forget(old.uid()),
            Change::Synced => {}
        });
        let to = queue.clone();
        self.united
            .on_unreadable(move |odd| to.add(Key::new(&odd.namespace, &odd.name)));
        self.workloads.wake(&self.united, queue);
        self.workloads.wake_for_unreadable(queue);
        let to = queue.clone();
        self.revisions
            .on_unreadable(move |odd| wake_owners(&to, odd));
        let to = queue.clone();
        self.revisions.on_change(move |change| {
            each(change, |revision| {
                let metadata = &revision.0.metadata;
                let owner = metadata.controller().map(Reference::from);
                if let Some(owner) =
                    owner.filter(|owner| UNITED_DEPLOYMENTS.owner_kind().is_of(owner))
                {
                    to.add(Key::new(&metadata.namespace, owner.name));
                }
            });
        });
        let (to, workloads) = (queue.clone(), self.workloads.clone());
        self.pods.on_change(move |change| {
            each(change, |pod| {
                let owner = pod
                    .metadata
                    .label(SUBSET_NAME)
                    .and_then(|_| workloads.united_of(pod));
                owner
                    .iter()
                    .for_each(|owner| to.add(Key::new(&pod.metadata.namespace, owner)));
            });
        });
    }

    /// One round for one UnitedDeployment.
    async fn reconcile(&self, context: &Context, key: Key) -> Next {
        let round = |united: Arc<_>| async move { self.round(context, &united).await };
        unreadable::by_last_read(context, (&self.united, &self.told), key, round).await
    }
}

impl UnitedDeploymentController {
    async fn round(&self, context: &Context, united: &Watched<UnitedDeployment>) -> Next {
        let snapshot = self.observe(united);
        let (now, began) = (Timestamp::now(), Instant::now());
        let round = Round::of(&snapshot, now);
        let mut plan = decide(&snapshot, &round, now);
        let (held, wait) = self.refused.hold(united.uid(), &mut plan, began);
        let status = |outcome: &Outcome| {
            self.refused.note(united.uid(), &plan, outcome, began);
            let failures = held.iter().chain(&outcome.failures).cloned().collect();
            status(&snapshot, &round, &plan, &Outcome { failures }, now).map(Some)
        };
        let status = (&united.0.status, status, is_urgent);
        let next = self
            .paced
            .carry_out(context, &plan, &self.united, united, status)
            .await;
        if let Some(wait) = wait {
            at_latest(next, wait)
        } else {
            next
        }
    }

    /// Everything that a decision reads, from the stores alone.
    pub(crate) fn observe(&self, united: &Watched<UnitedDeployment>) -> Snapshot {
        let owner = owner_key(united);
        let revisions = self.revisions.owned_by(&owner);
        let mut revisions: Vec<_> = revisions
            .iter()
            .map(|revision| revision.0.clone())
            .collect();
        revision::sort(&mut revisions);
        let workloads = self.workloads.of(&owner, united.name());
        let orphans = self
            .revisions
            .by_index(&ORPHANED_REVISIONS, united.namespace());
        let mut orphans: Vec<_> = orphans.iter().map(|revision| revision.0.clone()).collect();
        // The store can show the release of a workload before the release of the workload's revision.
        let labels: BTreeSet<_> = workloads
            .iter()
            .filter_map(|it| it.object.label(KRUISE_CONTROLLER_REVISION_HASH))
            .collect();
        let named = labels
            .iter()
            .filter_map(|name| self.revisions.get(united.namespace(), name));
        let is_predecessors = |revision: &Watched<Revision>| {
            let other = revision.0.metadata.controller().map(Reference::from);
            other.is_some_and(|other| {
                is_namesake(&owner, united.name(), &other) && other.uid != owner.uid
            })
        };
        orphans.extend(
            named
                .filter(|revision| is_predecessors(revision))
                .map(|revision| revision.0.clone()),
        );
        let pods = self.pods.by_index(&pods::BY_NAMESPACE, united.namespace());
        let pods = pods
            .into_iter()
            .filter(|pod| pod.metadata.label(SUBSET_NAME).is_some())
            .collect();
        let mut unreadable = self.workloads.unreadable_of(&owner);
        unreadable.extend(unreadable_in(&self.revisions, &owner));
        Snapshot {
            united: united.0.clone(),
            workloads,
            revisions,
            orphans,
            pods,
            unreadable,
        }
    }
}

/// Wakes the UnitedDeployments that an unreadable object names as its owners.
fn wake_owners(queue: &Queue<Key>, odd: &Odd) {
    let owners = odd.owners.iter().map(Reference::from);
    let owners = owners.filter(|owner| UNITED_DEPLOYMENTS.owner_kind().is_of(owner));
    owners.for_each(|owner| queue.add(Key::new(&odd.namespace, owner.name)));
}

/// Whether the reference names an owner of this kind and name, maybe an earlier one.
fn is_namesake(owner: &OwnerKey<'_>, name: &str, reference: &Reference<'_>) -> bool {
    owner.kind.is_of(reference) && reference.name == name
}

impl Workloads {
    /// The workloads with a subset's name that this owner or an earlier one of its name controls, and those of its
    /// namespace that no object controls.
    fn of(&self, owner: &OwnerKey<'_>, name: &str) -> Vec<SubsetWorkload> {
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
    fn unreadable_of(&self, owner: &OwnerKey<'_>) -> Vec<Unreadable> {
        let mut all = unreadable_in(&self.native, owner);
        all.extend(unreadable_in(&self.stateful_sets, owner));
        all.extend(unreadable_in(&self.clone_sets, owner));
        all.extend(unreadable_in(&self.deployments, owner));
        all
    }

    fn wake_for_unreadable(&self, queue: &Arc<Queue<Key>>) {
        let wake = || {
            let to = queue.clone();
            move |odd: &Odd| wake_owners(&to, odd)
        };
        self.native.on_unreadable(wake());
        self.stateful_sets.on_unreadable(wake());
        self.clone_sets.on_unreadable(wake());
        self.deployments.on_unreadable(wake());
    }

    /// Wakes the owner of a workload that changes; of one without an owner all that could adopt it.
    fn wake(&self, united: &Arc<Store<Watched<UnitedDeployment>>>, queue: &Arc<Queue<Key>>) {
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
    fn united_of(&self, pod: &Pod) -> Option<String> {
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

/// A typed workload as decisions see all of them.
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

impl Explains for UnitedDeploymentController {
    type Object = UnitedDeployment;

    fn reads_nodes(&self) -> bool {
        false
    }

    async fn explain(&self, look: &Look<'_>, _stores: &BudgetStores) -> anyhow::Result<Explained> {
        let Some(united) = self.united.get(&look.namespaces.explained, look.name) else {
            return look.is_missing::<Self>();
        };
        let (snapshot, now) = (self.observe(&united), Timestamp::now());
        let round = Round::of(&snapshot, now);
        let mut plan = decide(&snapshot, &round, now);
        let status = status(&snapshot, &round, &plan, &Outcome::default(), now);
        plan.waiting = explain(&snapshot, &round);
        let explained =
            look.explained::<Self>(plan, &json!(status), &json!(snapshot.united.status));
        Ok(Explained {
            heading: "Subsets:",
            ..explained
        })
    }
}
