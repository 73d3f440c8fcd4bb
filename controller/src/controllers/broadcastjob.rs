//! The BroadcastJob controller: observe, decide, act, status.

mod gone;

use berth_workload::objects::pod::Pod;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_api::v1beta1::broadcastjob::BroadcastJob;
use berth_kinds::broadcastjob::BROADCAST_JOBS;
use berth_kinds::broadcastjob::{
    Snapshot, Triggers, decide, is_over, is_trigger as is_trigger_of_node, is_urgent, status,
};
use berth_runtime::driver::Next;
use berth_runtime::driver::turn;
use berth_runtime::object::owner_key;
use berth_runtime::queue::Queue;
use berth_runtime::store::event::Odd;
use berth_runtime::{Change, Key, Object, Resource, Store};
use berth_workload::feature_gates::Gates;
use berth_workload::objects::node::Node;
use berth_workload::objects::owner::Reference;
use berth_workload::plan::{Action, Outcome, Plan};
use berth_workload::update::podset::{Phases, Unreadable};
use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};

use crate::budgets::BudgetStores;
use crate::context::{Context, LARGE, target};
use crate::explain::look::{Explains, Look};
use crate::explain::printed::Explained;
use crate::reconcile::controller::Controller;
use crate::reconcile::unreadable;
use crate::status::reported::Reported;
use crate::status::throttle::StatusThrottle;
use crate::stores::reads::Reader;
use crate::stores::triggers::{self, each};
use crate::stores::watched::Watched;
use gone::{Gone, managed_by};
use serde_json::json;

/// The stores that a decision about a BroadcastJob reads.
pub(crate) struct BroadcastJobController {
    pub(crate) jobs: Arc<Store<Watched<BroadcastJob>>>,
    pods: Arc<Store<Pod>>,
    nodes: Arc<Store<Watched<Node>>>,
    gone: Arc<Gone>,
    looked: Arc<Looked>,
    status_throttle: StatusThrottle,
    reported: Reported,
}

/// Which changes of nodes concern which job, among jobs that are not over.
#[derive(Default)]
struct AllTriggers(Mutex<HashMap<Key, Triggers>>);

/// By uid of a job: when it was last reconciled.
#[derive(Default)]
struct Looked(Mutex<HashMap<String, Instant>>);

impl Controller for BroadcastJobController {
    const RESOURCE: Resource = BROADCAST_JOBS;
    const NAME: &'static str = "broadcastjob";

    fn new(reader: &mut Reader<'_>) -> Self {
        Self {
            jobs: reader.read(),
            pods: reader.read(),
            nodes: reader.read(),
            gone: Arc::default(),
            looked: Arc::default(),
            status_throttle: StatusThrottle::default(),
            reported: Reported::default(),
        }
    }

    /// Wakes a job when it, one of its pods, or what a node is to it changes.
    fn wake(&self, queue: &Arc<Queue<Key>>, context: &Arc<Context>) {
        let triggers = Arc::<AllTriggers>::default();
        let (to, context, of_jobs) = (queue.clone(), context.clone(), triggers.clone());
        let (gone, looked) = (self.gone.clone(), self.looked.clone());
        self.jobs.on_change(move |change| match change {
            Change::Applied {
                old: Some(old),
                new,
            } if !is_trigger(&old.0, &new.0) => {}
            Change::Applied { old, new } => {
                of_jobs.note(old.as_deref(), new);
                gone.drop_recorded(new);
                to.add(Key::of(&**new));
            }
            Change::Deleted { old } => {
                of_jobs.lock().remove(&Key::of(&**old));
                gone.forget(old.uid());
                looked.lock().remove(old.uid());
                context.expectations.forget(old.uid());
            }
            Change::Synced => {}
        });
        let to = queue.clone();
        self.jobs
            .on_unreadable(move |odd| to.add(Key::new(&odd.namespace, &odd.name)));
        let (to, gone) = (queue.clone(), self.gone.clone());
        let (jobs, nodes) = (self.jobs.clone(), self.nodes.clone());
        self.pods.on_change(move |change| {
            gone.note(&jobs, &nodes, change);
            each(change, |pod| wake_owner(&to, pod));
        });
        let to = queue.clone();
        self.pods.on_unreadable(move |odd| {
            for owner in odd
                .owners
                .iter()
                .map(Reference::from)
                .filter(|owner| BROADCAST_JOBS.owner_kind().is_of(owner))
            {
                to.add(Key::new(&odd.namespace, owner.name));
            }
        });
        let to = queue.clone();
        self.nodes.on_change(move |change| {
            let (old, new) = match change {
                Change::Applied { old, new } => (old.as_ref().map(|old| &*old.0), Some(&*new.0)),
                Change::Deleted { old } => (Some(&*old.0), None),
                Change::Synced => return,
            };
            if is_trigger_of_node(old, new) {
                triggers
                    .concerned(old, new)
                    .into_iter()
                    .for_each(|job| to.add(job));
            }
        });
    }

