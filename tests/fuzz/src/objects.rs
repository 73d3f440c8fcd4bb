//! Custom resources in both versions: read, written, converted, and looked over for faults.

use std::fmt::Debug;

use berth_api::conversion::convert;
use berth_api::names::annotation::CONVERSION;
use berth_api::validation::{new_violations, violations};
use berth_api::{v1alpha1, v1beta1};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

const ALPHA: &str = "apps.kruise.io/v1alpha1";
const BETA: &str = "apps.kruise.io/v1beta1";
const KINDS: [&str; 4] = ["CloneSet", "ImageListPullJob", "ImagePullJob", "NodeImage"];
/// No object of ours is deeper, and the parser's own bound is near.
const DEEPEST: usize = 64;

pub(crate) fn custom_resource(data: &[u8]) {
    let Some(mut object) = document(data) else { return };
    for version in [ALPHA, BETA] {
        // Whatever it is: refused with a reason, or converted.
        if let Err(error) = convert(&object.to_string(), version) {
            assert!(!error.to_string().is_empty());
        }
    }
    assert_eq!(new_violations(&object, Some(&object)), [], "an object may keep its faults");
    for violation in violations(&object) {
        assert!(!violation.field.is_empty() && !violation.message.is_empty());
    }
    if depth(&object) > DEEPEST || !as_stored(&mut object) {
        return;
    }
    // Of what no schema lets pass, not all comes back.
    if is_read(&object) {
        let there = there_and_back(&object);
        assert!(is_read(&there), "one version reads it, the other does not: {object} {there}");
    }
}

/// A document as an apiserver may hold it: it has no time before the year 0, which the types write and do not read.
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

/// Nothing is lost, however often. Returns the object in the other version.
fn there_and_back(object: &Value) -> Value {
    let (from, to) = if object["apiVersion"] == ALPHA { (ALPHA, BETA) } else { (BETA, ALPHA) };
    let there = converted(object, to);
    let back = converted(&there, from);
    assert_eq!(back, *object, "by way of {there}");
    assert_eq!(converted(&back, to), there, "the second time");
    assert_eq!(there["kind"], object["kind"]);
    assert_eq!(there.get("status"), object.get("status"));
    there
}

fn converted(object: &Value, version: &str) -> Value {
    let converted = convert(&object.to_string(), version);
    assert!(converted.is_ok(), "{object} is refused: {converted:?}");
    serde_json::from_str(&converted.unwrap_or_default()).unwrap_or_default()
}

/// What the apiserver makes of an object before it stores it: labels and annotations are maps of text or are not there, and
/// no field of ours is a fraction or null. False for what it would refuse.
fn as_stored(object: &mut Value) -> bool {
    let known =
        KINDS.iter().any(|kind| object["kind"] == *kind) && [ALPHA, BETA].iter().any(|v| object["apiVersion"] == *v);
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut).filter(|_| known) else {
        return false;
    };
    for field in ["labels", "annotations"] {
        if let Some(Value::Object(map)) = metadata.get_mut(field) {
            map.retain(|key, value| value.is_string() && key != CONVERSION);
        }
        metadata.retain(|key, value| key != field || value.as_object().is_some_and(|map| !map.is_empty()));
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

/// Does the type of its version read it? What a type reads, it writes, and reads again as the same.
fn is_read(object: &Value) -> bool {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    match (text("apiVersion"), text("kind")) {
        (ALPHA, "CloneSet") => stays::<v1alpha1::CloneSet>(object),
        (ALPHA, "ImageListPullJob") => stays::<v1alpha1::ImageListPullJob>(object),
        (ALPHA, "ImagePullJob") => stays::<v1alpha1::ImagePullJob>(object),
        (ALPHA, "NodeImage") => stays::<v1alpha1::NodeImage>(object),
        (BETA, "CloneSet") => stays::<v1beta1::CloneSet>(object),
        (BETA, "ImageListPullJob") => stays::<v1beta1::ImageListPullJob>(object),
        (BETA, "ImagePullJob") => stays::<v1beta1::ImagePullJob>(object),
        (BETA, "NodeImage") => stays::<v1beta1::NodeImage>(object),
        _ => false,
    }
}

/// Is it a `T`? If so, it is written as what reads as the same.
pub(crate) fn stays<T: DeserializeOwned + Serialize + PartialEq + Debug>(value: &Value) -> bool {
    let Ok(read) = serde_json::from_value::<T>(value.clone()) else { return false };
    let written = serde_json::to_value(&read).unwrap_or_else(|_| Value::Object(Map::new()));
    let again = serde_json::from_value::<T>(written.clone());
    assert!(
        again.as_ref().is_ok_and(|again| *again == read),
        "{value} is read as {read:?}, written as {written}, and read as {again:?}"
    );
    true
}
