//! The Advanced StatefulSet controller: observe, decide, act, status.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::v1beta1::persistentpodstate::PersistentPodState;
use berth_api::v1beta1::statefulset::StatefulSet;
use berth_kinds::statefulset::{
    Orphans, Snapshot, decide, former_claims, names_to_look_at, nodes_to_watch, status,
};
use berth_runtime::driver::Next;
use berth_runtime::object::owner_key;
use berth_runtime::queue::Queue;
use berth_runtime::store::pods;
use berth_runtime::{Change, Key, Object, Resource, Store, object, turn};
use berth_workload::gates::{Gate, Gates};
use berth_workload::inplace::resize::Ability;
use berth_workload::ordinals::{ordinal_of, set_and_ordinal};
use berth_workload::plan::{Outcome, Plan};
use berth_workload::pod::{Metadata, Pod};
use berth_workload::podset::Phases;
use jiff::Timestamp;

use crate::acting::{Acting, LARGE};
use crate::change::{self, each};
use crate::controller::Controller;
use crate::explain::look::{Explains, Look};
use crate::explain::printed::Explained;
use crate::paced::{Paced, nothing_is_urgent};
use crate::pod_budgets::BudgetStores;
use crate::pod_states;
use crate::podset::{Observed, PodSetReads};
use crate::reads::Reader;
use crate::told::Told;
use crate::unreadable;
use crate::watched::Watched;
use serde_json::json;

/// What a decision about a StatefulSet is made of.
pub(crate) struct Reads {
    pub(crate) sets: Arc<Store<Watched<StatefulSet>>>,
    /// Where their pods ran last.
    states: Arc<Store<Watched<PersistentPodState>>>,
    pub(crate) of_pods: PodSetReads,
    told: Told,
    paced: Paced,
}

impl Controller for Reads {
    const RESOURCE: Resource = object::STATEFUL_SETS;
    const NAME: &'static str = "statefulset";

    fn new(reader: &mut Reader<'_>) -> Self {
        Self {
            sets: reader.read(),
            states: reader.read(),
            of_pods: PodSetReads::new(reader),
            told: Told::default(),
            paced: Paced::default(),
        }
    }

    /// Wakes a StatefulSet when it, one of its pods, revisions or claims, or a pod with the name of one of its own changes.
    fn wake(&self, queue: &Arc<Queue<Key>>, acting: &Arc<Acting>) {
        let (to, acting) = (queue.clone(), acting.clone());
        self.sets.on_change(move |change| match change {
            Change::Applied {
                old: Some(old),
                new,
            } if !is_news(&old.0, &new.0) => {}
            Change::Applied { new, .. } => to.add(Key::of(&**new)),
            Change::Deleted { old } => acting.expectations.forget(old.uid()),
            Change::Synced => {}
        });
        let to = queue.clone();
        self.sets
            .on_unreadable(move |odd| to.add(Key::new(&odd.namespace, &odd.name)));
        self.of_pods.wake(&self.sets, queue);
        let (to, sets) = (queue.clone(), self.sets.clone());
        self.of_pods
            .pods
            .on_change(move |change| each(change, |pod| wake_for_name(&to, &sets, &pod.metadata)));
        let (to, sets) = (queue.clone(), self.sets.clone());
        self.of_pods.claims.on_change(move |change| {
            each(change, |claim| {
                wake_for_claim(&to, &sets, &claim.0.metadata)
            })
        });
        self.wake_for_nodes(queue);
    }

    /// One round for one StatefulSet.
    async fn reconcile(&self, acting: &Acting, key: Key) -> Next {
        let round = |set: Arc<_>| async move { round(self, acting, &set).await };
        unreadable::by_last_read(acting, (&self.sets, &self.told), key, round).await
    }
}

impl Reads {
    /// Wakes a StatefulSet with a pod that is to be gone from a node when that does not answer any more, or answers again.
    fn wake_for_nodes(&self, queue: &Arc<Queue<Key>>) {
        let (to, sets, pods) = (queue.clone(), self.sets.clone(), self.of_pods.pods.clone());
        self.of_pods.nodes.on_change(move |change| {
            let node = match change {
                Change::Applied {
                    old: Some(old),
                    new,
                } if old.0.ready != new.0.ready => new,
                Change::Deleted { old } => old,
                Change::Applied { .. } | Change::Synced => return,
            };
            for pod in pods
                .by_index(&pods::BY_NODE, node.name())
                .iter()
                .filter(|pod| pod.terminating())
            {
                wake_for_name(&to, &sets, &pod.metadata);
            }
        });
    }
}

/// A pod of another owner, or of nobody, that has the name of a set's pod. Those of the set wake it anyway.
fn wake_for_name(queue: &Queue<Key>, sets: &Store<Watched<StatefulSet>>, pod: &Metadata) {
    if let Some((set, _)) = set_and_ordinal(&pod.name)
        && sets.get(&pod.namespace, set).is_some()
    {
        queue.add(Key::new(&pod.namespace, set));
    }
}

