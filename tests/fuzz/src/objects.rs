//! Custom resources in every version: read, written, converted, and checked for faults.

use std::collections::BTreeSet;
use std::fmt::Debug;

use berth_api::kinds::convert::convert;
use berth_api::kinds::{self, Kind, Version};
use berth_api::kinds::{new_violations, violations};
use berth_api::names::annotation::CONVERSION;
use berth_api::{v1alpha1, v1beta1};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::watch;

/// A type of Berth's API.
struct Type {
    kind: &'static str,
    version: Version,
    /// Whether the type reads an object. An object that it reads is written and reads back
    /// unchanged.
    reads: fn(&Value) -> bool,
    /// Reads the output of a watch or a list.
    follows: fn(&[u8]),
}

impl Type {
    const fn of<T: DeserializeOwned + Serialize + PartialEq + Debug>(
        kind: &'static str,
        version: Version,
    ) -> Self {
        Self {
            kind,
            version,
            reads: stays::<T>,
            follows: watch::read::<T>,
        }
    }
}

/// The types of all versions of all kinds.
const TYPES: [Type; 25] = [
    Type::of::<v1alpha1::BroadcastJob>("BroadcastJob", Version::V1Alpha1),
    Type::of::<v1beta1::BroadcastJob>("BroadcastJob", Version::V1Beta1),
    Type::of::<v1alpha1::CloneSet>("CloneSet", Version::V1Alpha1),
    Type::of::<v1beta1::CloneSet>("CloneSet", Version::V1Beta1),
    Type::of::<v1alpha1::ContainerRecreateRequest>("ContainerRecreateRequest", Version::V1Alpha1),
    Type::of::<v1beta1::ContainerRecreateRequest>("ContainerRecreateRequest", Version::V1Beta1),
    Type::of::<v1alpha1::DaemonSet>("DaemonSet", Version::V1Alpha1),
    Type::of::<v1beta1::DaemonSet>("DaemonSet", Version::V1Beta1),
    Type::of::<v1alpha1::ImageListPullJob>("ImageListPullJob", Version::V1Alpha1),
    Type::of::<v1beta1::ImageListPullJob>("ImageListPullJob", Version::V1Beta1),
    Type::of::<v1alpha1::ImagePullJob>("ImagePullJob", Version::V1Alpha1),
    Type::of::<v1beta1::ImagePullJob>("ImagePullJob", Version::V1Beta1),
    Type::of::<v1alpha1::NodeImage>("NodeImage", Version::V1Alpha1),
    Type::of::<v1beta1::NodeImage>("NodeImage", Version::V1Beta1),
    Type::of::<v1alpha1::PersistentPodState>("PersistentPodState", Version::V1Alpha1),
    Type::of::<v1beta1::PersistentPodState>("PersistentPodState", Version::V1Beta1),
    Type::of::<v1alpha1::PodUnavailableBudget>("PodUnavailableBudget", Version::V1Alpha1),
    Type::of::<v1alpha1::DistributedPodDisruptionBudget>(
        "DistributedPodDisruptionBudget",
        Version::V1Alpha1,
    ),
    Type::of::<v1beta1::PodUnavailableBudget>("PodUnavailableBudget", Version::V1Beta1),
    Type::of::<v1alpha1::SidecarSet>("SidecarSet", Version::V1Alpha1),
    Type::of::<v1beta1::SidecarSet>("SidecarSet", Version::V1Beta1),
    Type::of::<v1alpha1::StatefulSet>("StatefulSet", Version::V1Alpha1),
    Type::of::<v1beta1::StatefulSet>("StatefulSet", Version::V1Beta1),
    Type::of::<v1alpha1::UnitedDeployment>("UnitedDeployment", Version::V1Alpha1),
    Type::of::<v1beta1::UnitedDeployment>("UnitedDeployment", Version::V1Beta1),
];

/// No object of Berth's kinds is deeper, and the parser's own bound is near.
const DEEPEST: usize = 64;

pub(crate) fn custom_resource(data: &[u8]) {
    let Some(mut object) = document(data) else {
        return;
    };
    let versions = kinds::KINDS
        .iter()
        .flat_map(|kind| kind.versions().map(|version| kind.api_version(version)));
    for version in versions.collect::<BTreeSet<_>>() {
        // Any object is refused with a reason, or converted.
        if let Err(error) = convert(&object.to_string(), &version) {
            assert!(!error.to_string().is_empty());
        }
    }
    assert_eq!(
        new_violations(&object, Some(&object)),
        [],
        "an object may keep its faults"
    );
    for violation in violations(&object) {
        assert!(!violation.field.is_empty() && !violation.message.is_empty());
    }
    let Some((kind, version)) = known(&object) else {
        return;
    };
    if depth(&object) > DEEPEST || !as_stored(&mut object) {
        return;
    }
    // Objects that no schema accepts may lose fields.
    if is_read(&object) {
        for other in kind.versions().filter(|other| *other != version) {
            let there = there_and_back(
                &object,
                &kind.api_version(version),
                &kind.api_version(other),
            );
            assert!(
                is_read(&there),
                "one version reads it, the other does not: {object} {there}"
            );
        }
    }
}

