//! Pod and claim templates: kept as they were written, with fields of newer Kubernetes releases.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::text::JsonText;

/// A pod template, as text. Unknown fields survive; nothing is defaulted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodTemplate {
    text: JsonText,
    /// Sorted: every other CloneSet of the namespace asks for them, again and again.
    labels: Box<[(Box<str>, Box<str>)]>,
    topology_keys: Box<[Box<str>]>,
}

/// A claim template, as text. Unknown fields survive; nothing is defaulted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VolumeClaimTemplate {
    text: JsonText,
    name: Box<str>,
}

impl PodTemplate {
    /// The whole template as a tree, which may take a hundred times the text: it is read where a
    /// decision begins, and let go at its end.
    pub fn value(&self) -> Value {
        self.text.value()
    }

    /// A label of `metadata.labels`.
    pub fn label(&self, key: &str) -> Option<&str> {
        let at = self
            .labels
            .binary_search_by(|(known, _)| (**known).cmp(key))
            .ok()?;
        self.labels.get(at).map(|(_, value)| &**value)
    }

    /// `metadata.labels`, empty when there are none.
    pub fn labels(&self) -> BTreeMap<&str, &str> {
        self.labels
            .iter()
            .map(|(key, value)| (&**key, &**value))
            .collect()
    }

    /// The `topologyKey` of each of `spec.topologySpreadConstraints`.
    pub fn topology_keys(&self) -> impl Iterator<Item = &str> {
        self.topology_keys.iter().map(|key| &**key)
    }
}

impl VolumeClaimTemplate {
    /// The whole template as a tree, as [`PodTemplate::value`].
    pub fn value(&self) -> Value {
        self.text.value()
    }

    /// `metadata.name`, empty when there is none.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl From<JsonText> for PodTemplate {
    fn from(text: JsonText) -> Self {
        let template = fields(text.as_str());
        let (metadata, spec) = (
            fields_of(&template, "metadata"),
            fields_of(&template, "spec"),
        );
        let labels = fields_of(&metadata, "labels");
        let labels = labels
            .into_iter()
            .filter_map(|(key, value)| Some((key, word(value)?)))
            .collect();
        let constraints = spec
            .get("topologySpreadConstraints")
            .map_or("", |list| list.get());
        let constraints: Vec<&RawValue> = serde_json::from_str(constraints).unwrap_or_default();
        let keys = constraints
            .into_iter()
            .filter_map(|one| word(fields(one.get()).get("topologyKey")?));
        Self {
            labels,
            topology_keys: keys.collect(),
            text,
        }
    }
}

impl From<JsonText> for VolumeClaimTemplate {
    fn from(text: JsonText) -> Self {
        let metadata = fields(text.as_str());
        let metadata = fields_of(&metadata, "metadata");
        let name = metadata
            .get("name")
            .and_then(|name| word(name))
            .unwrap_or_default();
        Self { name, text }
    }
}

/// The fields of an object, each as text. So a malformed field does not affect the others, and only
/// the fields that are needed are parsed.
fn fields(object: &str) -> BTreeMap<Box<str>, &RawValue> {
    serde_json::from_str(object).unwrap_or_default()
}

fn fields_of<'a>(
    object: &BTreeMap<Box<str>, &'a RawValue>,
    field: &str,
) -> BTreeMap<Box<str>, &'a RawValue> {
    object
        .get(field)
        .map(|value| fields(value.get()))
        .unwrap_or_default()
}

fn word(value: &RawValue) -> Option<Box<str>> {
    serde_json::from_str(value.get()).ok()
}

macro_rules! kept_as_text {
    ($template:ty) => {
        impl From<&Value> for $template {
            fn from(value: &Value) -> Self {
                Self::from(JsonText::from(value))
            }
        }

        impl<'de> Deserialize<'de> for $template {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                JsonText::deserialize(deserializer).map(Self::from)
            }
        }

        impl Serialize for $template {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.text.serialize(serializer)
            }
        }
    };
}

kept_as_text!(PodTemplate);
kept_as_text!(VolumeClaimTemplate);

/// Adds volumes to a pod's spec: each has a volume's name and the claim behind it. One of the same
/// name gives way.
pub fn mount_claims<'a>(spec: &mut Value, claims: impl IntoIterator<Item = (&'a str, String)>) {
    let Some(spec) = spec.as_object_mut() else {
        return;
    };
    for (name, claim) in claims {
        let volume = json!({"name": name, "persistentVolumeClaim": {"claimName": claim}});
        let Some(volumes) = spec
            .entry("volumes")
            .or_insert_with(|| json!([]))
            .as_array_mut()
        else {
            return;
        };
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
        crate::schema::template::claim()
    }
}

#[cfg(test)]
mod tests;
