//! The facts of a NodeImage about one pod.

use std::collections::BTreeMap;

use berth_api::v1beta1::nodeimage::InspectedContainer;

use crate::objects::node::image::NodeImage;
use crate::objects::pod::Pod;
use berth_api::image::normalised;

/// The daemon's report about the containers and images of one pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// By container name: the newest container and the image name that it was created from.
    pub created: BTreeMap<String, Created>,
    /// By normalised reference: every id that the image has on the node.
    pub image_ids: BTreeMap<String, Vec<String>>,
}

/// A container as the runtime reports it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Created {
    /// Its id, without the runtime's scheme.
    pub container_id: String,
    /// The kubelet's hash of the spec that it was created from.
    pub hash: String,
    /// The image name in the pod's spec at creation, if the runtime keeps it; otherwise empty.
    pub image: String,
    /// The id of the image that it runs; empty if unknown.
    pub image_id: String,
    /// How many containers of the same name the pod had before.
    pub attempt: Option<i32>,
    /// The update for which the daemon inspected the variables; empty while it stops the container.
    pub update: String,
    /// The hash of the value at creation, by requested variable.
    pub env: BTreeMap<String, String>,
    /// OpenKruise's hash of these variables together; empty if none was requested.
    pub env_hash: String,
}

/// Reads the facts about a pod. Of the node's images it keeps only the ones that the pod's
/// containers name.
pub fn facts(node: &NodeImage, pod: &Pod) -> NodeFacts {
    let Some(status) = &node.status else {
        return NodeFacts::default();
    };
    let mut facts = NodeFacts::default();
    if let Some(inspected) = status
        .inspected_pods
        .iter()
        .find(|inspected| *inspected.uid == *pod.metadata.uid)
    {
        facts.created = inspected.containers.iter().map(created).collect();
    }
    let wanted: Vec<_> = pod
        .containers()
        .map(|c| (last_name(&c.image), normalised(&c.image)))
        .collect();
    // A node has hundreds of images, and this function runs for each of its pods. The last part of
    // the name excludes most images cheaply.
    let is_like = |reference: &str| wanted.iter().any(|(name, _)| *name == last_name(reference));
    let mut add = |reference: &str, ids: &[String]| {
        let reference = normalised(reference);
        if wanted.iter().any(|(_, wanted)| *wanted == reference) {
            facts
                .image_ids
                .entry(reference)
                .or_default()
                .extend(ids.iter().cloned());
        }
    };
    for fact in status
        .image_facts
        .iter()
        .filter(|fact| is_like(&fact.image))
    {
        add(&fact.image, &fact.image_ids);
    }
    for (image, tags) in status
        .image_statuses
        .iter()
        .filter(|(image, _)| is_like(image))
    {
        for tag in tags.tags.iter().filter(|tag| !tag.image_ids.is_empty()) {
            add(&format!("{image}:{}", tag.tag), &tag.image_ids);
        }
    }
    facts
}

/// The last part of an image's name, without tag and digest: `nginx` of
/// `docker.io/library/nginx:1.27`.
fn last_name(reference: &str) -> &str {
    let last = reference.rsplit('/').next().unwrap_or_default();
    last.split([':', '@']).next().unwrap_or_default()
}

fn created(container: &InspectedContainer) -> (String, Created) {
    let created = Created {
        container_id: container.container_id.clone(),
        hash: container.hash.clone(),
        image: container.image.clone(),
        image_id: container.image_id.clone(),
        attempt: container.attempt,
        update: container.update.clone(),
        env: container.env.clone(),
        env_hash: container.env_hash.clone(),
    };
    (container.name.clone(), created)
}

#[cfg(test)]
mod tests;
