//! The stores that the Advanced DaemonSet controller reads, and the changes that wake it.

use std::collections::HashMap;
use std::sync::Arc;

use berth_api::v1beta1::daemonset::{DaemonSet, DaemonSetStatus};
use berth_kinds::daemonset::{DaemonSetOwner, Triggers, is_another, is_urgent, namesakes};
use berth_runtime::queue::Queue;
use berth_runtime::store::pods;
use berth_runtime::{Change, Key, Object, Store, object};
use berth_workload::feature_gates::Gates;
use berth_workload::objects::node::Node;
use berth_workload::objects::pod::Metadata;
use parking_lot::Mutex;

use crate::controllers::pod_owner::{self, Controlled, Objects, is_trigger};
use crate::reconcile::podset::{Observed, wake_owner};
use crate::stores::reads::Reader;
use crate::stores::triggers::each;
use crate::stores::watched::Watched;

pub(crate) type DaemonSetController = pod_owner::PodOwnerController<DaemonSetOwner>;

/// Which changes of nodes concern which DaemonSet.
type AllTriggers = Arc<Mutex<HashMap<Key, Triggers>>>;

impl Controlled for DaemonSetOwner {
    const NAME: &'static str = "daemonset";
    const REPORTS_OVERLAP: bool = true;
    const READS_NODES: bool = true;
    const NEEDS_NODES: bool = true;
    type Own = ();

    fn reads(reader: &mut Reader<'_>) -> (Objects<Self>, ()) {
        (reader.read(), ())
    }

    /// Wakes a DaemonSet when a pod of another DaemonSet of its name changes, or a node changes in
    /// a way that concerns it.
    fn wake(reads: &DaemonSetController, queue: &Arc<Queue<Key>>) {
        let triggers = AllTriggers::default();
        let of_sets = triggers.clone();
        reads.sets.on_change(move |change| match change {
            Change::Applied {
                old: Some(old),
                new,
            } if !is_trigger::<Self>(&old.0, &new.0) => {}
            Change::Applied { new, .. } => {
                of_sets
                    .lock()
                    .insert(Key::of(&**new), Triggers::new(&new.0));
            }
            Change::Deleted { old } => {
                of_sets.lock().remove(&Key::of(&**old));
            }
            Change::Synced => {}
        });
        let (to, sets) = (queue.clone(), reads.sets.clone());
        reads
            .of_pods
            .pods
            .on_change(move |change| each(change, |pod| wake_for_name(&to, &sets, &pod.metadata)));
        wake_for_nodes(reads, queue, triggers);
    }

    fn observe(
        reads: &DaemonSetController,
        set: &Watched<DaemonSet>,
        observed: &mut Observed,
        _: Gates,
        assigns_by_scheduler: bool,
    ) -> Self {
        let nodes = reads.of_pods.nodes.all();
        observed.nodes = nodes
            .iter()
            .map(|node| (node.0.metadata.name.clone(), node.0.clone()))
            .collect();
        let named = reads
            .of_pods
            .pods
            .by_index(&pods::BY_DAEMON_SET, set.name());
        Self {
            namesakes: namesakes(&set.0, &named),
            assigns_by_scheduler,
        }
    }

    fn pods(set: &DaemonSet) -> i32 {
        let status = set.status.as_ref();
        status.map_or(0, |status| status.desired_number_scheduled)
    }

    fn is_urgent(old: Option<&DaemonSetStatus>, new: &DaemonSetStatus) -> bool {
        is_urgent(old, new)
    }
}

/// Wakes those DaemonSets that a node's change concerns, or that have pods on a node that comes or
/// goes.
fn wake_for_nodes(reads: &DaemonSetController, queue: &Arc<Queue<Key>>, triggers: AllTriggers) {
    let (to, pods) = (queue.clone(), reads.of_pods.pods.clone());
    reads.of_pods.nodes.on_change(move |change| {
        let (old, new): (Option<&Node>, Option<&Node>) = match change {
            Change::Applied { old, new } => (old.as_ref().map(|old| &*old.0), Some(&new.0)),
            Change::Deleted { old } => (Some(&old.0), None),
            Change::Synced => return,
        };
        let all = triggers.lock();
        all.iter()
            .filter(|(_, triggers)| triggers.is_one(old, new))
            .for_each(|(key, _)| to.add(key.clone()));
        drop(all);
        if let Some(node) = new.or(old).filter(|_| is_another(old, new)) {
            let there = pods.by_index(&pods::BY_NODE, &node.metadata.name);
            there
                .iter()
                .for_each(|pod| wake_owner(&to, object::DAEMON_SETS.owner_kind(), &pod.metadata));
        }
    });
}

/// A pod of another DaemonSet of that name may soon be orphaned for this one.
fn wake_for_name(queue: &Queue<Key>, sets: &Store<Watched<DaemonSet>>, pod: &Metadata) {
    if let Some(owner) = pod.controller().filter(|owner| &*owner.kind == "DaemonSet")
        && let Some(set) = sets.get(&pod.namespace, &owner.name)
        && *owner.uid != *set.uid()
    {
        queue.add(Key::of(&*set));
    }
}
