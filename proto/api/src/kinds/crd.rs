//! The CustomResourceDefinitions, made from the types and from the properties of each kind in
//! [`crate::kinds`].
//!
//! The types have fields, descriptions, defaults, rules and columns. A kind adds, by field path,
//! properties that no attribute can express, such as a rule of one version.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::crd::{MergeError, merge_crds};
use serde_json::{Map, Value};

use crate::kinds;
use crate::kinds::kind::Kind;
use crate::schema::field::API_DEFAULT;
use crate::schema::{Schema, patch};
use crate::version::Version;

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

/// All definitions, without conversion. An installer adds `spec.conversion` to definitions with
/// several versions.
///
/// # Errors
/// Types and rules contradict each other.
pub fn definitions() -> Result<Vec<Value>, CrdError> {
    kinds::TABLE
        .iter()
        .map(|(kind, schema)| definition(kind, schema))
        .collect()
}

fn definition(kind: &Kind, schema: &Schema) -> Result<Value, CrdError> {
    let mut versions: Vec<_> = schema.versions.iter().map(|version| version()).collect();
    if let [stored] = versions.as_slice() {
        let older = kind.older.iter().map(|version| older(stored, *version));
        versions.extend(older.collect::<Vec<_>>());
    }
    let merged = merge_crds(versions, kind.stored.name())?;
    let mut definition = serde_json::to_value(merged)?;
    // The type of the stored version has them.
    let columns = definition["spec"]["versions"][0]["additionalPrinterColumns"].clone();
    let served = definition
        .pointer_mut("/spec/versions")
        .and_then(Value::as_array_mut);
    for served in served.into_iter().flatten() {
        let Some(version) = kind
            .versions()
            .find(|version| served["name"] == version.name())
        else {
            continue;
        };
        served["additionalPrinterColumns"] = columns.clone();
        let Some(fields) = served
            .pointer_mut("/schema/openAPIV3Schema")
            .and_then(Value::as_object_mut)
        else {
            continue;
        };
        tidy(fields);
        for rule in (schema.patches)(version) {
            patch::apply(fields, &rule).map_err(|path| CrdError::NoSuchField {
                kind: kind.kind.to_owned(),
                version: version.name().to_owned(),
                path,
            })?;
        }
    }
    Ok(definition)
}

/// The definition of an older version that has the same types.
fn older(stored: &CustomResourceDefinition, version: Version) -> CustomResourceDefinition {
    let mut definition = stored.clone();
    for served in &mut definition.spec.versions {
        served.name = version.name().to_owned();
        served.storage = false;
    }
    definition
}

/// The times that a schema accepts. Its format alone accepts some times of the last day of the year
/// 9999 with any offset and any suffix. No type reads these times, and such an object would be
/// unreadable for good.
const TIME: &str = r"^[0-8][0-9]{3}-[01][0-9]-[0-3][0-9][Tt][0-2][0-9]:[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?([Zz]|[+-][01][0-9]:[0-5][0-9])$";

/// Removes properties that derives add and Kubernetes would misread: `nullable` stores nulls
/// instead of dropping them, and serde's defaults are not the API's.
fn tidy(schema: &mut Map<String, Value>) {
    for key in ["nullable", "title"] {
        schema.remove(key);
    }
    let default = schema.remove("default");
    if let Some(value) = default.as_ref().and_then(|value| value.get(API_DEFAULT)) {
        schema.insert("default".to_owned(), value.clone());
    }
    for bound in ["minimum", "maximum"] {
        // The type of definitions has floating-point numbers.
        let number = schema.get(bound).and_then(Value::as_f64);
        if let Some(whole) = number.and_then(|number| number.to_string().parse::<i64>().ok()) {
            schema.insert(bound.to_owned(), whole.into());
        }
    }
    if schema
        .get("format")
        .is_some_and(|format| format == "date-time")
    {
        schema.insert("pattern".to_owned(), TIME.into());
    }
    if let Some(Value::String(description)) = schema.get_mut("description") {
        // Doc comments wrap; `kubectl explain` does so by itself.
        *description = description.replace('\n', " ");
    }
    let fields = schema.get_mut("properties").and_then(Value::as_object_mut);
    for field in fields.into_iter().flat_map(Map::values_mut) {
        field.as_object_mut().map(tidy);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get_mut(key).and_then(Value::as_object_mut) {
            tidy(inner);
            // `kubectl explain` would print it below the field's own.
            inner.remove("description");
        }
    }
}
