//! SidecarSet: v1alpha1 has a namespace and a label for v1beta1's selector and field.
//!
//! | v1alpha1 | v1beta1 |
//! |---|---|
//! | `namespace` | only `namespaceSelector.matchLabels["kubernetes.io/metadata.name"]` |
//! | `namespaceSelector` | `namespaceSelector` |
//! | a label | `customVersion` |
//!
//! A selector never becomes a namespace. Only a selector that was made from a namespace becomes
//! that namespace again, and only while the selector is unchanged: see [`Mapping::decides`].

use crate::conversion::Mapping;
use crate::conversion::json::Json;
use crate::conversion::mapping::reads_fields;
use crate::conversion::memory::{remove_entry, set_entry};
use crate::names::label::{NAMESPACE_NAME, SIDECARSET_CUSTOM_VERSION as CUSTOM_VERSION};
use crate::validation::is_label_value;
use crate::version::Version;
use crate::{v1alpha1, v1beta1};

pub(crate) const MAPPING: Mapping = Mapping {
    to_v1beta1,
    to_v1alpha1,
    touches: &[
        &["metadata", "labels", CUSTOM_VERSION],
        &["spec", "customVersion"],
        &["spec", "namespace"],
        &["spec", "namespaceSelector"],
    ],
    decides: &[&["spec", "namespaceSelector"]],
    is_read,
};

fn to_v1beta1(object: &mut Json<'_>) {
    let mut version = None;
    if let Some(metadata) = object.at(&["metadata"]).and_then(Json::object) {
        version = metadata
            .get_mut("labels")
            .and_then(Json::object)
            .and_then(|labels| labels.get(CUSTOM_VERSION)?.as_string());
        if version.is_some() {
            remove_entry(metadata, "labels", CUSTOM_VERSION);
        }
    }
    let Some(spec) = object.at(&["spec"]).and_then(Json::object) else {
        return;
    };
    match version.filter(|version| !version.is_empty()) {
        Some(version) => spec.insert("customVersion", Json::string(&version)),
        None => drop(spec.remove("customVersion")),
    }
    let namespace = spec
        .remove("namespace")
        .and_then(|namespace| namespace.as_string());
    if let Some(namespace) = namespace.filter(|namespace| !namespace.is_empty()) {
        spec.remove("namespaceSelector");
        if let Some(selector) = spec.entry("namespaceSelector").and_then(Json::object) {
            set_entry(
                selector,
                "matchLabels",
                NAMESPACE_NAME,
                Json::string(&namespace),
            );
        }
    }
}

fn to_v1alpha1(object: &mut Json<'_>) {
    let mut version = None;
    if let Some(spec) = object.at(&["spec"]).and_then(Json::object) {
        version = spec
            .remove("customVersion")
            .and_then(|version| version.as_string());
        spec.remove("namespace");
    }
    let Some(metadata) = object.at(&["metadata"]).and_then(Json::object) else {
        return;
    };
    // A value that is no valid label value would make an unreadable object.
    match version.filter(|version| !version.is_empty() && is_label_value(version)) {
        Some(version) => set_entry(metadata, "labels", CUSTOM_VERSION, Json::string(&version)),
        // It has no meaning in v1beta1, but would have one in v1alpha1.
        None => drop(remove_entry(metadata, "labels", CUSTOM_VERSION)),
    }
}

/// Whether the type of a version can read the differing parts.
fn is_read(object: &mut Json<'_>, version: Version) -> bool {
    match version {
        Version::V1Alpha1 => reads_fields::<v1alpha1::sidecarset::SidecarSetSpec>(
            object,
            "spec",
            &["namespace", "namespaceSelector"],
        ),
        Version::V1Beta1 => reads_fields::<v1beta1::sidecarset::SidecarSetSpec>(
            object,
            "spec",
            &["customVersion", "namespaceSelector"],
        ),
    }
}
