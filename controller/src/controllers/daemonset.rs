//! The Advanced DaemonSet controller: observe, decide, act, status.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use berth_api::v1beta1::daemonset::DaemonSet;
use berth_kinds::daemonset::{
    Ended, News, Orphans, Snapshot, decide, hooks, is_another, is_urgent, namesakes, noted, status,
};
use berth_runtime::driver::Next;
use berth_runtime::object::owner_key;
use berth_runtime::queue::Queue;
use berth_runtime::store::pods;
use berth_runtime::{Change, Key, Object, Resource, Store, object, turn};
use berth_workload::gates::Gates;
use berth_workload::inplace::resize::Ability;
use berth_workload::node::Node;
use berth_workload::plan::{Outcome, Plan};
use berth_workload::pod::Metadata;
use berth_workload::podset::Phases;
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::acting::{Acting, LARGE};
use crate::change::{self, each};
use crate::controller::Controller;
use crate::ended::EndedPods;
use crate::explain::look::{Explains, Look};
use crate::explain::printed::Explained;
use crate::overlapping;
use crate::paced::Paced;
use crate::pod_budgets::BudgetStores;
use crate::podset::{Observed, PodSetReads, wake_owner};
use crate::reads::Reader;
use crate::told::Told;
use crate::unreadable;
use crate::watched::Watched;
use serde_json::json;

/// What a decision about a DaemonSet is made of.
pub(crate) struct Reads {
    pub(crate) sets: Arc<Store<Watched<DaemonSet>>>,
    pub(crate) of_pods: PodSetReads,
    told: Told,
    /// By node.
    ended: EndedPods<BTreeMap<Box<str>, Ended>>,
    paced: Paced,
}

/// Which changes of nodes concern which DaemonSet.
type AllNews = Arc<Mutex<HashMap<Key, News>>>;

impl Controller for Reads {
    const RESOURCE: Resource = object::DAEMON_SETS;
    const NAME: &'static str = "daemonset";

    fn new(reader: &mut Reader<'_>) -> Self {
        Self {
            sets: reader.read(),
            of_pods: PodSetReads::new(reader),
            told: Told::default(),
            ended: EndedPods::default(),
            paced: Paced::default(),
        }
    }

    /// Wakes a DaemonSet when it, one of its pods or revisions, or what a node is to it changes.
    fn wake(&self, queue: &Arc<Queue<Key>>, acting: &Arc<Acting>) {
        let news = AllNews::default();
        let (to, acting, ended, of_sets) = (
            queue.clone(),
            acting.clone(),
            self.ended.clone(),
            news.clone(),
        );
        self.sets.on_change(move |change| match change {
            Change::Applied {
                old: Some(old),
                new,
            } if !is_news(&old.0, &new.0) => {}
            Change::Applied { new, .. } => {
                of_sets.lock().insert(Key::of(&**new), News::new(&new.0));
                to.add(Key::of(&**new));
            }
            Change::Deleted { old } => {
                of_sets.lock().remove(&Key::of(&**old));
                acting.expectations.forget(old.uid());
                ended.forget(old.uid());
            }
            Change::Synced => {}
        });
        let to = queue.clone();
        self.sets
            .on_unreadable(move |odd| to.add(Key::new(&odd.namespace, &odd.name)));
        overlapping::wake(&self.sets, queue);
        self.of_pods.wake(&self.sets, queue);
        let (to, sets) = (queue.clone(), self.sets.clone());
        self.of_pods
            .pods
            .on_change(move |change| each(change, |pod| wake_for_name(&to, &sets, &pod.metadata)));
        self.wake_for_nodes(queue, news);
    }

    /// One round for one DaemonSet.
    async fn reconcile(&self, acting: &Acting, key: Key) -> Next {
        let round = |set: Arc<_>| async move { round(self, acting, &set).await };
        unreadable::by_last_read(acting, (&self.sets, &self.told), key, round).await
    }
}

impl Reads {
    /// Wakes those DaemonSets that a node's change concerns, or that have pods on a node that comes or goes.
    fn wake_for_nodes(&self, queue: &Arc<Queue<Key>>, news: AllNews) {
        let (to, pods) = (queue.clone(), self.of_pods.pods.clone());
        self.of_pods.nodes.on_change(move |change| {
            let (old, new): (Option<&Node>, Option<&Node>) = match change {
                Change::Applied { old, new } => (old.as_ref().map(|old| &*old.0), Some(&new.0)),
                Change::Deleted { old } => (Some(&old.0), None),
                Change::Synced => return,
            };
            let all = news.lock();
            all.iter()
                .filter(|(_, news)| news.is_one(old, new))
                .for_each(|(key, _)| to.add(key.clone()));
            drop(all);
            if let Some(node) = new.or(old).filter(|_| is_another(old, new)) {
                let there = pods.by_index(&pods::BY_NODE, &node.metadata.name);
                there
                    .iter()
                    .for_each(|pod| wake_owner(&to, Self::RESOURCE.owner_kind(), &pod.metadata));
            }
        });
    }
}

