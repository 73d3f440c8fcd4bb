//! A NodeImage, for decisions that ask a node for something: its entries, its space, and its report
//! about pods.

pub mod entry;
mod facts;
pub mod room;

pub use entry::{is_requested_by, owners};

use berth_api::v1beta1::nodeimage::{NodeImageSpec, NodeImageStatus};
use serde::{Deserialize, Deserializer};

use super::Node;
use crate::objects::pod::Metadata;
use crate::objects::target::Target;

pub use facts::{Created, NodeFacts, facts};

/// A NodeImage, with the fields that decisions read. There is one for each node, and it has all of
/// its node's labels. The feed decodes watch events directly into it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct NodeImage {
    /// Name, uid, labels.
    pub metadata: Metadata,
    /// The work of the node's daemon.
    pub spec: NodeImageSpec,
    /// The daemon's report, without the conditions, which only people read.
    #[serde(default, deserialize_with = "without_conditions")]
    pub status: Option<NodeImageStatus>,
}

fn without_conditions<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<NodeImageStatus>, D::Error> {
    let status = Option::<NodeImageStatus>::deserialize(deserializer)?;
    Ok(status.map(|status| NodeImageStatus {
        conditions: Vec::new(),
        ..status
    }))
}

/// The NodeImage as the target of an action that is correct only for this exact version.
pub fn target(image: &NodeImage) -> Target {
    Target::as_seen(&image.metadata)
}

/// Whether the NodeImage is older than its node, and so belongs to an earlier machine or
/// installation.
pub fn is_of_an_earlier_node(image: &NodeImage, node: &Node) -> bool {
    let made = image.metadata.creation_timestamp;
    made.zip(node.metadata.creation_timestamp)
        .is_some_and(|(image, node)| image < node)
}

/// The name of the NodeImage and of its node.
pub fn name(image: &NodeImage) -> &str {
    &image.metadata.name
}

#[cfg(test)]
mod tests;
