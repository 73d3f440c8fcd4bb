//! The names of stages.

/// The stage in which pods get new images.
pub(super) const UPDATE: &str = "update";
/// The stage in which a pod is replaced.
pub(super) const REPAIR: &str = "repair";
/// The stage in which old containers get the empty image.
pub(super) const END_OF_HOT_UPGRADE: &str = "end of hot upgrade";
