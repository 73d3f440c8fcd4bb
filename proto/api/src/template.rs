//! Pod and claim templates: kept as they were written, whatever fields a newer Kubernetes adds.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A pod template. Unknown fields survive; nothing is defaulted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PodTemplate(pub Value);

/// A claim template. Unknown fields survive; nothing is defaulted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct VolumeClaimTemplate(pub Value);

impl PodTemplate {
    /// `metadata.labels`, empty when there are none.
    pub fn labels(&self) -> BTreeMap<String, String> {
        strings(self.0.pointer("/metadata/labels"))
    }

    /// `metadata.annotations`, empty when there are none.
    pub fn annotations(&self) -> BTreeMap<String, String> {
        strings(self.0.pointer("/metadata/annotations"))
    }

    /// `spec`, if it is an object.
    pub fn spec(&self) -> Option<&Map<String, Value>> {
        self.0.get("spec").and_then(Value::as_object)
    }

    /// `spec.containers`, as written.
    pub fn containers(&self) -> &[Value] {
        self.0.pointer("/spec/containers").and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }
}

impl VolumeClaimTemplate {
    /// `metadata.name`, empty when there is none.
    pub fn name(&self) -> &str {
        self.0.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
    }
}

impl JsonSchema for PodTemplate {
    fn schema_name() -> Cow<'static, str> {
        "PodTemplate".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
    }
}

impl JsonSchema for VolumeClaimTemplate {
    fn schema_name() -> Cow<'static, str> {
        "VolumeClaimTemplate".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
    }
}

fn strings(value: Option<&Value>) -> BTreeMap<String, String> {
    let entries = value.and_then(Value::as_object).into_iter().flatten();
    entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}
