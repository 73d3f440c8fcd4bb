//! Pods of jobs that had ended and do not show it any more, as long as the status of their job may not have their nodes: the next decision
//! may come when the store does not have them. Each replica keeps them, for each may lead by then, and only the one that leads decides.

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

/// So many more than there are nodes are kept of a job until those of nodes that are gone are looked for.
const SLACK: usize = 100;

pub(super) fn managed_by(pod: &Pod) -> Option<Reference<'_>> {
    pod.metadata
        .controller()
        .map(Reference::from)
        .filter(|owner| BROADCAST_JOBS.owner_kind().is_of(owner))
}

/// By uid of a job.
#[derive(Default)]
pub(super) struct Gone(Mutex<HashMap<String, Missed>>);

/// By the mark of a node, or by its own name where that node was not known yet: a pod that had ended there.
type Missed = BTreeMap<String, Arc<Pod>>;

impl Gone {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Missed>> {
        self.0.lock()
    }

    /// Keeps a pod that goes after its end.
    pub(super) fn note(
        &self,
        jobs: &Store<Watched<BroadcastJob>>,
        nodes: &Store<Watched<Node>>,
        change: &Change<Pod>,
    ) {
        self.note_among(jobs, (nodes, nodes.is_synced()), change);
    }

    /// The same, where it is said whether all nodes are known. Of a node that is gone nothing is missed.
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
        // What goes with its job is missed by nobody.
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
            // It is looked for when the pod is asked for.
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

    /// Lets go what the status of a job has by now, and all of a job that is over.
    pub(super) fn told(&self, job: &Watched<BroadcastJob>) {
        let mut all = self.lock();
        let Some(of_job) = all.get_mut(job.uid()) else {
            return;
        };
        of_job.retain(|mark, _| !is_recorded(&job.0, mark));
        if of_job.is_empty() || is_over(&job.0) {
            all.remove(job.uid());
        }
    }

    /// The job of this uid has gone.
    pub(super) fn forget(&self, job: &str) {
        self.lock().remove(job);
    }

    /// Those of a job that its status does not have yet.
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
            // Others may have come meanwhile.
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

/// One pod for each node. Of two that have ended, one that has succeeded did what was to be done.
fn keep(of_job: &mut Missed, mark: String, pod: &Arc<Pod>) {
    let has_succeeded = &*pod.status.phase == "Succeeded";
    let kept = of_job.entry(mark).or_insert_with(|| pod.clone());
    if has_succeeded {
        *kept = pod.clone();
    }
}

/// Lets go what is of other nodes than these.
fn only_of<'a>(of_job: &mut Missed, nodes: impl Iterator<Item = &'a Node>) {
    let there: BTreeSet<_> = nodes.map(mark_of).collect();
    of_job.retain(|mark, _| there.contains(mark));
}

#[cfg(test)]
mod tests;
