//! The form in which OpenKruise keeps `spec.template`, byte for byte: a workload's template as Go's
//! types write it.
//!
//! The form of the pod template and the claim templates is Kubernetes' part, in
//! [`revision::form`](form).

use berth_workload::update::revision::form;
use serde_json::{Map, Value, json};

/// The fields that each type always writes, as JSON.
const ALWAYS: [(&str, &[(&str, &str)]); 8] = [
    (
        "statefulSetTemplate",
        &[("serviceName", "\"\""), ("updateStrategy", "{}")],
    ),
    (
        "advancedStatefulSetTemplate",
        &[
            ("updateStrategy", "{}"),
            ("volumeClaimUpdateStrategy", "{}"),
        ],
    ),
    (
        "cloneSetTemplate",
        &[("scaleStrategy", "{}"), ("updateStrategy", "{}")],
    ),
    ("deploymentTemplate", &[("strategy", "{}")]),
    (
        "weightPriority",
        &[("matchSelector", "{}"), ("weight", "0")],
    ),
    ("orderPriority", &[("orderedKey", "\"\"")]),
    ("scatterStrategy", &[("key", "\"\""), ("value", "\"\"")]),
    ("ordinals", &[("start", "0")]),
];
const FALSE_IS_LEFT_OUT: [&str; 5] = [
    "disablePVCReuse",
    "enablePVCReuse",
    "excludePreparingDelete",
    "markPodNotReady",
    "paused",
];
const ZERO_IS_LEFT_OUT: [(&str, &str); 2] = [
    ("spec", "minReadySeconds"),
    ("inPlaceUpdateStrategy", "gracePeriodSeconds"),
];
const EMPTY_TEXT_IS_LEFT_OUT: [&str; 6] = [
    "podManagementPolicy",
    "podUpdatePolicy",
    "serviceName",
    "type",
    "whenDeleted",
    "whenScaled",
];
/// Maps from names that the author chose: their values stay as they are, and an empty map is left
/// out.
const MAPS: [&str; 2] = ["labelsHandler", "matchLabels"];

/// `spec.template` in that form. A template that has the form already stays as it is.
pub(super) fn written(template: &Value) -> Map<String, Value> {
    let templates = template
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(_, template)| template.is_object());
    templates
        .map(|(field, template)| (field.clone(), workload(field, template)))
        .collect()
}

fn workload(field: &str, template: &Value) -> Value {
    let mut spec = object(
        "spec",
        template
            .get("spec")
            .and_then(Value::as_object)
            .unwrap_or(&Map::new()),
    );
    spec.entry("selector").or_insert(Value::Null);
    spec.entry("template")
        .or_insert_with(|| form::canonical(&json!({})));
    fill(field, &mut spec);
    json!({"metadata": form::metadata(template.get("metadata")), "spec": spec})
}

fn fill(holder: &str, fields: &mut Map<String, Value>) {
    let always = ALWAYS
        .iter()
        .filter(|(of, _)| *of == holder)
        .flat_map(|(_, fields)| *fields);
    for (name, zero) in always {
        fields
            .entry(*name)
            .or_insert_with(|| serde_json::from_str(zero).unwrap_or_default());
    }
}

/// An object in that form. `holder` is the field that holds it.
fn object(holder: &str, fields: &Map<String, Value>) -> Map<String, Value> {
    let written = fields
        .iter()
        .filter_map(|(name, value)| Some((name.clone(), field(holder, name, value)?)));
    let mut written = written.collect();
    fill(holder, &mut written);
    written
}

/// The value of a field; `None` if the types leave it out.
fn field(holder: &str, name: &str, value: &Value) -> Option<Value> {
    let is_left_out = match value {
        Value::Null => true,
        Value::Bool(false) => FALSE_IS_LEFT_OUT.contains(&name),
        Value::Number(number) => {
            number.as_i64() == Some(0) && ZERO_IS_LEFT_OUT.contains(&(holder, name))
        }
        Value::String(text) => text.is_empty() && EMPTY_TEXT_IS_LEFT_OUT.contains(&name),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty() && MAPS.contains(&name),
        Value::Bool(true) => false,
    };
    if is_left_out {
        return None;
    }
    Some(match (holder, name, value) {
        ("spec", "template", _) => form::canonical(value),
        ("spec", "volumeClaimTemplates", _) => form::claim_templates(value)?,
        (_, _, Value::Object(map)) if !MAPS.contains(&name) => Value::Object(object(name, map)),
        (_, _, Value::Array(list)) => {
            Value::Array(list.iter().map(|item| item_of(name, item)).collect())
        }
        _ => value.clone(),
    })
}

fn item_of(list: &str, item: &Value) -> Value {
    item.as_object().map_or_else(
        || item.clone(),
        |fields| Value::Object(object(list, fields)),
    )
}
