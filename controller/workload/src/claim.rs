//! A `PersistentVolumeClaim` as decisions see it: whose it is. What it asks for and what it got is nobody's matter here.

use serde::Deserialize;

use crate::plan::Target;
use crate::pod::Metadata;

/// A claim, stripped to what decisions read.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Claim {
    /// Names, labels, owners.
    pub metadata: Metadata,
}

impl Claim {
    /// It is being deleted, and stays until the pod that uses it has gone.
    pub fn is_going(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// The claim as the object of an action.
    pub fn target(&self) -> Target {
        Target::from(&self.metadata)
    }
}
