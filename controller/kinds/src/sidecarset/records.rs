//! What a pod's annotations say of its SidecarSets. Several write them, so an entry that is not one's own stays as it
//! is.

use std::collections::{BTreeMap, BTreeSet};

use berth_workload::revision::form;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Which containers of a SidecarSet a pod has.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Record {
    /// When they came, RFC 3339.
    pub update_timestamp: Option<String>,
    /// The hash that the annotation is about.
    pub hash: String,
    /// The SidecarSet.
    pub sidecar_set_name: String,
    /// The containers, as the SidecarSet calls them, sorted.
    pub sidecar_list: Option<Vec<String>>,
    /// The revision that the hash is of. Only in the hash with images.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub controller_revision: String,
    /// What others say.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

impl Record {
    /// Of containers that come now; `revision` is empty beside the hash that leaves out images.
    pub(super) fn new(set: &str, (hash, revision): (&str, &str), containers: &[String], now: &str) -> Self {
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

/// A time as the peer writes it: without a part of a second.
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

/// Characters of a text that is wrong, in a message.
const SHOWN: usize = 100;

/// Reads such an annotation. None, or an empty one, has no records.
///
/// # Errors
/// It is no JSON of records.
pub fn read(annotation: Option<&str>) -> Result<Records, String> {
    let Some(text) = annotation.filter(|text| !text.is_empty()) else { return Ok(Records::new()) };
    let wrong = |_| {
        let begin: String = text.chars().take(SHOWN).collect();
        format!("{begin:?} is no JSON of records of SidecarSets; remove the annotation")
    };
    let written: BTreeMap<String, Written> = serde_json::from_str(text).map_err(wrong)?;
    let record = |name: &String, written| match written {
        Written::Record(record) => record,
        Written::Hash(hash) => Record { hash, sidecar_set_name: name.clone(), ..Record::default() },
    };
    Ok(written.into_iter().map(|(name, written)| (name.clone(), record(&name, written))).collect())
}

/// The annotation of some records, as Go writes it.
pub fn written(records: &Records) -> String {
    form::escaped(&serde_json::to_string(records).unwrap_or_default())
}

/// The list of SidecarSets that a pod has, with some more.
pub fn list<'a>(annotation: Option<&'a str>, more: impl IntoIterator<Item = &'a str>) -> String {
    let names = annotation.unwrap_or_default().split(',').chain(more).filter(|name| !name.is_empty());
    names.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_and_written_as_openkruise_has_them() {
        let text = r#"{"a":{"updateTimestamp":"2026-01-02T03:04:05Z","hash":"h","sidecarSetName":"a","sidecarList":["x","y"],"controllerRevision":"a-1"},"b":{"updateTimestamp":null,"hash":"i","sidecarSetName":"b","sidecarList":null,"later":1}}"#;
        let records = read(Some(text)).unwrap();
        assert_eq!((records["a"].hash.as_str(), records["a"].controller_revision.as_str()), ("h", "a-1"));
        assert_eq!(written(&records), text);
    }

    #[test]
    fn the_old_form_is_a_hash() {
        let records = read(Some(r#"{"a":"h","b":{"hash":"i"}}"#)).unwrap();
        let a = Record { hash: "h".to_owned(), sidecar_set_name: "a".to_owned(), ..Record::default() };
        assert_eq!((&records["a"], records["b"].hash.as_str()), (&a, "i"));
        assert_eq!(read(None), Ok(Records::new()));
        assert_eq!(read(Some("")), Ok(Records::new()));
        for text in ["h", "[]", r#"{"a":1}"#] {
            assert!(read(Some(text)).unwrap_err().contains("records of SidecarSets"), "{text}");
        }
    }

    #[test]
    fn lists_are_sorted_and_name_each_once() {
        assert_eq!(list(None, ["b", "a"]), "a,b");
        assert_eq!(list(Some("c,a,"), ["a", "b"]), "a,b,c");
        assert_eq!(list(Some(""), []), "");
    }
}
