//! The controller of every owner of pods: observe, decide, act, status.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use berth_api::fields::condition::{StatusCondition, WorkloadStatus};
use berth_runtime::driver::Next;
use berth_runtime::driver::turn;
use berth_runtime::object::owner_key;
use berth_runtime::queue::Queue;
use berth_runtime::{Change, Key, Object, Resource, Store};
use berth_workload::feature_gates::Gates;
use berth_workload::plan::{Outcome, Plan};
use berth_workload::pod_owner::decide::decide;
use berth_workload::pod_owner::status::status;
use berth_workload::pod_owner::{PodOwner, Snapshot, orphans};
use berth_workload::update::inplace::resize::Ability;
use berth_workload::update::pod_order::spread::is_constrained;
use berth_workload::update::podset::Phases;
use jiff::Timestamp;
use kube::{CustomResourceExt, Resource as _};
use serde::Serialize;
use serde_json::json;

use crate::budgets::BudgetStores;
use crate::context::{Context, LARGE, target};
use crate::explain::look::{Explains, Look};
use crate::explain::printed::Explained;
use crate::reconcile::controller::Controller;
use crate::reconcile::ended::EndedPods;
use crate::reconcile::overlapping;
use crate::reconcile::podset::{Observed, PodSetReads};
use crate::reconcile::unreadable;
use crate::status::reported::Reported;
use crate::status::throttle::StatusThrottle;
use crate::stores::reads::Reader;
use crate::stores::triggers;
use crate::stores::watched::{CustomResource, Watched};

/// The store of a kind's objects.
pub(crate) type Objects<K> = Arc<Store<Watched<<K as PodOwner>::Object>>>;

