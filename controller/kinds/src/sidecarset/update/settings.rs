//! The spec as decisions use it.

use berth_api::v1beta1::sidecarset::SidecarSetLostPod;
use berth_workload::objects::selector::Selector;
use berth_workload::update::update_order::UpdateOrder;
use jiff::Timestamp;
use std::sync::Arc;

use super::turns::Turns;

/// The spec's numbers and orders, checked.
pub(in crate::sidecarset) struct Settings {
    /// The reason why no update begins.
    pub(in crate::sidecarset) waits: Option<&'static str>,
    pub(in crate::sidecarset) selector: Option<Selector>,
    pub(in crate::sidecarset) partition: usize,
    pub(in crate::sidecarset) max_unavailable: usize,
    /// Pods that are out of service for repair.
    pub(in crate::sidecarset) repaired: usize,
    /// Pods that repair took, and whose workloads have created no other pod in their place.
    pub(in crate::sidecarset) lost: Vec<SidecarSetLostPod>,
    pub(in crate::sidecarset) order: UpdateOrder,
    pub(in crate::sidecarset) turns: Arc<Turns>,
    pub(in crate::sidecarset) hash: String,
    pub(in crate::sidecarset) now: Timestamp,
}

/// The message for a pod that cannot be read as it is now.
pub(in crate::sidecarset) fn unreadable(why: &str) -> String {
    format!(
        "stays, because the controller cannot read it: {why}; shorten or remove that field, or delete the pod"
    )
}
