//! What a node's facts about a pod's containers mean for an update.

use berth_api::image;

use super::kubelet_hash::kubelet_hash;
use crate::objects::node::image::Created;
use crate::objects::patch::pod::Resizes;
use crate::objects::pod::ContainerStatus;

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
