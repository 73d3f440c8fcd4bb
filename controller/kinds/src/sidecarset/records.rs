//! The records of a pod's SidecarSets in its annotations. Several programs write these annotations,
//! so an entry of another program stays as it is.

use std::collections::{BTreeMap, BTreeSet};

use berth_workload::update::revision::form;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Which containers of a SidecarSet a pod has.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Record {
    /// The time when the containers came, RFC 3339.
    pub update_timestamp: Option<String>,
    /// The hash, with or without images.
    pub hash: String,
    /// The name of the SidecarSet.
    pub sidecar_set_name: String,
    /// The containers, by their names in the SidecarSet, sorted.
    pub sidecar_list: Option<Vec<String>>,
    /// The revision with this hash. Only beside the hash with images.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub controller_revision: String,
    /// Fields of other programs.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

impl Record {
    /// The record of containers that come now; `revision` is empty beside the hash that leaves out
    /// images.
    pub(super) fn new(
        set: &str,
        (hash, revision): (&str, &str),
        containers: &[String],
        now: &str,
    ) -> Self {
        Self {
            update_timestamp: Some(now.to_owned()),
            hash: hash.to_owned(),
            sidecar_set_name: set.to_owned(),
            sidecar_list: Some(containers.to_vec()),
            controller_revision: revision.to_owned(),
            others: Map::new(),
        }
    }
}

/// A time as OpenKruise writes it: without a fraction of a second.
pub fn second(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

/// The records of one annotation, by SidecarSet.
pub type Records = BTreeMap<String, Record>;

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Record(Record),
    /// The old form: the hash alone.
    Hash(String),
}

impl Written {
    fn record(self, name: &str) -> Record {
        match self {
            Self::Record(record) => record,
            Self::Hash(hash) => Record {
                hash,
                sidecar_set_name: name.to_owned(),
                ..Record::default()
            },
        }
    }
}

/// An entry of an annotation under a name.
#[derive(Serialize)]
#[serde(untagged)]
enum Entry {
    Record(Record),
    /// An entry that is no record: it stays, because its writer may need it.
    Other(Value),
}

/// Reads the records of an annotation. It ignores entries that are no records, because the pod's
/// creator may have written them.
pub fn read(annotation: Option<&str>) -> Records {
    let entries = entries(annotation).into_iter();
    let record = |(name, entry)| match entry {
        Entry::Record(record) => Some((name, record)),
        Entry::Other(_) => None,
    };
    entries.filter_map(record).collect()
}

fn entries(annotation: Option<&str>) -> BTreeMap<String, Entry> {
    let found: BTreeMap<String, Value> = annotation
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    let entry = |(name, value): (String, Value)| {
        let entry = match serde_json::from_value::<Written>(value.clone()) {
            Ok(written) => Entry::Record(written.record(&name)),
            Err(_) => Entry::Other(value),
        };
        (name, entry)
    };
    found.into_iter().map(entry).collect()
}

/// The annotation with this record, and the names that it then has. All other entries stay,
/// readable or not. A text that is no JSON object is replaced.
pub(super) fn noted(annotation: Option<&str>, record: Record) -> (String, Vec<String>) {
    let mut entries = entries(annotation);
    entries.insert(record.sidecar_set_name.clone(), Entry::Record(record));
    let text = form::escaped(&serde_json::to_string(&entries).unwrap_or_default());
    (text, entries.into_keys().collect())
}

/// The list of a pod's SidecarSets, with some more.
pub fn list<'a>(annotation: Option<&'a str>, more: impl IntoIterator<Item = &'a str>) -> String {
    let names = annotation
        .unwrap_or_default()
        .split(',')
        .chain(more)
        .filter(|name| !name.is_empty());
    names
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect::<Vec<_>>()
        .join(",")
}

#[cfg(test)]
mod tests;
