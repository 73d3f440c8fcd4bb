//! A namespace as decisions see it: its labels, and which of them are younger than it is.

use std::collections::BTreeMap;

use berth_api::names::label::NAMESPACE_NAME;
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny};
use serde_json::value::RawValue;

use crate::objects::pod::{Metadata, Word};
use crate::objects::selector::Selector;

/// A namespace, stripped to what decisions read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Namespace {
    /// Name, uid, labels.
    pub metadata: Metadata,
    /// By key: when labels were written that were not written with the namespace. Of most there are none.
    labelled: Box<[(Word, Timestamp)]>,
}

impl Namespace {
    /// When a label was written last by which the selector may have come to match; `None` where that was with the namespace.
    pub fn labelled_for(&self, selector: &Selector) -> Option<Timestamp> {
        // Of a label that was taken away nothing is told, but whoever did it may have written another with it.
        let lacks_one = selector
            .keys()
            .any(|key| self.metadata.label(key).is_none());
        let counts = |key: &str| lacks_one || selector.keys().any(|asked| asked == key);
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

/// By key: when labels were last written after this time, as the apiserver notes it of each writer. Who writes one and the same value
/// again changes no time. The label that each namespace has of its name never changes.
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
    // A namespace is worth more than what cannot be read of its writers.
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
