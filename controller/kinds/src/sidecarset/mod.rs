//! SidecarSet: containers that pods get when they are created.
//!
//! What a pod gets is a pure function of the pod, as untyped JSON, and of the SidecarSets that match it ([`inject`]). It is
//! have by two hashes of the SidecarSet ([`hash`]), which are OpenKruise's to the byte, so that neither takes the pods of the
//! other for outdated.

pub mod expression;
pub mod hash;
pub mod names;
