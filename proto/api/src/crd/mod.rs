//! The CustomResourceDefinitions, made from the types and from [`rules`].
//!
//! The types say what fields there are and what they mean. What else the apiserver shall do, defaults and validation, is
//! one table by field path, so that it can be read in one place and is the same for every version.

mod columns;
mod node_image;
mod patch;
mod rules;
mod template;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use kube::core::crd::{MergeError, merge_crds};
use serde_json::{Map, Value};

use crate::names::V1BETA1;
use crate::{v1alpha1, v1beta1};

/// Why the definitions cannot be made: a mistake in this crate, found by its tests.
#[derive(Debug, thiserror::Error)]
pub enum CrdError {
    /// The versions of a kind do not fit together.
    #[error("the versions of a kind cannot be merged: {0}")]
    Merge(#[from] MergeError),
    /// A rule names a field that the types do not have.
    #[error("a rule of {kind} {version} names {path}, which is no field")]
    NoSuchField {
        /// The kind.
        kind: String,
        /// The version.
        version: String,
        /// The path of the rule.
        path: String,
    },
    /// The definition is no valid JSON.
    #[error("the definition cannot be written: {0}")]
    Json(#[from] serde_json::Error),
}

/// All definitions, v1beta1 stored and v1alpha1 served, without conversion: whoever installs them adds
/// `spec.conversion`.
///
/// # Errors
/// When types and rules contradict each other.
pub fn definitions() -> Result<Vec<Value>, CrdError> {
    Ok(vec![
        definition(v1beta1::CloneSet::crd(), v1alpha1::CloneSet::crd())?,
        definition(v1beta1::ImageListPullJob::crd(), v1alpha1::ImageListPullJob::crd())?,
        definition(v1beta1::ImagePullJob::crd(), v1alpha1::ImagePullJob::crd())?,
        definition(v1beta1::NodeImage::crd(), v1alpha1::NodeImage::crd())?,
    ])
}

fn definition(stored: CustomResourceDefinition, served: CustomResourceDefinition) -> Result<Value, CrdError> {
    let merged = merge_crds(vec![stored, served], V1BETA1)?;
    let kind = merged.spec.names.kind.clone();
    let mut definition = serde_json::to_value(merged)?;
    let versions = definition.pointer_mut("/spec/versions").and_then(Value::as_array_mut);
    for version in versions.into_iter().flatten() {
        let name = version.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        version["additionalPrinterColumns"] = Value::from(columns::of(&kind, &name));
        let Some(schema) = version.pointer_mut("/schema/openAPIV3Schema") else { continue };
        tidy(schema);
        for rule in rules::of(&kind, &name) {
            patch::apply(schema, &rule).map_err(|path| CrdError::NoSuchField {
                kind: kind.clone(),
                version: name.clone(),
                path,
            })?;
        }
    }
    Ok(definition)
}

/// Takes back what derives add and Kubernetes would misread: `nullable` stores nulls instead of dropping them, and
/// serde's defaults are not the API's.
fn tidy(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else { return };
    for key in ["nullable", "default", "title"] {
        object.remove(key);
    }
    if let Some(Value::String(description)) = object.get_mut("description") {
        // Doc comments wrap; `kubectl explain` does so by itself.
        *description = description.replace('\n', " ");
    }
    for fields in object.get_mut("properties").and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut) {
        tidy(fields);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = object.get_mut(key) {
            tidy(inner);
            // `kubectl explain` would print it below the field's own.
            inner.as_object_mut().and_then(|inner| inner.remove("description"));
        }
    }
}
