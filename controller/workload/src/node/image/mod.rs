//! A NodeImage as those read it who ask a node for something: its entries, its room, and what it says about pods.

pub mod entry;
mod facts;
pub mod room;

use std::collections::BTreeSet;

use berth_api::v1beta1::nodeimage::NodeImage;

use super::Node;
use crate::plan::Target;

pub use facts::facts;

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

/// Was the NodeImage there before its node, and so is another machine's, or one's that was set up anew?
pub fn is_of_an_earlier_node(image: &NodeImage, node: &Node) -> bool {
    let made = image.metadata.creation_timestamp.as_ref();
    made.zip(node.metadata.creation_timestamp).is_some_and(|(image, node)| image.0 < node)
}

/// The name of the NodeImage and of its node.
pub fn name(image: &NodeImage) -> &str {
    image.metadata.name.as_deref().unwrap_or_default()
}
