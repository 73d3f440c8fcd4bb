//! PodUnavailableBudget: two annotations of v1alpha1 are fields in v1beta1.
//!
//! | v1alpha1 | v1beta1 |
//! |---|---|
//! | annotation `kruise.io/pub-protect-operations` | `protectOperations` |
//! | annotation `pub.kruise.io/protect-total-replicas` | `protectTotalReplicas` |
//!
//! An annotation with an unreadable value stays an annotation. The webhook refuses it when it is
//! written, and the controller reports one that bypassed the webhook.

use crate::conversion::Mapping;
use crate::conversion::json::{Json, Object};
use crate::conversion::mapping::reads_fields;
use crate::conversion::memory::{remove_entry, set_entry};
use crate::kinds::podunavailablebudget::annotations::{operations, total_replicas};
use crate::kinds::podunavailablebudget::v1beta1::{PodUnavailableBudgetSpec, ProtectedOperation};
use crate::names::annotation::{
    PUB_PROTECT_OPERATIONS as OPERATIONS, PUB_PROTECT_TOTAL_REPLICAS as TOTAL,
};
use crate::version::Version;

pub(crate) const MAPPING: Mapping = Mapping {
    to_v1beta1,
    to_v1alpha1,
    touches: &[
        &["metadata", "annotations", OPERATIONS],
        &["metadata", "annotations", TOTAL],
        &["spec", PROTECT],
        &["spec", REPLICAS],
        &["spec", IGNORED],
    ],
    decides: &[],
    is_read,
};

const PROTECT: &str = "protectOperations";
const REPLICAS: &str = "protectTotalReplicas";
const IGNORED: &str = "ignoredPodSelector";

fn to_v1beta1(object: &mut Json<'_>) {
    let named = take_annotation(object, OPERATIONS, |text| operations(text).ok());
    let total = take_annotation(object, TOTAL, |text| total_replicas(text).ok());
    let Some(spec) = object.at(&["spec"]).and_then(Json::object) else {
        return;
    };
    // v1alpha1 does not have these fields.
    [PROTECT, REPLICAS, IGNORED]
        .iter()
        .for_each(|field| drop(spec.remove(field)));
    if let Some(named) = named.filter(|named| !named.is_empty()) {
        let names: Vec<_> = named
            .iter()
            .map(|operation| format!("{:?}", operation.name()))
            .collect();
        spec.insert(PROTECT, Json::owned(format!("[{}]", names.join(","))));
    }
    if let Some(total) = total {
        spec.insert(REPLICAS, Json::owned(total.to_string()));
    }
}

fn to_v1alpha1(object: &mut Json<'_>) {
    let Some(spec) = object.at(&["spec"]).and_then(Json::object) else {
        return;
    };
    let (named, total) = (spec.remove(PROTECT), spec.remove(REPLICAS));
    spec.remove(IGNORED);
    let named = named
        .and_then(|named| serde_json::from_str::<Vec<ProtectedOperation>>(&named.to_string()).ok());
    let named = named.filter(|named| !named.is_empty());
    let named = named.map(|named| {
        named
            .iter()
            .map(|operation| operation.name())
            .collect::<Vec<_>>()
            .join(",")
    });
    let total = total
        .and_then(|total| total_replicas(&total.to_string()).ok())
        .map(|total| total.to_string());
    for (annotation, value) in [(OPERATIONS, named), (TOTAL, total)] {
        let Some(metadata) = object.at(&["metadata"]).and_then(Json::object) else {
            return;
        };
        match value {
            Some(value) => set_entry(metadata, "annotations", annotation, Json::string(&value)),
            // It has no meaning in v1beta1, but would have one in v1alpha1.
            None => drop(remove_entry(metadata, "annotations", annotation)),
        }
    }
}

/// The parsed value of an annotation. A readable annotation is removed.
fn take_annotation<T>(
    object: &mut Json<'_>,
    key: &str,
    read: impl Fn(&str) -> Option<T>,
) -> Option<T> {
    let metadata = object.at(&["metadata"]).and_then(Json::object)?;
    let text = metadata
        .get_mut("annotations")
        .and_then(Json::object)
        .and_then(|all: &mut Object<'_>| all.get(key)?.as_string());
    let value = read(&text?)?;
    remove_entry(metadata, "annotations", key);
    Some(value)
}

/// Whether the type of a version can read the differing fields. v1alpha1 has none of them.
fn is_read(object: &mut Json<'_>, version: Version) -> bool {
    let differing = [PROTECT, REPLICAS, IGNORED];
    version == Version::V1Alpha1
        || reads_fields::<PodUnavailableBudgetSpec>(object, "spec", &differing)
}
