//! The UnitedDeployment controller: one workload for each subset.

mod metric;
mod workloads;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_api::names::label::{KRUISE_CONTROLLER_REVISION_HASH, SUBSET_NAME};
use berth_api::v1beta1::uniteddeployment::UnitedDeployment;
use berth_kinds::uniteddeployment::UNITED_DEPLOYMENTS;
use berth_kinds::uniteddeployment::{Round, Snapshot, decide, is_urgent, status};
use berth_runtime::driver::Next;
use berth_runtime::object::owner_key;
use berth_runtime::queue::Queue;
use berth_runtime::store::pods;
use berth_runtime::{Change, Key, Object, Resource, Store};
use berth_workload::objects::owner::Reference;
use berth_workload::objects::pod::Pod;
use berth_workload::plan::Outcome;
use berth_workload::update::revision::{self, Revision};
use jiff::Timestamp;

use crate::budgets::BudgetStores;
use crate::context::Context;
use crate::explain::look::{Explains, Look};
use crate::explain::printed::Explained;
use crate::reconcile::controller::Controller;
use crate::reconcile::podset::unreadable_in;
use crate::reconcile::unreadable;
use crate::status::metric::register;
use crate::status::refused::Refused;
use crate::status::reported::Reported;
use crate::status::throttle::{StatusThrottle, at_latest};
use crate::stores::reads::Reader;
use crate::stores::triggers::each;
use crate::stores::watched::{ORPHANED_REVISIONS, Watched};
use berth_kinds::uniteddeployment::explain;
use prometheus_client::registry::Registry;
use serde_json::json;
use workloads::{Workloads, is_namesake, wake_owners};

/// The shortest time between two writes of a status that differs only in numbers of pods.
const PACE: Duration = Duration::from_secs(10);

/// The stores that a decision reads.
pub(crate) struct UnitedDeploymentController {
    pub(crate) united: Arc<Store<Watched<UnitedDeployment>>>,
    workloads: Arc<Workloads>,
    revisions: Arc<Store<Watched<Revision>>>,
    pods: Arc<Store<Pod>>,
    reported: Reported,
    refused: Refused,
    status_throttle: StatusThrottle,
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
            reported: Reported::default(),
            refused: Refused::default(),
            status_throttle: StatusThrottle::of(PACE),
        }
    }

    fn register(registry: &mut Registry, reader: &mut Reader<'_>) {
        register::<UnitedDeployment>(registry, &reader.read());
    }

    /// Wakes a UnitedDeployment when it, one of its workloads, their pods or one of its revisions
    /// changes.
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
        unreadable::by_last_read(context, (&self.united, &self.reported), key, round).await
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
            .status_throttle
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
        // The store can show the release of a workload before the release of the workload's
        // revision.
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

impl Explains for UnitedDeploymentController {
    type Object = UnitedDeployment;
    const OF_BUDGETS: bool = false;

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
