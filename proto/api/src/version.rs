//! The versions of our API groups.

use crate::names::{V1ALPHA1, V1BETA1};

/// A version in which a kind may be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// The version of older manifests.
    V1Alpha1,
    /// The version that is stored, of kinds that have it.
    V1Beta1,
}

impl Version {
    /// The name in manifests, after the group.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V1Alpha1 => V1ALPHA1,
            Self::V1Beta1 => V1BETA1,
        }
    }
}
