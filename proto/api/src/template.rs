//! Pod and claim templates: kept as they were written, whatever fields a newer Kubernetes adds.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

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

/// Adds volumes to a pod's spec: each has a volume's name and the claim behind it. One of the same name gives way.
pub fn mount_claims<'a>(spec: &mut Value, claims: impl IntoIterator<Item = (&'a str, String)>) {
    let Some(spec) = spec.as_object_mut() else { return };
    for (name, claim) in claims {
        let volume = json!({"name": name, "persistentVolumeClaim": {"claimName": claim}});
        let Some(volumes) = spec.entry("volumes").or_insert_with(|| json!([])).as_array_mut() else { return };
        match volumes.iter_mut().find(|volume| volume["name"] == name) {
            Some(old) => *old = volume,
            None => volumes.push(volume),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_mounted_and_take_the_place_of_volumes_of_their_name() {
        let mut spec = json!({"volumes": [{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}]});
        mount_claims(&mut spec, [("data", "data-web-1".to_owned()), ("log", "log-web-1".to_owned())]);
        let volume = |name: &str, claim: &str| json!({"name": name, "persistentVolumeClaim": {"claimName": claim}});
        assert_eq!(
            spec["volumes"],
            json!([volume("data", "data-web-1"), {"name": "tmp", "emptyDir": {}}, volume("log", "log-web-1")])
        );
        let mut none = json!({});
        mount_claims(&mut none, []);
        assert_eq!(none, json!({}), "a spec without claims is left as it is");
    }
}