    /// One round for one job.
    async fn reconcile(&self, context: &Context, key: Key) -> Next {
        let round = |job: Arc<_>| async move { round(self, context, &job).await };
        unreadable::by_last_read(context, (&self.jobs, &self.reported), key, round).await
    }
}

/// Wakes the job by its name. The reconcile of the job checks whether it really owns the pod.
fn wake_owner(queue: &Queue<Key>, pod: &Pod) {
    if let Some(owner) = managed_by(pod) {
        queue.add(Key::new(&pod.metadata.namespace, owner.name));
    }
}

fn is_trigger(old: &BroadcastJob, new: &BroadcastJob) -> bool {
    triggers::is_trigger(
        (&old.metadata, &old.status),
        (&new.metadata, &new.status),
        |status| {
            for condition in &mut status.conditions {
                condition.message = String::new();
                (condition.last_probe_time, condition.last_transition_time) = (None, None);
            }
        },
    )
}

impl AllTriggers {
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Triggers>> {
        self.0.lock()
    }

    /// Notes a job as it is now. Its template is parsed only if it changed: a status changes with
    /// each pod that ends.
    fn note(&self, old: Option<&Watched<BroadcastJob>>, new: &Watched<BroadcastJob>) {
        let key = Key::of(new);
        if is_over(&new.0) {
            self.lock().remove(&key);
            return;
        }
        let is_as_before = old.is_some_and(|old| old.0.spec.template == new.0.spec.template);
        if is_as_before && self.lock().contains_key(&key) {
            return;
        }
        let triggers = Triggers::new(&new.0);
        self.lock().insert(key, triggers);
    }

    /// The jobs to which this change of a node matters.
    fn concerned(&self, old: Option<&Node>, new: Option<&Node>) -> Vec<Key> {
        let all = self.lock();
        all.iter()
            .filter(|(_, triggers)| triggers.is_one(old, new))
            .map(|(key, _)| key.clone())
            .collect()
    }
}

impl Looked {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.0.lock()
    }

    fn of(&self, job: &str) -> Option<Instant> {
        self.lock().get(job).copied()
    }
}

/// The rest of this time.
fn rest(since: Option<Instant>, time: Duration) -> Option<Duration> {
    time.checked_sub(since?.elapsed())
        .filter(|rest| !rest.is_zero())
}

/// How long the change of one pod waits for changes of others. A decision reads all nodes: with
/// thousands of them, a decision after each change would take a processor for itself.
fn pace(nodes: usize) -> Duration {
    const FEW: usize = 100;
    const LONGEST: Duration = Duration::from_millis(500);
    let milliseconds = if nodes > FEW {
        u64::try_from(nodes / 10).unwrap_or(u64::MAX)
    } else {
        0
    };
    Duration::from_millis(milliseconds).min(LONGEST)
}