/// A pod of another DaemonSet of that name: it may be about to be left to this one.
fn wake_for_name(queue: &Queue<Key>, sets: &Store<Watched<DaemonSet>>, pod: &Metadata) {
    if let Some(owner) = pod.controller().filter(|owner| &*owner.kind == "DaemonSet")
        && let Some(set) = sets.get(&pod.namespace, &owner.name)
        && *owner.uid != *set.uid()
    {
        queue.add(Key::of(&*set));
    }
}

fn is_news(old: &DaemonSet, new: &DaemonSet) -> bool {
    change::is_news(
        (&old.metadata, &old.status),
        (&new.metadata, &new.status),
        |status| {
            for condition in &mut status.conditions {
                condition.message = String::new();
                condition.last_transition_time = None;
            }
        },
    )
}

/// Everything that a decision about this DaemonSet reads, from the stores alone.
pub(crate) fn observe(
    reads: &Reads,
    set: &Watched<DaemonSet>,
    gates: Gates,
    resize: Ability,
    assigns_by_scheduler: bool,
) -> Snapshot {
    let (owner, of_pods) = (owner_key(set), &reads.of_pods);
    let Observed {
        pods,
        strays,
        revisions,
        node_images,
        nodes: _,
        jobs,
        claims: _,
        unreadable,
    } = of_pods.observe(&owner, &set.0.spec.selector, &set.0.spec.template, gates);
    let orphaned = of_pods.orphaned(set.namespace());
    let nodes = of_pods.nodes.all();
    Snapshot {
        hooks: hooks(&set.0),
        orphans: Orphans::of(&set.0, orphaned.pods, orphaned.revisions),
        overlapping: overlapping::older(&reads.sets, set),
        namesakes: namesakes(
            &set.0,
            &of_pods.pods.by_index(&pods::BY_DAEMON_SET, set.name()),
        ),
        nodes: nodes
            .iter()
            .map(|node| (node.0.metadata.name.clone(), node.0.clone()))
            .collect(),
        ended: reads.ended.of(set.uid()),
        set: set.0.clone(),
        pods,
        strays,
        revisions,
        node_images,
        jobs,
        unreadable,
        phases: Phases::default(),
        gates,
        resize,
        assigns_by_scheduler,
        // Seeded by the operating system, anew for every hasher.
        seed: RandomState::new().build_hasher().finish(),
    }
}

/// Has it many pods, or is it to have many? By the numbers that are at hand.
fn is_large(set: &DaemonSet) -> bool {
    let desired = set
        .status
        .as_ref()
        .map_or(0, |status| status.desired_number_scheduled);
    usize::try_from(desired).is_ok_and(|pods| pods > LARGE)
}

async fn round(reads: &Reads, acting: &Acting, set: &Watched<DaemonSet>) -> Next {
    let now = Timestamp::now();
    let is_large = is_large(&set.0);
    let decided = || {
        let snapshot = observe(
            reads,
            set,
            acting.gates,
            acting.resize,
            acting.assigns_by_scheduler,
        );
        acting.has_all_of_others(set.uid(), &snapshot.pods)?;
        let plan = decide(&snapshot, now);
        Ok((snapshot, plan))
    };
    let (snapshot, plan): (Snapshot, Plan) = match turn::decide(is_large, decided).await {
        Ok(decided) => decided,
        Err(next) => return next,
    };
    let ended = noted(&snapshot, &plan, now);
    if !ended.is_empty() {
        reads.ended.note(set.uid(), |known| known.extend(ended));
    }
    let status = |outcome: &Outcome| {
        Some(turn::alone(is_large, || {
            status(&snapshot, &plan, outcome, now)
        }))
    };
    let is_urgent = |old: &Option<_>, new: &Option<_>| {
        new.as_ref().is_some_and(|new| is_urgent(old.as_ref(), new))
    };
    reads
        .paced
        .carry_out(
            acting,
            &plan,
            &reads.sets,
            set,
            (&set.0.status, status, is_urgent),
        )
        .await
}

impl Explains for Reads {
    type Object = DaemonSet;

    async fn explain(&self, look: &Look<'_>, stores: &BudgetStores) -> anyhow::Result<Explained> {
        let Some(set) = self.sets.get(&look.namespaces.explained, look.name) else {
            return look.is_missing::<Self>();
        };
        let (snapshot, now) = (
            observe(self, &set, look.gates, look.resize, true),
            Timestamp::now(),
        );
        let plan = decide(&snapshot, now);
        let (carried_out, outcome) = look.carried_out(&plan, stores, &*set).await;
        let status = status(&snapshot, &plan, &outcome, now);
        Ok(look.explained::<Self>(carried_out, &json!(status), &json!(snapshot.set.status)))
    }
}
