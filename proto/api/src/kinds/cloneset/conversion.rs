//! CloneSet: v1alpha1 has one type, a label and annotations for fields of v1beta1.
//!
//! | v1alpha1 | v1beta1 |
//! |---|---|
//! | `updateStrategy.type` OnDelete | `updateStrategy.type` OnDelete |
//! | `updateStrategy.type`, others | type RollingUpdate and `rollingUpdate.podUpdatePolicy` |
//! | other fields of `updateStrategy` | the same under `rollingUpdate` |
//! | `scaleStrategy.disablePVCReuse` | the opposite of `scaleStrategy.enablePVCReuse` |
//! | a label | `scaleStrategy.excludePreparingDelete` |
//! | three annotations | three fields of `inPlaceUpdateStrategy` |

use crate::conversion::Mapping;
use crate::conversion::json::{Json, Object};
use crate::conversion::mapping::reads;
use crate::conversion::memory::{object_at, remove_entry, set_entry};
use crate::names::annotation::{
    IMAGE_PREDOWNLOAD_MIN_UPDATED_READY_PODS, IMAGE_PREDOWNLOAD_PARALLELISM,
    IMAGE_PREDOWNLOAD_TIMEOUT_SECONDS,
};
use crate::names::label::CLONESET_SCALING_EXCLUDE_PREPARING_DELETE as EXCLUDE;
use crate::version::Version;
use crate::{v1alpha1, v1beta1};

pub(crate) const MAPPING: Mapping = Mapping {
    to_v1beta1,
    to_v1alpha1,
    touches: &[
        &["metadata", "labels", EXCLUDE],
        &["metadata", "annotations", IMAGE_PREDOWNLOAD_PARALLELISM],
        &["metadata", "annotations", IMAGE_PREDOWNLOAD_TIMEOUT_SECONDS],
        &[
            "metadata",
            "annotations",
            IMAGE_PREDOWNLOAD_MIN_UPDATED_READY_PODS,
        ],
        &["spec", "scaleStrategy"],
        &["spec", "updateStrategy"],
    ],
    decides: &[],
    is_read,
};

/// The annotations of v1alpha1, their fields in v1beta1, and whether percentages are valid.
const PREDOWNLOAD: [(&str, &str, bool); 3] = [
    (
        IMAGE_PREDOWNLOAD_PARALLELISM,
        "imagePreDownloadParallelism",
        true,
    ),
    (
        IMAGE_PREDOWNLOAD_TIMEOUT_SECONDS,
        "imagePreDownloadTimeoutSeconds",
        false,
    ),
    (
        IMAGE_PREDOWNLOAD_MIN_UPDATED_READY_PODS,
        "imagePreDownloadMinUpdatedReadyPods",
        false,
    ),
];

const IN_PLACE: &str = "inPlaceUpdateStrategy";

fn to_v1beta1(object: &mut Json<'_>) {
    let mut excluded = false;
    let mut predownload = Vec::new();
    if let Some(metadata) = object.at(&["metadata"]).and_then(Json::object) {
        excluded = entry(metadata, "labels", EXCLUDE).as_deref() == Some("true");
        if excluded {
            remove_entry(metadata, "labels", EXCLUDE);
        }
        for (annotation, field, percentages) in PREDOWNLOAD {
            if let Some(value) = entry(metadata, "annotations", annotation)
                .and_then(|text| parse(&text, percentages))
            {
                remove_entry(metadata, "annotations", annotation);
                predownload.push((field, value));
            }
        }
    }
    let Some(spec) = object.at(&["spec"]).and_then(Json::object) else {
        return;
    };
    if let Some(scale) = object_at(spec, "scaleStrategy") {
        let disabled = scale
            .remove("disablePVCReuse")
            .is_some_and(|value| value.is_true());
        scale.insert("enablePVCReuse", boolean(!disabled));
        scale.insert("excludePreparingDelete", boolean(excluded));
    }
    if let Some(update) = object_at(spec, "updateStrategy") {
        let mut rolling = std::mem::take(update);
        let type_ = rolling.remove("type");
        let on_delete = type_.as_ref().and_then(Json::as_string).as_deref() == Some("OnDelete");
        if !on_delete {
            rolling.insert(
                "podUpdatePolicy",
                type_.unwrap_or_else(|| Json::string("ReCreate")),
            );
        }
        for (field, value) in predownload {
            set_entry(&mut rolling, IN_PLACE, field, value);
        }
        update.insert(
            "type",
            Json::string(if on_delete {
                "OnDelete"
            } else {
                "RollingUpdate"
            }),
        );
        update.insert("rollingUpdate", Json::Object(rolling));
    }
}