/// `<template>-<set>-<ordinal>`: both names may have dashes.
fn wake_for_claim(queue: &Queue<Key>, sets: &Store<Watched<StatefulSet>>, claim: &Metadata) {
    for (dash, _) in claim.name.match_indices('-') {
        if let Some((set, _)) = set_and_ordinal(&claim.name[dash + 1..])
            && sets.get(&claim.namespace, set).is_some()
        {
            queue.add(Key::new(&claim.namespace, set));
        }
    }
}

fn is_news(old: &StatefulSet, new: &StatefulSet) -> bool {
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

/// Everything that a decision about this StatefulSet reads, from the stores alone.
pub(crate) fn observe(
    reads: &Reads,
    set: &Watched<StatefulSet>,
    gates: Gates,
    resize: Ability,
) -> Snapshot {
    let (owner, of_pods) = (owner_key(set), &reads.of_pods);
    let Observed {
        pods,
        mut strays,
        revisions,
        node_images,
        nodes,
        jobs,
        claims: _,
        unreadable,
    } = of_pods.observe(&owner, &set.0.spec.selector, &set.0.spec.template, gates);
    let is_named = |pod: &Arc<Pod>| ordinal_of(set.name(), &pod.metadata.name).is_some();
    let (pods, unnamed): (Vec<_>, Vec<_>) = pods.into_iter().partition(is_named);
    strays.extend(unnamed);
    let counts_start = gates.has(Gate::StatefulSetStartOrdinal);
    let (created, mut claims) = names_to_look_at(&set.0, &pods, counts_start);
    let others: Vec<_> = created
        .iter()
        .filter_map(|name| of_pods.pods.get(set.namespace(), name))
        .collect();
    claims.extend(former_claims(&set.0, pods.iter().chain(&others)));
    let claims = claims
        .iter()
        .filter_map(|name| of_pods.claims.get(set.namespace(), name));
    let orphaned = of_pods.orphaned(set.namespace());
    let records = pod_states::of_set(&reads.states, set.namespace(), set.name());
    let watched = nodes_to_watch(&pods, records.as_deref()).into_iter();
    let node = |name: Box<str>| Some((name.clone(), of_pods.nodes.get("", &name)?.0.clone()));
    Snapshot {
        others: others
            .into_iter()
            .map(|pod| (pod.metadata.name.clone(), pod))
            .collect(),
        claims: claims
            .map(|claim| (claim.0.metadata.name.clone(), claim.0.clone()))
            .collect::<BTreeMap<_, _>>(),
        orphans: Orphans::of(&set.0, orphaned.pods, orphaned.revisions),
        records,
        watched_nodes: watched.filter_map(node).collect(),
        set: set.0.clone(),
        pods,
        strays,
        revisions,
        node_images,
        nodes,
        jobs,
        phases: Phases::default(),
        unreadable,
        gates,
        resize,
    }
}

/// Has it many pods, or is it to have many? By the numbers that are at hand.
fn is_large(set: &StatefulSet) -> bool {
    let has = set.status.as_ref().map_or(0, |status| status.replicas);
    usize::try_from(has.max(set.spec.replicas.unwrap_or(1))).is_ok_and(|pods| pods > LARGE)
}

async fn round(reads: &Reads, acting: &Acting, set: &Watched<StatefulSet>) -> Next {
    let now = Timestamp::now();
    let is_large = is_large(&set.0);
    let decided = || {
        let snapshot = observe(reads, set, acting.gates, acting.resize);
        acting.has_all_of_others(set.uid(), &snapshot.pods)?;
        let plan = decide(&snapshot, now);
        Ok((snapshot, plan))
    };
    let (snapshot, plan): (Snapshot, Plan) = match turn::decide(is_large, decided).await {
        Ok(decided) => decided,
        Err(next) => return next,
    };
    let status = |outcome: &Outcome| {
        Some(turn::alone(is_large, || {
            status(&snapshot, &plan, outcome, now)
        }))
    };
    reads
        .paced
        .carry_out(
            acting,
            &plan,
            &reads.sets,
            set,
            (&set.0.status, status, nothing_is_urgent),
        )
        .await
}

impl Explains for Reads {
    type Object = StatefulSet;

    async fn explain(&self, look: &Look<'_>, stores: &BudgetStores) -> anyhow::Result<Explained> {
        let Some(set) = self.sets.get(&look.namespaces.explained, look.name) else {
            return look.is_missing::<Self>();
        };
        let (snapshot, now) = (
            observe(self, &set, look.gates, look.resize),
            Timestamp::now(),
        );
        let plan = decide(&snapshot, now);
        let (carried_out, outcome) = look.carried_out(&plan, stores, &*set).await;
        let status = status(&snapshot, &plan, &outcome, now);
        Ok(look.explained::<Self>(carried_out, &json!(status), &json!(snapshot.set.status)))
    }
}
