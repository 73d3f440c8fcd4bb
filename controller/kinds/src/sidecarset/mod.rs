//! SidecarSet: containers that pods get when they are created.
//!
//! What a pod gets is a pure function of the pod, as untyped JSON, and of the SidecarSets that match it ([`inject`]). It is
//! called twice for a pod that another webhook changes in between, and then changes nothing. Pods know which containers they
//! have by two hashes of the SidecarSet ([`hash`]), which are OpenKruise's to the byte, so that neither takes the pods of the
//! other for outdated.

pub mod allowed;
pub mod expression;
pub mod hash;
pub mod inject;
pub mod names;
pub mod pattern;
pub mod records;
pub mod resources;
