//! Advanced DaemonSet: three values have other places in v1beta1.
//!
//! | v1alpha1 | v1beta1 |
//! |---|---|
//! | an annotation | `scaleStrategy.partitionedScaling` |
//! | `rollingUpdateType` Surging | Standard; `maxSurge` 1, `maxUnavailable` 0 where absent |
//! | `status.daemonSetHash` | `status.updateRevision` |

use crate::conversion::Mapping;
use crate::conversion::json::{Json, Object};
use crate::conversion::mapping::reads;
use crate::conversion::memory::{remove_entry, set_entry};
use crate::names::annotation::DAEMONSET_PROGRESSIVE_CREATE_POD as PROGRESSIVE;
use crate::version::Version;
use crate::{v1alpha1, v1beta1};

pub(crate) const MAPPING: Mapping = Mapping {
    to_v1beta1,
    to_v1alpha1,
    touches: &[
        &["metadata", "annotations", PROGRESSIVE],
        &["spec", SCALE],
        &["spec", UPDATE],
        &["status", HASH],
        &["status", REVISION],
    ],
    decides: &[&["spec", UPDATE]],
    is_read,
};

const SCALE: &str = "scaleStrategy";
const UPDATE: &str = "updateStrategy";
const ROLLING: &str = "rollingUpdate";
const TYPE: &str = "rollingUpdateType";
const PARTITIONED: &str = "partitionedScaling";
const HASH: &str = "daemonSetHash";
const REVISION: &str = "updateRevision";

fn to_v1beta1(object: &mut Json<'_>) {
    let is_progressive = take_annotation(object);
    if let Some(spec) = object.at(&["spec"]).and_then(Json::object) {
        // No field of v1alpha1.
        spec.remove(SCALE);
        if is_progressive {
            set_entry(spec, SCALE, PARTITIONED, Json::of("true"));
        }
    }
    if let Some(rolling) = object.at(&["spec", UPDATE, ROLLING]).and_then(Json::object) {
        without_surging(rolling);
    }
    rename(object, HASH, REVISION);
}

fn to_v1alpha1(object: &mut Json<'_>) {
    take_annotation(object);
    let scale = object
        .at(&["spec"])
        .and_then(Json::object)
        .and_then(|spec| spec.remove(SCALE));
    let partitioned = scale.and_then(|mut scale| scale.object()?.remove(PARTITIONED));
    if partitioned.is_some_and(|value| value.is_true())
        && let Some(metadata) = object.at(&["metadata"]).and_then(Json::object)
    {
        set_entry(metadata, "annotations", PROGRESSIVE, Json::string("true"));
    }
    rename(object, REVISION, HASH);
}

/// Whether pods are created as the partition says. In v1beta1 the annotation means nothing.
fn take_annotation(object: &mut Json<'_>) -> bool {
    let value = object
        .at(&["metadata", "annotations", PROGRESSIVE])
        .and_then(|value| value.as_string());
    let is_set = value.as_deref() == Some("true");
    if is_set && let Some(metadata) = object.at(&["metadata"]).and_then(Json::object) {
        remove_entry(metadata, "annotations", PROGRESSIVE);
    }
    is_set
}

fn without_surging(rolling: &mut Object<'_>) {
    if rolling.get(TYPE).and_then(Json::as_string).as_deref() != Some("Surging") {
        return;
    }
    rolling.insert(TYPE, Json::string("Standard"));
    for (field, value) in [("maxSurge", "1"), ("maxUnavailable", "0")] {
        if rolling.get(field).is_none() {
            rolling.insert(field, Json::of(value));
        }
    }
}

fn rename(object: &mut Json<'_>, from: &str, to: &str) {
    if let Some(status) = object.at(&["status"]).and_then(Json::object)
        && let Some(value) = status.remove(from)
    {
        status.insert(to, value);
    }
}

/// Whether the types of a version read what the mapping touches of the spec.
fn is_read(object: &mut Json<'_>, version: Version) -> bool {
    let (scale, update) = (["spec", SCALE], ["spec", UPDATE]);
    match version {
        Version::V1Alpha1 => reads::<v1alpha1::daemonset::DaemonSetUpdateStrategy>(object, &update),
        Version::V1Beta1 => {
            reads::<v1beta1::daemonset::DaemonSetScaleStrategy>(object, &scale)
                && reads::<v1beta1::daemonset::DaemonSetUpdateStrategy>(object, &update)
        }
    }
}
