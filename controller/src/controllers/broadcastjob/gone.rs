//! Pods of jobs that had ended and were then deleted or changed so that they do not show it any
//! more. They are kept until the job's status has their nodes, because the next decision may come
//! when the store no longer has them. Each replica keeps them, because each may lead by then. Only
//! the leader decides.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use berth_api::v1beta1::broadcastjob::BroadcastJob;
use berth_kinds::broadcastjob::{
    hides_its_end, is_over, is_recorded, mark_of, missed, node_of, unrecorded,
};
use berth_runtime::{Change, Object, Store};
use berth_workload::objects::node::Node;
use berth_workload::objects::pod::Pod;
use parking_lot::{Mutex, MutexGuard};

use crate::stores::watched::Watched;
use berth_kinds::broadcastjob::BROADCAST_JOBS;
use berth_workload::objects::owner::Reference;

/// How many pods of a job are kept beyond the number of nodes. Above that, those of nodes that are
/// gone are dropped.
const SLACK: usize = 100;

/// The BroadcastJob that controls the pod; `None` if an object of another kind does, or none.
pub(super) fn managed_by(pod: &Pod) -> Option<Reference<'_>> {
    pod.metadata
        .controller()
        .map(Reference::from)
        .filter(|owner| BROADCAST_JOBS.owner_kind().is_of(owner))
}

/// The kept pods, by uid of their job.
#[derive(Default)]
pub(super) struct Gone(Mutex<HashMap<String, Missed>>);

/// A pod that had ended, by the mark of its node, or by its own name if the node was not known yet.
type Missed = BTreeMap<String, Arc<Pod>>;

impl Gone {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Missed>> {
        self.0.lock()
    }

    /// Keeps the old state of a pod whose end the change hides: the pod had ended, and the change
    /// deletes it or makes it look as if it had not.
    pub(super) fn note(
        &self,
        jobs: &Store<Watched<BroadcastJob>>,
        nodes: &Store<Watched<Node>>,
        change: &Change<Pod>,
    ) {
        self.note_among(jobs, (nodes, nodes.is_synced()), change);
    }

    /// As [`Self::note`]; `are_known` says whether all nodes are known. A pod of a node that is
    /// gone need not be kept.
    fn note_among(
        &self,
        jobs: &Store<Watched<BroadcastJob>>,
        (nodes, are_known): (&Store<Watched<Node>>, bool),
        change: &Change<Pod>,
    ) {
        let (old, new) = match change {
            Change::Deleted { old } => (old, None),
            Change::Applied {
                old: Some(old),
                new,
            } => (old, Some(&**new)),
            Change::Applied { .. } | Change::Synced => return,
        };
        let Some(owner) = managed_by(old).filter(|_| hides_its_end(old, new)) else {
            return;
        };
        // A pod that goes with its job need not be kept.
        let is_its_job =
            |job: &Arc<Watched<BroadcastJob>>| job.uid() == owner.uid && !is_over(&job.0);
        let Some(job) = jobs
            .get(&old.metadata.namespace, owner.name)
            .filter(is_its_job)
        else {
            return;
        };
        let mark = match node_of(old).and_then(|name| nodes.get("", name)) {
            Some(node) => missed(&job.0, old, &node.0),
            // Its node is looked up when the pod is read.
            None => (!are_known).then(|| old.metadata.name.to_string()),
        };
        let Some(mark) = mark else { return };
        let mut all = self.lock();
        let of_job = all.entry(owner.uid.to_owned()).or_default();
        keep(of_job, mark, old);
        if are_known && of_job.len() > nodes.len() + SLACK {
            only_of(of_job, nodes.all().iter().map(|node| &*node.0));
        }
    }

    /// Drops the pods that the job's status has recorded by now, and all pods of a job that is
    /// over.
    pub(super) fn drop_recorded(&self, job: &Watched<BroadcastJob>) {
        let mut all = self.lock();
        let Some(of_job) = all.get_mut(job.uid()) else {
            return;
        };
        of_job.retain(|mark, _| !is_recorded(&job.0, mark));
        if of_job.is_empty() || is_over(&job.0) {
            all.remove(job.uid());
        }
    }

    /// Drops all pods of a job that is gone. `job` is its uid.
    pub(super) fn forget(&self, job: &str) {
        self.lock().remove(job);
    }

    /// The kept pods of a job whose nodes its status does not have yet. Drops the job's other pods.
    pub(super) fn of(&self, job: &Watched<BroadcastJob>, nodes: &[Arc<Node>]) -> Vec<Arc<Pod>> {
        let known = self
            .lock()
            .get(job.uid())
            .map(|of_job| of_job.values().cloned().collect());
        let all: Vec<Arc<Pod>> = known.unwrap_or_default();
        if all.is_empty() {
            return all;
        }
        let left = unrecorded(&job.0, nodes, all.clone());
        let pointers = |pods: &[Arc<Pod>]| pods.iter().map(Arc::as_ptr).collect::<HashSet<_>>();
        let (looked_at, still) = (pointers(&all), pointers(&left));
        let mut gone = self.lock();
        if let Some(of_job) = gone.get_mut(job.uid()) {
            // Other pods may have been added meanwhile.
            of_job.retain(|_, pod| {
                still.contains(&Arc::as_ptr(pod)) || !looked_at.contains(&Arc::as_ptr(pod))
            });
            if of_job.is_empty() {
                gone.remove(job.uid());
            }
        }
        left
    }
}

/// Keeps one pod for each node. Of two that have ended, the one that has succeeded counts, because
/// it did the node's work.
fn keep(of_job: &mut Missed, mark: String, pod: &Arc<Pod>) {
    let has_succeeded = &*pod.status.phase == "Succeeded";
    let kept = of_job.entry(mark).or_insert_with(|| pod.clone());
    if has_succeeded {
        *kept = pod.clone();
    }
}

/// Drops the pods of other nodes than these.
fn only_of<'a>(of_job: &mut Missed, nodes: impl Iterator<Item = &'a Node>) {
    let there: BTreeSet<_> = nodes.map(mark_of).collect();
    of_job.retain(|mark, _| there.contains(mark));
}

#[cfg(test)]
mod tests;