/// An owner of pods as its controller reads it.
pub(crate) trait Controlled:
    PodOwner<
        Object: CustomResource + CustomResourceExt,
        Status: Serialize + PartialEq + Send + Sync,
    > + Send
    + Sync
    + 'static
{
    /// Its name in logs and metrics.
    const NAME: &'static str;
    /// Whether its status says with which older objects its selector overlaps.
    const REPORTS_OVERLAP: bool;
    /// Whether a decision reads nodes for other reasons than to spread pods.
    const READS_NODES: bool;
    /// Whether its pods follow from the nodes, so that there is no plan without them.
    const NEEDS_NODES: bool = false;
    /// The stores that only this kind reads.
    type Own: Send + Sync + 'static;

    /// Declares its reads: its objects, and the stores that only this kind reads.
    fn reads(reader: &mut Reader<'_>) -> (Objects<Self>, Self::Own);

    /// Registers hooks beyond those of every owner of pods.
    fn wake(_reads: &PodOwnerController<Self>, _queue: &Arc<Queue<Key>>) {}

    /// Adds the parts of the snapshot that only this kind has, and narrows those that all kinds
    /// read.
    fn observe(
        reads: &PodOwnerController<Self>,
        set: &Watched<Self::Object>,
        observed: &mut Observed,
        gates: Gates,
        assigns_by_scheduler: bool,
    ) -> Self;

    /// How many pods the object has or wants, by numbers that need no count.
    fn pods(set: &Self::Object) -> i32;

    /// Whether a status is written at once, instead of at most once a second.
    fn is_urgent(old: Option<&Self::Status>, new: &Self::Status) -> bool;
}

/// The stores that a decision about an owner of pods reads.
pub(crate) struct PodOwnerController<K: Controlled> {
    pub(crate) sets: Objects<K>,
    pub(crate) of_pods: PodSetReads,
    /// The stores that only this kind reads.
    pub(crate) own: K::Own,
    reported: Reported,
    ended: EndedPods<K::Ended>,
    status_throttle: StatusThrottle,
}

impl<K: Controlled> Controller for PodOwnerController<K> {
    const RESOURCE: Resource = <K::Object as CustomResource>::RESOURCE;
    const NAME: &'static str = K::NAME;

    fn new(reader: &mut Reader<'_>) -> Self {
        let (sets, own) = K::reads(reader);
        Self {
            sets,
            own,
            of_pods: PodSetReads::new(reader),
            reported: Reported::default(),
            ended: EndedPods::default(),
            status_throttle: StatusThrottle::default(),
        }
    }

    /// Wakes an owner when it or something that belongs to it changes.
    fn wake(&self, queue: &Arc<Queue<Key>>, context: &Arc<Context>) {
        let (to, context, ended) = (queue.clone(), context.clone(), self.ended.clone());
        self.sets.on_change(move |change| match change {
            Change::Applied {
                old: Some(old),
                new,
            } if !is_trigger::<K>(&old.0, &new.0) => {}
            Change::Applied { new, .. } => to.add(Key::of(&**new)),
            Change::Deleted { old } => {
                context.expectations.forget(old.uid());
                ended.forget(old.uid());
            }
            Change::Synced => {}
        });
        let to = queue.clone();
        self.sets
            .on_unreadable(move |odd| to.add(Key::new(&odd.namespace, &odd.name)));
        if K::REPORTS_OVERLAP {
            overlapping::wake::<K>(&self.sets, queue);
        }
        self.of_pods.wake(&self.sets, queue);
        K::wake(self, queue);
    }

    /// One round for one owner.
    async fn reconcile(&self, context: &Context, key: Key) -> Next {
        let round = |set: Arc<_>| async move { round(self, context, &set).await };
        unreadable::by_last_read(context, (&self.sets, &self.reported), key, round).await
    }
}

/// Whether the change of an object is a reason to decide again.
pub(crate) fn is_trigger<
    K: PodOwner<Object: CustomResource + CustomResourceExt, Status: PartialEq>,
>(
    old: &K::Object,
    new: &K::Object,
) -> bool {
    triggers::is_trigger(
        (old.meta(), K::status(old)),
        (new.meta(), K::status(new)),
        |status| {
            let conditions = status.conditions().iter_mut();
            conditions.for_each(StatusCondition::clear_words);
        },
    )
}

/// Everything that a decision about this owner reads, from the stores alone.
pub(crate) fn observe<K: Controlled>(
    reads: &PodOwnerController<K>,
    set: &Watched<K::Object>,
    gates: Gates,
    resize: Ability,
    assigns_by_scheduler: bool,
) -> Snapshot<K> {
    let workload = K::workload(&set.0, gates);
    let mut observed =
        reads
            .of_pods
            .observe(&owner_key(set), workload.selector, workload.template, gates);
    let own = K::observe(reads, set, &mut observed, gates, assigns_by_scheduler);
    Snapshot {
        own,
        orphans: orphans::<K>(&set.0, reads.of_pods.orphaned(set.namespace())),
        overlapping: if K::REPORTS_OVERLAP {
            overlapping::older::<K>(&reads.sets, set)
        } else {
            Vec::new()
        },
        ended: reads.ended.of(set.uid()),
        set: set.0.clone(),
        pods: observed.pods,
        strays: observed.strays,
        revisions: observed.revisions,
        node_images: observed.node_images,
        nodes: observed.nodes,
        jobs: observed.jobs,
        unreadable: observed.unreadable,
        phases: Phases::default(),
        gates,
        resize,
        // Seeded by the operating system, anew for every hasher.
        seed: RandomState::new().build_hasher().finish(),
    }
}

async fn round<K: Controlled>(
    reads: &PodOwnerController<K>,
    context: &Context,
    set: &Watched<K::Object>,
) -> Next {
    let now = Timestamp::now();
    let is_large = usize::try_from(K::pods(&set.0)).is_ok_and(|pods| pods > LARGE);
    let decided = || {
        let (gates, resize) = (context.gates, context.resize);
        let snapshot = observe(reads, set, gates, resize, context.assigns_by_scheduler);
        context.has_all_of_others(set.uid(), &snapshot.pods)?;
        let mut plan = decide(&snapshot, now);
        plan.confirm_before_pods(Watched::<K::Object>::RESOURCE, target(set));
        Ok((snapshot, plan))
    };
    let (snapshot, plan): (Snapshot<K>, Plan) = match turn::decide(is_large, decided).await {
        Ok(decided) => decided,
        Err(next) => return next,
    };
    if let Some(ended) = K::ended(&snapshot, &plan, now) {
        reads.ended.note(set.uid(), |known| *known = ended);
    }
    let status = |outcome: &Outcome| {
        Some(turn::alone(is_large, || {
            status(&snapshot, &plan, outcome, now)
        }))
    };
    let is_urgent = |old: &Option<_>, new: &Option<_>| {
        new.as_ref()
            .is_some_and(|new| K::is_urgent(old.as_ref(), new))
    };
    let statuses = (K::status(&set.0), status, is_urgent);
    reads
        .status_throttle
        .carry_out(context, &plan, &reads.sets, set, statuses)
        .await
}

impl<K: Controlled> Explains for PodOwnerController<K> {
    type Object = K::Object;
    const NEEDS_NODES: bool = K::NEEDS_NODES;

    fn reads_nodes(&self) -> bool {
        let is_spread = |set: &Arc<Watched<K::Object>>| {
            is_constrained(K::workload(&set.0, Gates::default()).template)
        };
        K::READS_NODES || self.sets.all().iter().any(is_spread)
    }

    async fn explain(&self, look: &Look<'_>, stores: &BudgetStores) -> anyhow::Result<Explained> {
        let Some(set) = self.sets.get(&look.namespaces.explained, look.name) else {
            return look.is_missing::<Self>();
        };
        let snapshot = observe(self, &set, look.gates, look.resize, true);
        let now = Timestamp::now();
        let plan = decide(&snapshot, now);
        let (carried_out, outcome) = look.carried_out(&plan, stores, &*set).await;
        let status = status(&snapshot, &plan, &outcome, now);
        let before = json!(K::status(&snapshot.set));
        Ok(look.explained::<Self>(carried_out, &json!(status), &before))
    }
}

#[cfg(test)]
mod tests;
