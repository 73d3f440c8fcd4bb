//! The phase of a pod's in-place update, and the pod as the target of a write.

use super::decision::UpdateDecision;
use super::state::State;
use crate::objects::pod::Pod;
use crate::objects::target::Target;

/// The phase of a pod's in-place update.
#[derive(Debug, Clone, PartialEq)]
#[allow(
    clippy::large_enum_variant,
    reason = "lives for one decision about one pod"
)]
pub enum Phase {
    /// No update is under way.
    Idle,
    /// Out of service, the images not changed yet.
    Draining,
    /// The images are changed; the decision says whether they run.
    Patched(State, UpdateDecision),
}

/// The pod as the object of an action.
pub fn target(pod: &Pod) -> Target {
    Target::from(&pod.metadata)
}

/// The pod in the version that was seen. The apiserver refuses the action if the pod has changed
/// since.
pub fn target_as_seen(pod: &Pod) -> Target {
    Target::as_seen(&pod.metadata)
}

/// The pod in the version that was seen, if it was not ready. Taking it away costs nothing of
/// `maxUnavailable`, but would if the pod serves by now or has changed otherwise.
pub fn target_unless_it_serves(pod: &Pod) -> Target {
    if pod.is_true("Ready") {
        target(pod)
    } else {
        target_as_seen(pod)
    }
}
