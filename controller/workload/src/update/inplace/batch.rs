//! The batches in the record of an update.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::plan::PodPatch;

/// Containers that were updated together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Batch {
    /// When.
    pub timestamp: Option<Timestamp>,
    /// Their names.
    #[serde(deserialize_with = "null_as_empty")]
    pub containers: Vec<String>,
}

/// The condition for the next batch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PreCheck {
    /// Containers that must be ready.
    #[serde(deserialize_with = "null_as_empty")]
    pub containers_required_ready: Vec<String>,
}

/// Labels and annotations that OpenKruise changes together with a container that reads them. Keys
/// without a value are removed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RefMetadata {
    /// Labels.
    #[serde(
        deserialize_with = "null_as_empty",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub labels: BTreeMap<String, Option<String>>,
    /// Annotations.
    #[serde(
        deserialize_with = "null_as_empty",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub annotations: BTreeMap<String, Option<String>>,
}

impl RefMetadata {
    pub(super) fn add_to(self, patch: &mut PodPatch) {
        patch.labels.extend(self.labels);
        patch.annotations.extend(self.annotations);
    }
}

pub(super) fn null_as_empty<'de, T: Deserialize<'de> + Default, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