fn to_v1alpha1(object: &mut Json<'_>) {
    let mut excluded = false;
    let mut predownload = [None, None, None];
    if let Some(spec) = object.at(&["spec"]).and_then(Json::object) {
        if let Some(scale) = object_at(spec, "scaleStrategy") {
            let enabled = scale
                .remove("enablePVCReuse")
                .is_some_and(|value| value.is_true());
            excluded = scale
                .remove("excludePreparingDelete")
                .is_some_and(|value| value.is_true());
            scale.insert("disablePVCReuse", boolean(!enabled));
        }
        if let Some(update) = object_at(spec, "updateStrategy") {
            let type_ = update.remove("type");
            let mut alpha = update
                .remove("rollingUpdate")
                .and_then(|mut rolling| rolling.object().map(std::mem::take))
                .unwrap_or_default();
            let policy = alpha
                .remove("podUpdatePolicy")
                .unwrap_or_else(|| Json::string("ReCreate"));
            let is_rolling =
                |type_: &Json<'_>| type_.as_string().as_deref() == Some("RollingUpdate");
            alpha.insert(
                "type",
                type_.filter(|type_| !is_rolling(type_)).unwrap_or(policy),
            );
            for ((_, field, percentages), value) in PREDOWNLOAD.iter().zip(&mut predownload) {
                let in_place = alpha.get_mut(IN_PLACE).and_then(Json::object);
                let text = in_place.and_then(|in_place| print(in_place.get(field)?, *percentages));
                if text.is_some() {
                    remove_entry(&mut alpha, IN_PLACE, field);
                }
                *value = text;
            }
            *update = alpha;
        }
    }
    let Some(metadata) = object.at(&["metadata"]).and_then(Json::object) else {
        return;
    };
    if excluded {
        set_entry(metadata, "labels", EXCLUDE, Json::string("true"));
    } else if entry(metadata, "labels", EXCLUDE).as_deref() == Some("true") {
        // The label has no meaning in v1beta1, but would have one in v1alpha1. The same holds for
        // the annotations.
        remove_entry(metadata, "labels", EXCLUDE);
    }
    for ((annotation, _, percentages), value) in PREDOWNLOAD.into_iter().zip(predownload) {
        match value {
            Some(text) => set_entry(metadata, "annotations", annotation, Json::string(&text)),
            None if entry(metadata, "annotations", annotation)
                .is_some_and(|text| parse(&text, percentages).is_some()) =>
            {
                remove_entry(metadata, "annotations", annotation);
            }
            None => {}
        }
    }
}

/// Whether the types of a version read both strategies.
fn is_read(object: &mut Json<'_>, version: Version) -> bool {
    let (scale, update) = (["spec", "scaleStrategy"], ["spec", "updateStrategy"]);
    match version {
        Version::V1Alpha1 => {
            reads::<v1alpha1::cloneset::CloneSetScaleStrategy>(object, &scale)
                && reads::<v1alpha1::cloneset::CloneSetUpdateStrategy>(object, &update)
        }
        Version::V1Beta1 => {
            reads::<v1beta1::cloneset::CloneSetScaleStrategy>(object, &scale)
                && reads::<v1beta1::cloneset::CloneSetUpdateStrategy>(object, &update)
        }
    }
}

fn boolean<'a>(value: bool) -> Json<'a> {
    Json::of(if value { "true" } else { "false" })
}

fn entry(metadata: &mut Object<'_>, field: &str, key: &str) -> Option<String> {
    metadata.get_mut(field)?.object()?.get(key)?.as_string()
}

/// The value of an annotation as a field's value. `None` if it is invalid for the field: then the
/// annotation stays.
fn parse<'a>(text: &str, percentages: bool) -> Option<Json<'a>> {
    if let Ok(number) = text.parse::<i32>() {
        return (number >= 0).then(|| Json::owned(number.to_string()));
    }
    let digits = text.strip_suffix('%')?;
    let whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    (percentages && whole).then(|| Json::string(text))
}

/// A field's value as an annotation. `None` if the annotation would not be converted back to the
/// same value.
fn print(value: &Json<'_>, percentages: bool) -> Option<String> {
    let text = value.as_string().unwrap_or_else(|| value.to_string());
    parse(&text, percentages).is_some().then_some(text)
}
