//! The stores that the Advanced StatefulSet controller reads, and the changes that wake it.

use std::sync::Arc;

use berth_api::v1beta1::persistentpodstate::PersistentPodState;
use berth_api::v1beta1::statefulset::{StatefulSet, StatefulSetStatus};
use berth_kinds::statefulset::{StatefulSetOwner, former_claims, names_to_look_at, nodes_to_watch};
use berth_runtime::queue::Queue;
use berth_runtime::store::pods;
use berth_runtime::{Change, Key, Object, Store};
use berth_workload::feature_gates::{Gate, Gates};
use berth_workload::objects::ordinals::{ordinal_of, set_and_ordinal};
use berth_workload::objects::pod::{Metadata, Pod};

use crate::admission::pod_states;
use crate::controllers::pod_owner::{self, Controlled, Objects};
use crate::reconcile::podset::Observed;
use crate::stores::reads::Reader;
use crate::stores::triggers::each;
use crate::stores::watched::Watched;

pub(crate) type StatefulSetController = pod_owner::PodOwnerController<StatefulSetOwner>;

impl Controlled for StatefulSetOwner {
    const NAME: &'static str = "statefulset";
    const REPORTS_OVERLAP: bool = false;
    const READS_NODES: bool = true;
    /// Where their pods ran last.
    type Own = Arc<Store<Watched<PersistentPodState>>>;

    fn reads(reader: &mut Reader<'_>) -> (Objects<Self>, Self::Own) {
        (reader.read(), reader.read())
    }

    /// Wakes a StatefulSet when a pod or a claim changes that has the name of one of its own.
    fn wake(reads: &StatefulSetController, queue: &Arc<Queue<Key>>) {
        let (to, sets) = (queue.clone(), reads.sets.clone());
        reads
            .of_pods
            .pods
            .on_change(move |change| each(change, |pod| wake_for_name(&to, &sets, &pod.metadata)));
        let (to, sets) = (queue.clone(), reads.sets.clone());
        reads.of_pods.claims.on_change(move |change| {
            each(change, |claim| {
                wake_for_claim(&to, &sets, &claim.0.metadata)
            })
        });
        wake_for_nodes(reads, queue);
    }

    fn observe(
        reads: &StatefulSetController,
        set: &Watched<StatefulSet>,
        observed: &mut Observed,
        gates: Gates,
        _: bool,
    ) -> Self {
        let of_pods = &reads.of_pods;
        let is_named = |pod: &Arc<Pod>| ordinal_of(set.name(), &pod.metadata.name).is_some();
        let all = std::mem::take(&mut observed.pods);
        let (pods, unnamed): (Vec<_>, Vec<_>) = all.into_iter().partition(is_named);
        observed.strays.extend(unnamed);
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
        let records = pod_states::of_set(&reads.own, set.namespace(), set.name());
        let watched = nodes_to_watch(&pods, records.as_deref()).into_iter();
        let node = |name: Box<str>| Some((name.clone(), of_pods.nodes.get("", &name)?.0.clone()));
        observed.pods = pods;
        Self {
            others: others
                .into_iter()
                .map(|pod| (pod.metadata.name.clone(), pod))
                .collect(),
            claims: claims
                .map(|claim| (claim.0.metadata.name.clone(), claim.0.clone()))
                .collect(),
            watched_nodes: watched.filter_map(node).collect(),
            records,
        }
    }

    fn pods(set: &StatefulSet) -> i32 {
        let has = set.status.as_ref().map_or(0, |status| status.replicas);
        has.max(set.spec.replicas.unwrap_or(1))
    }

    fn is_urgent(_: Option<&StatefulSetStatus>, _: &StatefulSetStatus) -> bool {
        false
    }
}

/// Wakes a StatefulSet with a pod that is being deleted on a node that does not answer any more, or
/// answers again.
fn wake_for_nodes(reads: &StatefulSetController, queue: &Arc<Queue<Key>>) {
    let (to, sets, pods) = (
        queue.clone(),
        reads.sets.clone(),
        reads.of_pods.pods.clone(),
    );
    reads.of_pods.nodes.on_change(move |change| {
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

/// Wakes the StatefulSet whose pod has this name. The pod may have another owner, or none; pods of
/// the set wake it anyway.
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
