//! A `PersistentVolumeClaim` with the fields that decisions read: its owner, its requests and its
//! capacity.

use jiff::Timestamp;
use serde::Deserialize;

use crate::objects::pod::{Metadata, Word};
use crate::objects::quantity;
use crate::objects::target::Target;

/// A claim, with the fields that decisions read.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Claim {
    /// Names, labels, owners.
    pub metadata: Metadata,
    /// Its requests.
    #[serde(default)]
    pub spec: Spec,
    /// Its state.
    #[serde(default)]
    pub status: Status,
}

/// The requests of a claim.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    /// The class of its volume.
    pub storage_class_name: Option<Word>,
    /// The requested amounts.
    pub resources: Resources,
}

/// Amounts.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Resources {
    /// The minimum.
    pub requests: Amounts,
}

/// Amounts by name.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Amounts {
    /// Bytes, as a quantity.
    pub storage: Option<Box<str>>,
}

/// The state of a claim.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Status {
    /// The capacity of its volume.
    pub capacity: Amounts,
    /// The progress of a resize.
    pub conditions: Box<[Condition]>,
}

/// A condition of a claim.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// The type.
    #[serde(rename = "type")]
    pub type_: Word,
    /// `True`, `False` or `Unknown`.
    pub status: Word,
    /// When the status last changed.
    pub last_transition_time: Option<Timestamp>,
}

impl Claim {
    /// Whether the claim is being deleted. It stays until the pod that uses it is gone.
    pub fn is_going(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Whether the claim requests at least this amount. False if one of the amounts is no quantity.
    pub fn requests(&self, storage: &str) -> bool {
        self.spec
            .resources
            .requests
            .storage
            .as_deref()
            .is_some_and(|own| quantity::is_at_least(own, storage))
    }

    /// Whether the volume has the requested capacity. A claim without a volume counts as satisfied,
    /// because its volume will have it.
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

    /// Whether the volume is larger and its file system grows when a pod mounts it.
    pub fn waits_for_its_file_system(&self) -> bool {
        let mut conditions = self.status.conditions.iter();
        conditions.any(|c| &*c.type_ == "FileSystemResizePending" && &*c.status == "True")
    }

    /// Since when its resize is in the present state, if one has begun.
    pub fn resizes_since(&self) -> Option<Timestamp> {
        self.status
            .conditions
            .iter()
            .filter_map(|condition| condition.last_transition_time)
            .max()
    }

    /// The claim as the target of an action.
    pub fn target(&self) -> Target {
        Target::from(&self.metadata)
    }
}
