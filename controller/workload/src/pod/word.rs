//! Words that every pod has again and again.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use berth_api::names::{annotation, condition, label, lifecycle_state as lifecycle};
use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// A text that is likely one of a few. Those take no memory of their own: a tenth of what a pod is, with 10,000 pods 10 MiB.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Word(Cow<'static, str>);

/// What is said of every pod: labels and annotations that Kubernetes, OpenKruise and Berth set, their values, conditions,
/// their states and reasons, phases, owners.
const KNOWN: [&str; 52] = [
    "",
    "True",
    "False",
    "Ready",
    "ContainersReady",
    "Initialized",
    "PodScheduled",
    "PodReadyToStartContainers",
    condition::INPLACE_UPDATE_READY,
    condition::KRUISE_POD_READY,
    "Running",
    "Pending",
    "Succeeded",
    "Failed",
    "Unknown",
    label::CLONESET_INSTANCE_ID,
    label::CONTROLLER_REVISION_HASH,
    label::KRUISE_CONTROLLER_REVISION_HASH,
    label::POD_TEMPLATE_HASH,
    label::LIFECYCLE_STATE,
    label::SPECIFIED_DELETE,
    annotation::LIFECYCLE_TIMESTAMP,
    annotation::INPLACE_UPDATE_STATE,
    annotation::INPLACE_UPDATE_GRACE,
    annotation::LAUNCHED_PRIORITY,
    lifecycle::NORMAL,
    lifecycle::UPDATING,
    lifecycle::UPDATED,
    lifecycle::PREPARING_NORMAL,
    lifecycle::PREPARING_UPDATE,
    lifecycle::PREPARING_DELETE,
    "CloneSet",
    "apps.kruise.io/v1beta1",
    "apps.kruise.io/v1alpha1",
    "ReplicaSet",
    "StatefulSet",
    "DaemonSet",
    "apps/v1",
    "Job",
    "batch/v1",
    "Node",
    "v1",
    "app",
    "name",
    "app.kubernetes.io/name",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/component",
    "app.kubernetes.io/part-of",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/version",
    "ContainersNotReady",
    "ReadinessGatesNotReady",
];

fn known(text: &str) -> Option<Word> {
    KNOWN.iter().find(|known| **known == text).map(|known| Word(Cow::Borrowed(known)))
}

impl From<&str> for Word {
    fn from(text: &str) -> Self {
        known(text).unwrap_or_else(|| Self(Cow::Owned(text.to_owned())))
    }
}

impl From<String> for Word {
    fn from(mut text: String) -> Self {
        known(&text).unwrap_or_else(|| {
            text.shrink_to_fit();
            Self(Cow::Owned(text))
        })
    }
}

impl Deref for Word {
    type Target = str;

    #[inline]
    fn deref(&self) -> &str {
        match &self.0 {
            Cow::Borrowed(text) => text,
            Cow::Owned(text) => text,
        }
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl Serialize for Word {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Read)
    }
}

struct Read;

impl Visitor<'_> for Read {
    type Value = Word;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Word, E> {
        Ok(text.into())
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Word, E> {
        Ok(text.into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn known_words_take_no_memory_and_others_are_kept() {
        for known in KNOWN {
            let word: Word = serde_json::from_value(json!(known)).unwrap();
            assert!(matches!(word.0, Cow::Borrowed(_)), "{known}");
            assert_eq!(&*word, known);
        }
        let other: Word = serde_json::from_str("\"b\\u00e4r\"").unwrap();
        assert_eq!((&*other, json!(other)), ("bär", json!("bär")));
        assert!(serde_json::from_str::<Word>("1").is_err());
        assert!(Word::from("a") < Word::from("app") && Word::from("app") < Word::from("b"));
    }
}
