//! A namespace as decisions read it: its labels, and the time of each label that is younger than
//! the namespace.

use std::collections::BTreeMap;

use berth_api::names::label::NAMESPACE_NAME;
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny};
use serde_json::value::RawValue;

use crate::objects::pod::{Metadata, Word};
use crate::objects::selector::Selector;

/// A namespace, with the fields that decisions read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Namespace {
    /// Name, uid, labels.
    pub metadata: Metadata,
    /// The write times, by key, of labels that were not written with the namespace. Most namespaces
    /// have none.
    labelled: Box<[(Word, Timestamp)]>,
}

impl Namespace {
    /// The last time at which a label was written that may have made the selector match; `None` if
    /// the labels are as old as the namespace.
    pub fn labelled_for(&self, selector: &Selector) -> Option<Timestamp> {
        // The apiserver does not record a removed label, but its remover may have written another
        // label at the same time.
        let lacks_one = selector
            .keys()
            .any(|key| self.metadata.label(key).is_none());
        let counts = |key: &str| lacks_one || selector.keys().any(|selected| selected == key);
        self.labelled
            .iter()
            .filter(|(key, _)| counts(key))
            .map(|(_, time)| *time)
            .max()
    }
}

impl<'de> Deserialize<'de> for Namespace {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Read {
            metadata: ReadMetadata,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct ReadMetadata {
            #[serde(flatten)]
            metadata: Metadata,
            managed_fields: Option<Box<RawValue>>,
        }
        let ReadMetadata {
            metadata,
            managed_fields,
        } = Read::deserialize(deserializer)?.metadata;
        let fields = managed_fields.as_deref().map_or("[]", RawValue::get);
        let labelled = labelled(fields, metadata.creation_timestamp);
        Ok(Self { metadata, labelled })
    }
}

/// The last write times of labels, by key, after the namespace's creation, from the managed fields
/// of each writer. Writing the same value again does not change a time. The namespace's own name
/// label never changes.
fn labelled(managed_fields: &str, created: Option<Timestamp>) -> Box<[(Word, Timestamp)]> {
    #[derive(Deserialize, Default)]
    #[serde(rename_all = "camelCase", default)]
    struct Writer {
        time: Option<Timestamp>,
        fields_v1: Fields,
    }
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Fields {
        #[serde(rename = "f:metadata")]
        metadata: OfMetadata,
    }
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct OfMetadata {
        #[serde(rename = "f:labels")]
        labels: BTreeMap<String, IgnoredAny>,
    }
    // Unreadable managed fields must not hide the namespace.
    let writers: Vec<Writer> = serde_json::from_str(managed_fields).unwrap_or_default();
    let mut times = BTreeMap::<Word, Timestamp>::new();
    for Writer { time, fields_v1 } in writers {
        let Some(time) = time.filter(|time| created.is_none_or(|created| *time > created)) else {
            continue;
        };
        for key in fields_v1
            .metadata
            .labels
            .keys()
            .filter_map(|key| key.strip_prefix("f:"))
        {
            if key != NAMESPACE_NAME {
                let known = times.entry(key.into()).or_insert(time);
                *known = time.max(*known);
            }
        }
    }
    times.into_iter().collect()
}

#[cfg(test)]
mod tests;
