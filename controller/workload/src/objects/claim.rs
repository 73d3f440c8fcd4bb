//! A `PersistentVolumeClaim` as decisions see it: whose it is, what it asks for and what it got.

use jiff::Timestamp;
use serde::Deserialize;

use crate::objects::pod::{Metadata, Word};
use crate::objects::quantity;
use crate::objects::target::Target;

/// A claim, stripped to what decisions read.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Claim {
    /// Names, labels, owners.
    pub metadata: Metadata,
    /// What it asks for.
    #[serde(default)]
    pub spec: Spec,
    /// What it got.
    #[serde(default)]
    pub status: Status,
}

/// What a claim asks for.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    /// The class of its volume.
    pub storage_class_name: Option<Word>,
    /// How much it asks for.
    pub resources: Resources,
}

/// Amounts.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Resources {
    /// At least this.
    pub requests: Amounts,
}

/// Amounts by name.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Amounts {
    /// Bytes, as a quantity.
    pub storage: Option<Box<str>>,
}

/// What a claim got.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Status {
    /// What its volume has.
    pub capacity: Amounts,
    /// How far a resize is.
    pub conditions: Box<[Condition]>,
}

/// One aspect of a claim's state.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// Which.
    #[serde(rename = "type")]
    pub type_: Word,
    /// `True`, `False` or `Unknown`.
    pub status: Word,
    /// When the status last changed.
    pub last_transition_time: Option<Timestamp>,
}

impl Claim {
    /// It is being deleted, and stays until the pod that uses it has gone.
    pub fn is_going(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Does it ask for at least as much? What is no quantity is not more than anything.
    pub fn requests(&self, storage: &str) -> bool {
        self.spec
            .resources
            .requests
            .storage
            .as_deref()
            .is_some_and(|own| quantity::is_at_least(own, storage))
    }

    /// Has its volume what it asks for? One without a volume has no less than it will have.
    pub fn has_what_it_requests(&self) -> bool {
        let (wanted, has) = (
            &self.spec.resources.requests.storage,
            &self.status.capacity.storage,
        );
        match (wanted, has) {
            (Some(wanted), Some(has)) => quantity::is_at_least(has, wanted),
            _ => true,
        }
    }

    /// Its volume is larger, and its file system grows when a pod mounts it.
    pub fn waits_for_its_file_system(&self) -> bool {
        let mut conditions = self.status.conditions.iter();
        conditions.any(|c| &*c.type_ == "FileSystemResizePending" && &*c.status == "True")
    }

    /// Since when its resize is where it is, if anybody has begun with it.
    pub fn resizes_since(&self) -> Option<Timestamp> {
        self.status
            .conditions
            .iter()
            .filter_map(|condition| condition.last_transition_time)
            .max()
    }

    /// The claim as the object of an action.
    pub fn target(&self) -> Target {
        Target::from(&self.metadata)
    }
}
