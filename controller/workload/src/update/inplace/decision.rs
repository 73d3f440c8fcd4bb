//! The decision on an update from a node's facts about a pod's containers.

use berth_api::image;

use super::kubelet_hash::kubelet_hash;
use crate::objects::node::image::Created;
use crate::objects::patch::pod::Resizes;
use crate::objects::pod::ContainerStatus;

impl Created {
    /// Whether this is the container in the pod's status, or a later one: the runtime knows a new
    /// container up to a second before the kubelet reports it.
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

/// The decision for a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpdateDecision {
    /// Every changed container runs as the spec says, or nothing had to change.
    Proven {
        /// The source of the proof: `pod` or `node`.
        verified_by: &'static str,
        /// Containers whose image is not the one that the wanted name has on the node today,
        /// because a tag moved.
        moved_tags: Vec<String>,
    },
    /// The update is not proven yet, for this reason.
    Wait(String),
    /// The update is not proven yet, because the pod's spec lacks these wanted resources.
    Resize(Resizes),
    /// The pod's status cannot prove it; the node's daemon must, for this reason.
    NeedsDaemon(String),
}

/// Whether the containers have the wanted values.
pub(super) enum ValuesDecision {
    /// No values are wanted.
    NotNeeded,
    /// All containers have the wanted values.
    Proven,
    /// A container does not have them, or the kubelet has not reported the container that does.
    Wait(String),
    /// The node's daemon has not reported yet.
    NeedsDaemon(String),
}

/// The runtime's own id: `containerd://abc` is `abc`.
pub(super) fn without_scheme(container_id: &str) -> &str {
    container_id
        .rsplit_once("://")
        .map_or(container_id, |(_, id)| id)
}
