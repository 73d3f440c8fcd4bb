//! A namespace as decisions see it: its labels.

use serde::Deserialize;

use crate::pod::Metadata;

/// A namespace, stripped to what decisions read.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Namespace {
    /// Name, uid, labels.
    pub metadata: Metadata,
}
