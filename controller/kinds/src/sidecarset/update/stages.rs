//! The names of stages.

/// The stage in which pods get new images.
pub(in crate::sidecarset) const UPDATE: &str = "update";
/// The stage in which a pod is replaced.
pub(in crate::sidecarset) const REPAIR: &str = "repair";
/// The stage in which old containers get the empty image.
pub(in crate::sidecarset) const END_OF_HOT_UPGRADE: &str = "end of hot upgrade";
