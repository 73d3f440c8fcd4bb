//! The spec as decisions use it.

use berth_api::v1beta1::sidecarset::SidecarSetLostPod;
use berth_workload::objects::selector::Selector;
use berth_workload::update::update_order::UpdateOrder;
use jiff::Timestamp;
use std::sync::Arc;

use super::turns::Turns;

/// The spec's numbers and orders, checked.
pub(super) struct Settings {
    /// Why no update begins.
    pub(super) waits: Option<&'static str>,
    pub(super) selector: Option<Selector>,
    pub(super) partition: usize,
    pub(super) max_unavailable: usize,
    /// Pods that are out of service for repair.
    pub(super) repaired: usize,
    /// Pods that repair took, and in whose place their workloads have made no other.
    pub(super) lost: Vec<SidecarSetLostPod>,
    pub(super) order: UpdateOrder,
    pub(super) turns: Arc<Turns>,
    pub(super) hash: String,
    pub(super) now: Timestamp,
}

/// The message for a pod that cannot be read as it is now.
pub(super) fn unreadable(why: &str) -> String {
    format!(
        "stays, because the controller cannot read it: {why}; shorten or remove that field, or delete the pod"
    )
}
