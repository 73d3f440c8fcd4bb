//! NodeImages: what a node's daemon shall do and has reported.
//!
//! A NodeImage comes and goes with its node and mirrors its labels. Entries are put in by those who ask for pulls
//! ([`entry`]); this module drops them when nobody wants them any more, and asks the daemon about pods.

mod decide;
pub mod entry;
mod facts;
mod inspect;
mod node;
pub mod room;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_api::v1beta1::imagepulljob::ImagePullJob;
use berth_api::v1beta1::nodeimage::NodeImage;

use crate::plan::Target;
use crate::pod::Pod;

pub use decide::decide;
pub use facts::facts;
pub use inspect::{bears_on, question};
pub use node::Node;

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
    /// The ImagePullJobs that [`owners`] names, where they exist.
    pub jobs: Vec<Arc<ImagePullJob>>,
    /// The uids of those that exist and cannot be read: what they asked for stays.
    pub unreadable_jobs: Vec<String>,
}

/// Namespaces and names of the ImagePullJobs that asked for the NodeImage's pulls.
pub fn owners(image: &NodeImage) -> BTreeSet<(&str, &str)> {
    let jobs = entry::all_owners(image).filter(|owner| entry::is_job(owner));
    jobs.map(|job| (job.namespace.as_deref().unwrap_or_default(), job.name.as_deref().unwrap_or_default())).collect()
}

/// Does the owner with this uid ask for any pull of the NodeImage?
pub fn is_asked_by(image: &NodeImage, uid: &str) -> bool {
    entry::all_owners(image).any(|owner| entry::is(owner, uid))
}

/// The NodeImage as the object of an action that is right for this very version alone.
pub fn target(image: &NodeImage) -> Target {
    Target { resource_version: image.metadata.resource_version.clone(), ..Target::from(&image.metadata) }
}

/// The name of the NodeImage and of its node.
pub fn name(image: &NodeImage) -> &str {
    image.metadata.name.as_deref().unwrap_or_default()
}
