//! BroadcastJob: a pod on each node, once.
//!
//! Whose turn has come says the node, and not the pod: the status keeps a short hash of the uid of each node whose pod has ended,
//! and the name of a new pod is made from it. So a node gets no second pod, whatever becomes of the first; and a creation whose
//! answer was lost is made good by the next, of the same name.

mod blocked;
mod decide;
mod mark;
mod new_pod;
mod news;
mod place;
mod requests;
mod round;
mod settings;
mod status;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use berth_workload::objects::resource::Resource;
use std::sync::Arc;

use berth_api::kinds::broadcastjob::names::condition;
use berth_api::v1beta1::broadcastjob::{BroadcastJob, BroadcastJobStatus, phase};
use berth_workload::feature_gates::Gates;
use berth_workload::objects::node::Node;
use berth_workload::objects::pod::Pod;
use berth_workload::update::podset::{Blocked, Phases, Scene, Unreadable, Workload};

pub use decide::decide;
pub use news::{News, is_news};
pub use round::{hides_its_end, is_recorded, mark_of, missed, node_of, unrecorded};
pub use status::{is_urgent, status};

/// BroadcastJobs.
pub const BROADCAST_JOBS: Resource = Resource::of(&berth_api::kinds::BROADCAST_JOB);

/// All that a decision about one job reads.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The job.
    pub job: Arc<BroadcastJob>,
    /// Every pod that it controls, those being deleted included.
    pub pods: Vec<Arc<Pod>>,
    /// Pods of it that [hide their end](hides_its_end), as they were before, as long as its status does not have their nodes.
    pub gone: Vec<Arc<Pod>>,
    /// Every node, in any order.
    pub nodes: Vec<Arc<Node>>,
    /// Its pods that exist and cannot be read.
    pub unreadable: Vec<Unreadable>,
    /// Where pods are in their updates: nowhere, they are never updated.
    pub phases: Phases,
    /// Feature gates.
    pub gates: Gates,
}

impl Snapshot {
    /// What of it is the same for every owner of pods.
    fn scene(&self) -> Scene<'_> {
        Scene::plain(
            workload(&self.job),
            &self.pods,
            &self.unreadable,
            &self.phases,
            self.gates,
        )
    }
}

/// Pods are known by their owner and never updated or spread.
fn workload(job: &BroadcastJob) -> Workload<'_> {
    let status = job.status.as_ref();
    Workload {
        blocked: status.and_then(|status| Blocked::of(&status.conditions)),
        ..Workload::plain(BROADCAST_JOBS, &job.metadata, &job.spec.template)
    }
}

/// Has the job come to its end, one way or the other?
pub fn is_finished(status: &BroadcastJobStatus) -> bool {
    let ended = |type_: &str| type_ == condition::COMPLETE || type_ == condition::FAILED;
    matches!(status.phase.as_str(), phase::COMPLETED | phase::FAILED)
        || status
            .conditions
            .iter()
            .any(|c| ended(&c.type_) && c.status == "True")
}

/// Is nothing more to be done for the job, but to let its time run out?
pub fn is_over(job: &BroadcastJob) -> bool {
    job.metadata.deletion_timestamp.is_some() || job.status.as_ref().is_some_and(is_finished)
}
