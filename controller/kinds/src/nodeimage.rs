//! NodeImages: what a node's daemon shall do and has reported.
//!
//! A NodeImage comes and goes with its node and mirrors its labels. Entries are put in by those who ask for pulls
//! ([`entry`]); this module drops them when nobody wants them any more, and asks the daemon about pods.

mod decide;
mod inspect;
mod join;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use berth_api::v1beta1::imagepulljob::ImagePullJob;
use berth_workload::objects::node::Node;
use berth_workload::objects::node::image::NodeImage;
use berth_workload::objects::pod::Pod;
use berth_workload::update::recreate::stop::Requested;

pub use decide::{decide, job_bears_on};
pub use inspect::{bears_on, question};
pub use join::{Join, is_joining, may_end_a_wait};

/// All that a decision about one NodeImage reads.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The name of the node and of its NodeImage.
    pub name: String,
    /// The node, where there is one.
    pub node: Option<Arc<Node>>,
    /// Its NodeImage, where there is one.
    pub image: Option<Arc<NodeImage>>,
    /// The pods on the node that a CloneSet manages. A daemon is asked about no others.
    pub pods: Vec<Arc<Pod>>,
    /// The pods on the node whose containers requests name, with all of these.
    pub requested: Vec<Requested>,
    /// The ImagePullJobs that [`owners`] names, where they exist.
    pub jobs: Vec<Arc<ImagePullJob>>,
    /// The uids of those that exist and cannot be read: what they asked for stays.
    pub unreadable_jobs: Vec<String>,
    /// What is asked of a node that joins, where it [does](is_joining).
    pub join: Option<Join>,
}
