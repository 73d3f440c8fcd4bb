//! CloneSet: what v1beta1 has in fields of their own, v1alpha1 has in one type, a label and annotations.
//!
//! | v1alpha1 | v1beta1 |
//! |---|---|
//! | `updateStrategy.type` OnDelete | `updateStrategy.type` OnDelete |
//! | `updateStrategy.type`, any other | `updateStrategy.type` RollingUpdate and `rollingUpdate.podUpdatePolicy` |
//! | other fields of `updateStrategy` | the same under `rollingUpdate` |
//! | `scaleStrategy.disablePVCReuse` | the opposite of `scaleStrategy.enablePVCReuse` |
//! | a label | `scaleStrategy.excludePreparingDelete` |
//! | three annotations | three fields of `inPlaceUpdateStrategy` |

use serde_json::{Map, Value};

use super::Mapping;
use super::memory::{object_at, remove_entry, set_entry};
use crate::names::annotation::{
    IMAGE_PREDOWNLOAD_MIN_UPDATED_READY_PODS, IMAGE_PREDOWNLOAD_PARALLELISM, IMAGE_PREDOWNLOAD_TIMEOUT_SECONDS,
};
use crate::names::label::CLONESET_SCALING_EXCLUDE_PREPARING_DELETE as EXCLUDE;

pub(super) const MAPPING: Mapping = Mapping {
    to_v1beta1,
    to_v1alpha1,
    touches: &[
        &["metadata", "labels", EXCLUDE],
        &["metadata", "annotations", IMAGE_PREDOWNLOAD_PARALLELISM],
        &["metadata", "annotations", IMAGE_PREDOWNLOAD_TIMEOUT_SECONDS],
        &["metadata", "annotations", IMAGE_PREDOWNLOAD_MIN_UPDATED_READY_PODS],
        &["spec", "scaleStrategy"],
        &["spec", "updateStrategy"],
    ],
};

/// The annotations of v1alpha1 and their fields in v1beta1, and whether a percentage is a value too.
const PREDOWNLOAD: [(&str, &str, bool); 3] = [
    (IMAGE_PREDOWNLOAD_PARALLELISM, "imagePreDownloadParallelism", true),
    (IMAGE_PREDOWNLOAD_TIMEOUT_SECONDS, "imagePreDownloadTimeoutSeconds", false),
    (IMAGE_PREDOWNLOAD_MIN_UPDATED_READY_PODS, "imagePreDownloadMinUpdatedReadyPods", false),
];

const IN_PLACE: &str = "inPlaceUpdateStrategy";

fn to_v1beta1(object: &mut Value) {
    let mut excluded = false;
    let mut predownload = Vec::new();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        excluded = entry(metadata, "labels", EXCLUDE) == Some("true");
        if excluded {
            remove_entry(metadata, "labels", EXCLUDE);
        }
        for (annotation, field, percentages) in PREDOWNLOAD {
            if let Some(value) = entry(metadata, "annotations", annotation).and_then(|text| parse(text, percentages)) {
                remove_entry(metadata, "annotations", annotation);
                predownload.push((field, value));
            }
        }
    }
    let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) else { return };
    if let Some(scale) = object_at(spec, "scaleStrategy") {
        let disabled = scale.remove("disablePVCReuse") == Some(Value::Bool(true));
        scale.insert("enablePVCReuse".to_owned(), Value::Bool(!disabled));
        scale.insert("excludePreparingDelete".to_owned(), Value::Bool(excluded));
    }
    if let Some(update) = object_at(spec, "updateStrategy") {
        let mut rolling = std::mem::take(update);
        let on_delete = match rolling.remove("type") {
            Some(Value::String(type_)) if type_ == "OnDelete" => true,
            type_ => {
                rolling.insert("podUpdatePolicy".to_owned(), type_.unwrap_or_else(|| Value::from("ReCreate")));
                false
            }
        };
        for (field, value) in predownload {
            set_entry(&mut rolling, IN_PLACE, field, value);
        }
        update.insert("type".to_owned(), Value::from(if on_delete { "OnDelete" } else { "RollingUpdate" }));
        update.insert("rollingUpdate".to_owned(), Value::Object(rolling));
    }
}

fn to_v1alpha1(object: &mut Value) {
    let mut excluded = false;
    let mut predownload = [None, None, None];
    if let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) {
        if let Some(scale) = object_at(spec, "scaleStrategy") {
            let enabled = scale.remove("enablePVCReuse") == Some(Value::Bool(true));
            excluded = scale.remove("excludePreparingDelete") == Some(Value::Bool(true));
            scale.insert("disablePVCReuse".to_owned(), Value::Bool(!enabled));
        }
        if let Some(update) = object_at(spec, "updateStrategy") {
            let type_ = update.remove("type");
            let mut alpha = match update.remove("rollingUpdate") {
                Some(Value::Object(rolling)) => rolling,
                _ => Map::new(),
            };
            let policy = alpha.remove("podUpdatePolicy").unwrap_or_else(|| Value::from("ReCreate"));
            let rolling = type_.as_ref().is_none_or(|type_| type_ == "RollingUpdate");
            alpha.insert("type".to_owned(), if rolling { policy } else { type_.unwrap_or_default() });
            for ((_, field, percentages), value) in PREDOWNLOAD.iter().zip(&mut predownload) {
                let text = alpha.get(IN_PLACE).and_then(|in_place| print(in_place.get(field)?, *percentages));
                if text.is_some() {
                    remove_entry(&mut alpha, IN_PLACE, field);
                }
                *value = text;
            }
            *update = alpha;
        }
    }
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    if excluded {
        set_entry(metadata, "labels", EXCLUDE, Value::from("true"));
    } else if entry(metadata, "labels", EXCLUDE) == Some("true") {
        // It means nothing in v1beta1, but would in v1alpha1. So would the annotations.
        remove_entry(metadata, "labels", EXCLUDE);
    }
    for ((annotation, _, percentages), value) in PREDOWNLOAD.into_iter().zip(predownload) {
        match value {
            Some(text) => set_entry(metadata, "annotations", annotation, Value::from(text)),
            None if entry(metadata, "annotations", annotation)
                .is_some_and(|text| parse(text, percentages).is_some()) =>
            {
                remove_entry(metadata, "annotations", annotation);
            }
            None => {}
        }
    }
}

fn entry<'a>(metadata: &'a Map<String, Value>, field: &str, key: &str) -> Option<&'a str> {
    metadata.get(field)?.get(key)?.as_str()
}

/// An annotation as a field's value. `None` for what the field could not have: the annotation then stays.
fn parse(text: &str, percentages: bool) -> Option<Value> {
    if let Ok(number) = text.parse::<i32>() {
        return (number >= 0).then(|| Value::from(number));
    }
    let digits = text.strip_suffix('%')?;
    let whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    (percentages && whole).then(|| Value::from(text))
}

/// A field's value as an annotation. `None` if the annotation would not be read as the same field again.
fn print(value: &Value, percentages: bool) -> Option<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    parse(&text, percentages).is_some().then_some(text)
}
