//! The lifecycle state that a pod carries in a label.

use jiff::Timestamp;

use crate::plan::PodPatch;
use crate::pod::Pod;

/// The label.
pub const STATE_LABEL: &str = "lifecycle.apps.kruise.io/state";
/// Annotation: when the state last changed, RFC 3339.
pub const TIMESTAMP_ANNOTATION: &str = "lifecycle.apps.kruise.io/timestamp";

/// Created, not yet in service for the first time.
pub const PREPARING_NORMAL: &str = "PreparingNormal";
/// In service.
pub const NORMAL: &str = "Normal";
/// Being updated in place.
pub const UPDATING: &str = "Updating";
/// Held by a hook before its deletion.
pub const PREPARING_DELETE: &str = "PreparingDelete";

/// The pod's state; empty where it has none.
pub fn state(pod: &Pod) -> &str {
    pod.metadata.label(STATE_LABEL).unwrap_or_default()
}

/// May a pod in this state be counted as serving?
pub fn serves(pod: &Pod) -> bool {
    matches!(state(pod), "" | NORMAL)
}

/// Adds the change of state to a patch.
pub fn set(patch: &mut PodPatch, state: &str, now: Timestamp) {
    patch.labels.insert(STATE_LABEL.into(), Some(state.into()));
    patch.annotations.insert(TIMESTAMP_ANNOTATION.into(), Some(now.to_string()));
}

/// When the state was entered, where the annotation says so.
pub fn since(pod: &Pod) -> Option<Timestamp> {
    pod.metadata.annotation(TIMESTAMP_ANNOTATION)?.parse().ok()
}
