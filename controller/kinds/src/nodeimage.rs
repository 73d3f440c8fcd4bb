//! NodeImages: the pulls and checks that a node's daemon must do, and its reports.
//!
//! A NodeImage is created and deleted with its node and mirrors the node's labels. Controllers that
//! need images add entries ([`entry`]); this module drops entries that no owner needs any more, and
//! lists the pods that the daemon must inspect.

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
    /// The node, if it exists.
    pub node: Option<Arc<Node>>,
    /// Its NodeImage, if it exists.
    pub image: Option<Arc<NodeImage>>,
    /// The pods on the node that a CloneSet manages. The daemon inspects no others.
    pub pods: Vec<Arc<Pod>>,
    /// The pods on the node whose containers are named in ContainerRecreateRequests, with all of
    /// these requests.
    pub requested: Vec<Requested>,
    /// The ImagePullJobs that [`owners`] names, if they exist.
    pub jobs: Vec<Arc<ImagePullJob>>,
    /// The uids of ImagePullJobs that exist and cannot be read: their entries stay.
    pub unreadable_jobs: Vec<String>,
    /// The images that a node must pull when it joins, if it [joins](is_joining) now.
    pub join: Option<Join>,
}
