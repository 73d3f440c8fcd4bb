//! ImagePullJob: an image that many nodes pull, a limited number at a time.
//!
//! The job adds entries to the specs of NodeImages, and reads the results in their statuses. Its
//! entries are exactly those of its nodes and its image. While any of them has not ended, the job
//! has a finalizer.

mod decide;
mod round;
mod status;
mod triggers;

#[cfg(test)]
mod properties;
#[cfg(test)]
pub(crate) mod simulation;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_api::v1beta1::imagepulljob::ImagePullJob;
use berth_workload::feature_gates::Gates;
use berth_workload::images::pull;
use berth_workload::objects::node::image::NodeImage;
use berth_workload::objects::pod::Pod;
use berth_workload::plan::Refusal;

pub use decide::decide;
pub use status::{MAX_FAILED_NODES, status};
pub use triggers::{concerns, concerns_pod, needs_pods};

/// All that a decision about one job reads.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The job.
    pub job: Arc<ImagePullJob>,
    /// Every NodeImage, in any order.
    pub node_images: Vec<Arc<NodeImage>>,
    /// The names of the NodeImages that cannot be read.
    pub unreadable: Vec<String>,
    /// The pods of the job's namespace, if it [needs them](needs_pods).
    pub pods: Vec<Arc<Pod>>,
    /// If the job is being deleted: the uids of all jobs that are. Their entries are removed
    /// together, because each write of a NodeImage makes the other writes of it start again.
    pub leaving: BTreeSet<String>,
    /// Feature gates.
    pub gates: Gates,
}

/// Checks the spec. The controller does not act on a job with an invalid spec.
///
/// # Errors
/// The refusal names the object, the field, the value and the remedy.
pub fn validate(job: &ImagePullJob) -> Result<(), Refusal> {
    pull::settings(job).map(drop)
}

fn uid(job: &ImagePullJob) -> &str {
    job.metadata.uid.as_deref().unwrap_or_default()
}
