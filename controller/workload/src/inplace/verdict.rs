//! What is known of a pod's containers on its node, and what follows from it for an update.

use std::collections::BTreeMap;

use berth_api::image;

use super::kubelet_hash::kubelet_hash;
use crate::pod::ContainerStatus;
use crate::pod_patch::Resizes;

/// What a node's daemon reported that bears on one pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// By container name: the newest container and the image name that it was created from.
    pub created: BTreeMap<String, Created>,
    /// By normalised reference: every id that the image has on the node.
    pub image_ids: BTreeMap<String, Vec<String>>,
}

/// A container as the runtime has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Created {
    /// Its id, without the runtime's scheme.
    pub container_id: String,
    /// The kubelet's hash of the spec that it was created from ([`super::kubelet_hash`]).
    pub hash: String,
    /// The image as the pod's spec named it then, where the runtime keeps that; empty where not.
    pub image: String,
    /// The id of the image that it runs; empty where that is not known.
    pub image_id: String,
    /// How many containers of its name the pod had before.
    pub attempt: Option<i32>,
    /// The update that the node was asked about with the variables; empty while it stops the container.
    pub update: String,
    /// By variable that was asked for: the hash of the value that it was created with.
    pub env: BTreeMap<String, String>,
    /// The hash of those together, as OpenKruise counts it; empty where nothing was asked.
    pub env_hash: String,
}

impl Created {
    /// It is the container that the pod's status shows, or one that came after it: the runtime knows a new container up
    /// to a second before the kubelet says so.
    pub(super) fn is_present(&self, status: &ContainerStatus) -> bool {
        without_scheme(&self.container_id) == without_scheme(&status.container_id)
            || self
                .attempt
                .is_some_and(|attempt| attempt > status.restart_count)
    }

    pub(super) fn is_from(&self, container: &str, wanted: &str) -> bool {
        self.hash == kubelet_hash(container, wanted)
            || (!self.image.is_empty()
                && image::normalised(&self.image) == image::normalised(wanted))
    }
}

/// The answer for a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Every changed container runs what the spec says, or nothing had to change.
    Exact {
        /// Which source settled it: `pod` or `node`.
        verified_by: &'static str,
        /// Containers whose image is not what the wanted name resolves to on the node today: a tag moved.
        moved_tags: Vec<String>,
    },
    /// Not yet.
    Wait(String),
    /// Not yet: of the resources that are wanted, the pod's spec lacks these.
    Resize(Resizes),
    /// The pod's status cannot tell; its node's daemon must.
    AskNode(String),
}

/// Whether the containers have the values that are wanted.
pub(super) enum Judged {
    /// There are none to have.
    Nothing,
    /// All of them do.
    Proven,
    /// One of them does not, or the kubelet has not told of the one that does.
    Wait(String),
    /// The node has not said.
    Ask(String),
}

/// The runtime's own id: `containerd://abc` is `abc`.
pub(super) fn without_scheme(container_id: &str) -> &str {
    container_id
        .rsplit_once("://")
        .map_or(container_id, |(_, id)| id)
}
