//! The annotations of a pod in the cache about its SidecarSets.

use std::collections::BTreeMap;
use std::fmt;

use berth_api::v1beta1::sidecarset::{SidecarContainer, SidecarSetSpec};
use berth_workload::objects::pod::{Container, Pod};
use berth_workload::plan::PodPatch;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::names::{HASH, HASH_WITHOUT_IMAGE, INJECTED_LIST, WORKING_HOT_CONTAINER};
use super::sidecar::{self, List};

/// The fields of a record ([`super::records::Record`]) that decisions use. Each decision reads the
/// records of all pods, and in each only that of one SidecarSet, so nothing else of the text is
/// kept in memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Known {
    pub(super) hash: String,
    pub(super) controller_revision: String,
}

/// The record of the containers that a pod has from a SidecarSet.
pub(super) fn record(pod: &Pod, set: &str) -> Option<Known> {
    known(pod.metadata.annotation(HASH)?, set)
}

/// The same with the hash that leaves out images.
pub(super) fn record_without_image(pod: &Pod, set: &str) -> Option<Known> {
    known(pod.metadata.annotation(HASH_WITHOUT_IMAGE)?, set)
}

fn known(text: &str, set: &str) -> Option<Known> {
    let mut read = serde_json::Deserializer::from_str(text);
    let known = read.deserialize_map(RecordOf(set)).ok()?;
    read.end().ok()?;
    known
}

/// Reads the record of one SidecarSet from the records of all.
struct RecordOf<'a>(&'a str);

impl<'de> Visitor<'de> for RecordOf<'_> {
    type Value = Option<Known>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("records by SidecarSet")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut records: A) -> Result<Self::Value, A::Error> {
        let mut known = None;
        while let Some(is_it) = records.next_key_seed(Equals(self.0))? {
            if is_it {
                known = Some(records.next_value::<Form>()?.0);
            } else {
                records.next_value::<IgnoredAny>()?;
            }
        }
        Ok(known)
    }
}

/// Whether a key equals this text.
struct Equals<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for Equals<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, read: D) -> Result<bool, D::Error> {
        read.deserialize_str(self)
    }
}

impl Visitor<'_> for Equals<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, text: &str) -> Result<bool, E> {
        Ok(text == self.0)
    }
}

/// A record, or its old form: the hash alone.
struct Form(Known);

impl<'de> Deserialize<'de> for Form {
    fn deserialize<D: Deserializer<'de>>(read: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Form;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a record or a hash")
            }

            fn visit_str<E>(self, hash: &str) -> Result<Form, E> {
                Ok(Form(Known {
                    hash: hash.to_owned(),
                    ..Known::default()
                }))
            }

            fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Form, A::Error> {
                Known::deserialize(MapAccessDeserializer::new(fields)).map(Form)
            }
        }
        read.deserialize_any(Either)
    }
}

/// Whether the pod has containers of the SidecarSet, according to its annotations. Pods from before
/// version 0.8 of OpenKruise have no list.
pub fn is_injected(pod: &Pod, set: &str) -> bool {
    match pod
        .metadata
        .annotation(INJECTED_LIST)
        .filter(|list| !list.is_empty())
    {
        Some(list) => list.split(',').any(|name| name == set),
        None => record(pod, set).is_some(),
    }
}

/// Whether the pod has a container of the SidecarSet, with the webhook's mark. Annotations are no
/// proof, because each user with write access to the pod may write them.
pub fn has_container(pod: &Pod, spec: &SidecarSetSpec) -> bool {
    let in_lists = |(sidecar, list)| {
        sidecar::names_in_pod(sidecar, list)
            .into_iter()
            .map(move |name| (name, list))
    };
    let is_marked = |name: &str, list| {
        in_pod(pod, name, list).is_some_and(|container| container.env.is_injected)
    };
    sidecar::lasting(spec)
        .flat_map(in_lists)
        .any(|(name, list)| is_marked(&name, list))
}

/// The working container of each hot-upgraded pair, by its name in the SidecarSet.
pub(super) fn working(pod: &Pod) -> BTreeMap<String, String> {
    let text = pod.metadata.annotation(WORKING_HOT_CONTAINER);
    text.and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}

/// The pod's container of this name in its list. A pod may have a container of its own with that
/// name in the other list.
pub(super) fn in_pod<'a>(pod: &'a Pod, name: &str, list: List) -> Option<&'a Container> {
    let containers = match list {
        List::Init => &pod.spec.native_sidecars,
        List::Main => &pod.spec.containers,
    };
    containers.iter().find(|container| *container.name == *name)
}

/// The image of a container.
pub(super) fn image(container: &SidecarContainer) -> &str {
    container
        .container
        .get("image")
        .and_then(|image| image.as_str())
        .unwrap_or_default()
}

/// The images of a patch for this list.
pub(super) fn images_in(patch: &mut PodPatch, list: List) -> &mut BTreeMap<String, String> {
    match list {
        List::Init => &mut patch.native_images,
        List::Main => &mut patch.images,
    }
}

#[cfg(test)]
mod tests;