/// Everything that a decision about this job reads, from the stores alone.
pub(crate) fn observe(
    reads: &BroadcastJobController,
    job: &Watched<BroadcastJob>,
    gates: Gates,
) -> Snapshot {
    let owner = owner_key(job);
    let nodes: Vec<_> = reads
        .nodes
        .all()
        .iter()
        .map(|node| node.0.clone())
        .collect();
    let unreadable = |odd: &Arc<Odd>| Unreadable {
        kind: Pod::RESOURCE.kind,
        name: odd.name.clone(),
        error: odd.error.clone(),
    };
    Snapshot {
        pods: reads.pods.owned_by(&owner),
        gone: reads.gone.of(job, &nodes),
        unreadable: reads
            .pods
            .unreadable_of(&owner)
            .iter()
            .map(unreadable)
            .collect(),
        job: job.0.clone(),
        phases: Phases::default(),
        nodes,
        gates,
    }
}

async fn round(
    reads: &BroadcastJobController,
    context: &Context,
    job: &Watched<BroadcastJob>,
) -> Next {
    if let Some(rest) = rest(reads.looked.of(job.uid()), pace(reads.nodes.len())) {
        return Next::After(rest);
    }
    let now = Timestamp::now();
    let is_large = reads.nodes.len() > LARGE;
    let decided = || {
        let snapshot = observe(reads, job, context.gates);
        context.has_all_of_others(job.uid(), &snapshot.pods)?;
        let mut plan = decide(&snapshot, now);
        plan.confirm_before_pods(Watched::<BroadcastJob>::RESOURCE, target(job));
        Ok((snapshot, plan))
    };
    let (snapshot, plan): (Snapshot, Plan) = match turn::decide(is_large, decided).await {
        Ok(decided) => decided,
        Err(next) => return next,
    };
    // Pods of thousands of nodes end, and each status names them all. So a change of numbers alone
    // may wait. Urgent changes are written together with the actions that belong to them. If a
    // status was written in this second, both wait.
    let is_urgent = |old: &Option<_>, new: &Option<_>| {
        new.as_ref().is_some_and(|new| is_urgent(old.as_ref(), new))
    };
    let hold = reads.status_throttle.holds(job.uid());
    let foreseen = || {
        Some(turn::alone(is_large, || {
            status(&snapshot, &plan, &Outcome::default(), now)
        }))
    };
    if !hold.is_zero() && !expires(&plan) && is_urgent(&job.0.status, &foreseen()) {
        return Next::After(hold);
    }
    let status = |outcome: &Outcome| {
        let is_over = outcome.failures.is_empty() && expires(&plan);
        (!is_over).then(|| {
            Some(turn::alone(is_large, || {
                status(&snapshot, &plan, outcome, now)
            }))
        })
    };
    let next = reads
        .status_throttle
        .carry_out(
            context,
            &plan,
            &reads.jobs,
            job,
            (&job.0.status, status, is_urgent),
        )
        .await;
    if reads
        .jobs
        .get(job.namespace(), job.name())
        .is_some_and(|known| known.uid() == job.uid())
    {
        reads
            .looked
            .lock()
            .insert(job.uid().to_owned(), Instant::now());
    }
    next
}

/// After this plan the job is gone, so no status is written.
fn expires(plan: &Plan) -> bool {
    plan.actions().any(|action| {
        matches!(
            action,
            Action::Delete {
                resource: BROADCAST_JOBS,
                ..
            }
        )
    })
}

impl Explains for BroadcastJobController {
    type Object = BroadcastJob;
    const NEEDS_NODES: bool = true;

    async fn explain(&self, look: &Look<'_>, stores: &BudgetStores) -> anyhow::Result<Explained> {
        let Some(job) = self.jobs.get(&look.namespaces.explained, look.name) else {
            return look.is_missing::<Self>();
        };
        let (snapshot, now) = (observe(self, &job, look.gates), Timestamp::now());
        let plan = decide(&snapshot, now);
        let (carried_out, outcome) = look.carried_out(&plan, stores, &*job).await;
        let status = status(&snapshot, &plan, &outcome, now);
        Ok(look.explained::<Self>(carried_out, &json!(status), &json!(snapshot.job.status)))
    }
}

#[cfg(test)]
mod tests;
