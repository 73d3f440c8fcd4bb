//! BroadcastJob: a pod on each node, once.
//!
//! The end of a node's pod is recorded for the node, not for the pod: the status keeps a short hash
//! of the uid of each node whose pod has ended, and the name of a new pod contains the hash. So a
//! node gets no second pod, even if the first is deleted. After a creation whose answer was lost,
//! the next creation has the same name.

mod blocked;
mod decide;
mod mark;
mod new_pod;
mod place;
mod requests;
mod round;
mod settings;
mod status;
mod triggers;

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
use berth_workload::update::podset::{Blocked, Phases, Unreadable, Workload, WorkloadView};

pub use decide::decide;
pub use round::{hides_its_end, is_recorded, mark_of, missed, node_of, unrecorded};
pub use status::{is_urgent, status};
pub use triggers::{Triggers, is_trigger};

/// BroadcastJobs.
pub const BROADCAST_JOBS: Resource = Resource::of(&berth_api::kinds::BROADCAST_JOB);

/// All that a decision about one job reads.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The job.
    pub job: Arc<BroadcastJob>,
    /// Every pod that it controls, those being deleted included.
    pub pods: Vec<Arc<Pod>>,
    /// Pods of the job that [hide their end](hides_its_end), in their state before, as long as the
    /// status does not have their nodes.
    pub gone: Vec<Arc<Pod>>,
    /// Every node, in any order.
    pub nodes: Vec<Arc<Node>>,
    /// Its pods that exist and cannot be read.
    pub unreadable: Vec<Unreadable>,
    /// Where pods are in their updates: empty, because the job's pods are never updated.
    pub phases: Phases,
    /// Feature gates.
    pub gates: Gates,
}

impl Snapshot {
    /// The part of the snapshot that all owners of pods have.
    fn view(&self) -> WorkloadView<'_> {
        WorkloadView::plain(
            workload(&self.job),
            &self.pods,
            &self.unreadable,
            &self.phases,
            self.gates,
        )
    }
}

/// The workload: pods are found by their owner, and never updated or spread.
fn workload(job: &BroadcastJob) -> Workload<'_> {
    let status = job.status.as_ref();
    Workload {
        blocked: status.and_then(|status| Blocked::of(&status.conditions)),
        ..Workload::plain(BROADCAST_JOBS, &job.metadata, &job.spec.template)
    }
}

/// Whether the job has ended, with success or without.
pub fn is_finished(status: &BroadcastJobStatus) -> bool {
    let ended = |type_: &str| type_ == condition::COMPLETE || type_ == condition::FAILED;
    matches!(status.phase.as_str(), phase::COMPLETED | phase::FAILED)
        || status
            .conditions
            .iter()
            .any(|c| ended(&c.type_) && c.status == "True")
}

/// Whether the controller has nothing more to do for the job but to delete it in time.
pub fn is_over(job: &BroadcastJob) -> bool {
    job.metadata.deletion_timestamp.is_some() || job.status.as_ref().is_some_and(is_finished)
}
