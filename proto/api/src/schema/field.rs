//! Transforms for `#[schemars(transform = …)]`: the apiserver's rules for a field in addition to
//! its type.

use schemars::Schema;
use schemars::transform::Transform;
use serde_json::{Value, json};

use super::patch::{Patch, apply, at};
use super::rules::{LABEL_KEY, LABEL_VALUE, PERCENT, rule};

/// The key that distinguishes a default of the API from a default of serde.
pub(crate) const API_DEFAULT: &str = "x-default";

/// Adds patches to the schema of a field or of an object. The paths start there.
pub(crate) fn patched(patches: Vec<Patch>) -> impl Transform {
    move |schema: &mut Schema| {
        for patch in &patches {
            // A wrong path shows in the definitions, which a test compares.
            apply(schema.ensure_object(), patch).ok();
        }
    }
}

/// Adds keywords.
pub(crate) fn with(keywords: Value) -> impl Transform {
    patched(vec![at("", keywords)])
}

/// Adds CEL rules.
pub(crate) fn checks(rules: impl Into<Vec<Value>>) -> impl Transform {
    with(json!({"x-kubernetes-validations": rules.into()}))
}

/// Sets the default that the apiserver fills in.
pub(crate) fn defaults_to(value: impl Into<Value>) -> impl Transform {
    with(api_default(value))
}

/// The keyword that [`defaults_to`] adds.
pub(crate) fn api_default(value: impl Into<Value>) -> Value {
    json!({"default": {API_DEFAULT: value.into()}})
}

/// Sets the keys that identify the items of a list.
pub(crate) fn list_by<const N: usize>(keys: [&str; N]) -> impl Transform {
    with(json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys.as_slice()}))
}

/// Allows a number or percentage that is not negative.
pub(crate) fn int_or_percent(schema: &mut Schema) {
    let valid =
        format!("type(self) == int ? self >= 0 && self <= 2147483647 : self.matches('{PERCENT}')");
    let message = "'is \"%s\", but must be a number from 0 to 2147483647 or a percentage such as \"25%%\", with at most three \
                   digits, and four after a point'.format([self])";
    checks([rule(valid, message)]).transform(schema);
}

/// Adds descriptions and limits to Kubernetes' conditions, one of each of these types.
pub(crate) fn conditions(types: &str) -> impl Transform {
    let said = [
        ("lastTransitionTime", "When the status last changed."),
        ("message", "Why, in a sentence."),
        ("observedGeneration", "The generation that it speaks of."),
        ("reason", "Why, in one word."),
        ("status", "True, False or Unknown."),
        ("type", types),
    ];
    let by_type = json!({"maxItems": 16, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]});
    patched([vec![at("", by_type)], described("[]", &said)].concat())
}

/// Patches with descriptions of the fields of a foreign type. The paths start at `base`.
pub(crate) fn described(base: &str, said: &[(&str, &str)]) -> Vec<Patch> {
    let one = |(field, description): &(&str, &str)| {
        at(
            format!("{base}.{field}"),
            json!({"description": description}),
        )
    };
    said.iter().map(one).collect()
}

/// Adds descriptions and limits to a label selector, and rules for the values of each operator.
pub(crate) fn label_selector(schema: &mut Schema) {
    let values = "self.operator in ['In', 'NotIn'] ? has(self.values) && size(self.values) > 0 : \
                  !has(self.values) || size(self.values) == 0";
    let message = "(self.operator in ['In', 'NotIn'] ? 'operator %s of key \"%s\" needs values: add at least one' : \
                   'operator %s of key \"%s\" takes no values: remove them').format([self.operator, self.key])";
    let labels = json!({
        "description": "Labels that must be there with these values.",
        "maxProperties": 100,
        "additionalProperties": {"type": "string", "maxLength": LABEL_VALUE},
    });
    let expressions = json!({
        "description": "Conditions on labels, all of which must hold.",
        "maxItems": 100,
        "x-kubernetes-list-type": "atomic",
    });
    let key = json!({"description": "The label's key.", "minLength": 1, "maxLength": LABEL_KEY});
    let operator = json!({
        "description": "In or NotIn one of the values; Exists or DoesNotExist with any value.",
        "enum": ["In", "NotIn", "Exists", "DoesNotExist"],
    });
    let of_key = json!({
        "description": "Values for In and NotIn.",
        "maxItems": 500,
        "items": {"type": "string", "maxLength": LABEL_VALUE},
        "x-kubernetes-list-type": "atomic",
    });
    patched(vec![
        at("", json!({"x-kubernetes-map-type": "atomic"})),
        at("matchLabels", labels),
        at("matchExpressions", expressions),
        at(
            "matchExpressions[]",
            json!({"x-kubernetes-validations": [rule(values, message)]}),
        ),
        at("matchExpressions[].key", key),
        at("matchExpressions[].operator", operator),
        at("matchExpressions[].values", of_key),
    ])
    .transform(schema);
}
