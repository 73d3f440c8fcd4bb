//! The life of a pod: the state in its label, and the hooks that hold it between two states.

pub mod hook;

pub use berth_api::names::annotation::LIFECYCLE_TIMESTAMP as TIMESTAMP_ANNOTATION;
pub use berth_api::names::label::LIFECYCLE_STATE as STATE_LABEL;
pub use berth_api::names::lifecycle_state::{
    NORMAL, PREPARING_DELETE, PREPARING_NORMAL, PREPARING_UPDATE, UPDATED, UPDATING,
};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::objects::patch::pod::PodPatch;
use crate::objects::pod::Pod;

/// The pod's state; empty where it has none.
pub fn state(pod: &Pod) -> &str {
    pod.metadata.label(STATE_LABEL).unwrap_or_default()
}

/// Whether a pod in this lifecycle state may count as available.
pub fn serves(pod: &Pod) -> bool {
    matches!(state(pod), "" | NORMAL)
}

/// Adds the change of state to a patch.
pub fn set(patch: &mut PodPatch, state: &str, now: Timestamp) {
    patch.labels.insert(STATE_LABEL.into(), Some(state.into()));
    patch
        .annotations
        .insert(TIMESTAMP_ANNOTATION.into(), Some(now.to_string()));
}

/// The first state of a pod that is to be created.
pub fn begin(pod: &mut Value, state: &str, now: Timestamp) {
    pod["metadata"]["labels"][STATE_LABEL] = json!(state);
    pod["metadata"]["annotations"][TIMESTAMP_ANNOTATION] = json!(now.to_string());
}

/// When the state was entered, where the annotation says so.
pub fn since(pod: &Pod) -> Option<Timestamp> {
    pod.metadata.annotation(TIMESTAMP_ANNOTATION)?.parse().ok()
}