/// The output of a watch or a list, read as each stored kind.
pub(crate) fn followed(data: &[u8]) {
    let is_stored =
        |type_: &&Type| kinds::named(type_.kind).is_some_and(|kind| kind.stored == type_.version);
    TYPES
        .iter()
        .filter(is_stored)
        .for_each(|type_| (type_.follows)(data));
}

/// The kind and the version of an object, if it is of Berth's kinds.
fn known(object: &Value) -> Option<(&'static Kind, Version)> {
    let text = |field: &str| object.get(field)?.as_str();
    let kind = kinds::named(text("kind")?)?;
    Some((kind, kind.version(text("apiVersion")?)?))
}

/// A document as an apiserver may hold it: it has no time before the year 0, which the types write
/// and do not read.
pub(crate) fn document(data: &[u8]) -> Option<Value> {
    fn is_dated(value: &Value) -> bool {
        match value {
            Value::String(text) => !text.starts_with("-00"),
            Value::Array(list) => list.iter().all(is_dated),
            Value::Object(map) => map.values().all(is_dated),
            _ => true,
        }
    }
    serde_json::from_slice(data).ok().filter(is_dated)
}

/// Nothing is lost in any number of conversions. Returns the object in the other version.
fn there_and_back(object: &Value, from: &str, to: &str) -> Value {
    let there = converted(object, to);
    let back = converted(&there, from);
    assert_eq!(back, *object, "by way of {there}");
    assert_eq!(converted(&back, to), there, "the second time");
    assert_eq!(there["kind"], object["kind"]);
    // Parts of their status are annotations or other fields in v1alpha1.
    if ![
        kinds::CONTAINER_RECREATE_REQUEST.kind,
        kinds::UNITED_DEPLOYMENT.kind,
    ]
    .iter()
    .any(|kind| object["kind"] == *kind)
    {
        assert_eq!(there.get("status"), object.get("status"));
    }
    there
}

fn converted(object: &Value, version: &str) -> Value {
    let converted = convert(&object.to_string(), version);
    assert!(converted.is_ok(), "{object} is refused: {converted:?}");
    serde_json::from_str(&converted.unwrap_or_default()).unwrap_or_default()
}

/// Changes an object as the apiserver does before it stores it: labels and annotations are maps of
/// text or missing, and no field of Berth's kinds is a fraction or null. False for an object that
/// it would refuse.
fn as_stored(object: &mut Value) -> bool {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return false;
    };
    for field in ["labels", "annotations"] {
        if let Some(Value::Object(map)) = metadata.get_mut(field) {
            map.retain(|key, value| value.is_string() && key != CONVERSION);
        }
        metadata.retain(|key, value| {
            key != field || value.as_object().is_some_and(|map| !map.is_empty())
        });
    }
    without_fractions_and_nulls(object);
    true
}

fn without_fractions_and_nulls(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => *value = Value::from(0),
        Value::Array(list) => list.iter_mut().for_each(without_fractions_and_nulls),
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(without_fractions_and_nulls);
        }
        _ => {}
    }
}

fn depth(value: &Value) -> usize {
    1 + match value {
        Value::Object(map) => map.values().map(depth).max().unwrap_or(0),
        Value::Array(list) => list.iter().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// Does the type of its version read it?
fn is_read(object: &Value) -> bool {
    let Some((kind, version)) = known(object) else {
        return false;
    };
    TYPES
        .iter()
        .any(|type_| (type_.kind, type_.version) == (kind.kind, version) && (type_.reads)(object))
}

/// Is it a `T`? If so, it must be written in a form that reads back unchanged.
pub(crate) fn stays<T: DeserializeOwned + Serialize + PartialEq + Debug>(value: &Value) -> bool {
    let Ok(read) = serde_json::from_value::<T>(value.clone()) else {
        return false;
    };
    let written = serde_json::to_value(&read).unwrap_or_else(|_| Value::Object(Map::new()));
    let again = serde_json::from_value::<T>(written.clone());
    assert!(
        again.as_ref().is_ok_and(|again| *again == read),
        "{value} is read as {read:?}, written as {written}, and read as {again:?}"
    );
    true
}

#[cfg(test)]
mod tests;
