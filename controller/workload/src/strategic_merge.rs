//! Kubernetes' strategic merge patch of a pod template: the result equals the apiserver's.
//!
//! A list with a merge key is merged element by element, every other list is replaced whole. The
//! rules are those of `k8s.io/apimachinery/pkg/util/strategicpatch`, the keys those of the struct
//! tags in `k8s.io/api/core/v1` and `k8s.io/apimachinery/pkg/apis/meta/v1`.

mod element_order;
mod list;
mod order;

#[cfg(test)]
mod tests;

use std::fmt;

use serde_json::{Map, Value};

/// The deepest nesting of a template or patch. Kubernetes' own fields nest less than 20 deep.
const DEEPEST: usize = 64;
const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// Lists that a patch merges: the fields that hold the list, the list, and the key of its elements.
/// A list without a key holds texts.
const MERGED_LISTS: [(&[&str], &str, Option<&str>); 16] = [
    (&["metadata"], "finalizers", None),
    (&["metadata"], "ownerReferences", Some("uid")),
    (&["spec"], "containers", Some("name")),
    (&["spec"], "initContainers", Some("name")),
    (&["spec"], "ephemeralContainers", Some("name")),
    (&["spec"], "volumes", Some("name")),
    (&["spec"], "imagePullSecrets", Some("name")),
    (&["spec"], "hostAliases", Some("ip")),
    (&["spec"], "topologySpreadConstraints", Some("topologyKey")),
    (&["spec"], "schedulingGates", Some("name")),
    (&["spec"], "resourceClaims", Some("name")),
    (&["spec"], "evictionResponders", Some("name")),
    (&CONTAINERS, "ports", Some("containerPort")),
    (&CONTAINERS, "env", Some("name")),
    (&CONTAINERS, "volumeMounts", Some("mountPath")),
    (&CONTAINERS, "volumeDevices", Some("devicePath")),
];
/// Objects that Kubernetes' types write even where they are empty, so that a patch always meets
/// them: the field that holds the object, and the object.
const ALWAYS_PRESENT: [(&str, &str); 5] = [
    ("", "metadata"),
    ("", "spec"),
    ("containers", "resources"),
    ("initContainers", "resources"),
    ("ephemeralContainers", "resources"),
];

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const SET_ELEMENT_ORDER: &str = "$setElementOrder";
const DELETE_FROM_PRIMITIVE_LIST: &str = "$deleteFromPrimitiveList";

/// A patch that cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidPatch {
    /// Path of the field inside the patch, as in `spec.containers[1].env`; empty for the patch itself.
    pub field: String,
    /// The value, the cause and the remedy.
    pub problem: String,
}

impl InvalidPatch {
    fn new(problem: impl Into<String>) -> Self {
        Self {
            field: String::new(),
            problem: problem.into(),
        }
    }

    /// The same error in a field of this name.
    fn within(mut self, name: &str) -> Self {
        let separator = if self.field.is_empty() || self.field.starts_with('[') {
            ""
        } else {
            "."
        };
        self.field = format!("{}{separator}{}", shown(name), self.field);
        self
    }

    /// The same error in an element of a list.
    fn at(self, index: usize) -> Self {
        self.within(&format!("[{index}]"))
    }
}

impl fmt::Display for InvalidPatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if self.field.is_empty() { "" } else { ": " };
        write!(f, "{}{separator}{}", self.field, self.problem)
    }
}

/// How a patch changes a list.
#[derive(Clone, Copy)]
enum ListStrategy {
    Replace,
    /// By this key of the elements; texts have none.
    Merge(Option<&'static str>),
}

fn strategy(holder: &str, field: &str) -> ListStrategy {
    let found = MERGED_LISTS
        .iter()
        .find(|(holders, list, _)| *list == field && holders.contains(&holder));
    found.map_or(ListStrategy::Replace, |(_, _, key)| {
        ListStrategy::Merge(*key)
    })
}

/// The pod template with the patch applied. Null fields and directives are left out, as the
/// apiserver's decoder does. The work is linear in the size of both, but for sorting.
///
/// # Errors
/// The error names the field of the patch and the remedy.
pub fn strategic_merge(template: &Value, patch: &Value) -> Result<Value, InvalidPatch> {
    if is_deeper(patch, DEEPEST) || is_deeper(template, DEEPEST) {
        let problem = format!(
            "nests deeper than {DEEPEST} levels; no field of a pod template does, remove it"
        );
        return Err(InvalidPatch::new(problem));
    }
    let Value::Object(patch) = patch else {
        return Err(InvalidPatch::new(format!(
            "is {}, but must be an object",
            named(patch)
        )));
    };
    let mut merged = template.as_object().cloned().unwrap_or_default();
    merge_maps("", &mut merged, patch.clone())?;
    Ok(decoded(Value::Object(merged)))
}

/// Merges a patch into an object that a field of the name `holder` holds.
fn merge_maps(
    holder: &str,
    original: &mut Map<String, Value>,
    mut patch: Map<String, Value>,
) -> Result<(), InvalidPatch> {
    if let Some(directive) = patch.remove(DIRECTIVE) {
        *original = match directive.as_str() {
            Some("replace") => patch,
            Some("delete") => Map::new(),
            _ => return Err(unknown_directive(&directive)),
        };
        return Ok(());
    }
    for name in patch
        .keys()
        .filter(|name| ALWAYS_PRESENT.contains(&(holder, name.as_str())))
    {
        original
            .entry(name.as_str())
            .or_insert_with(|| Value::Object(Map::new()));
    }
    retain_keys(original, &mut patch)?;
    element_order::set_element_order(holder, original, &mut patch)?;
    for (name, value) in patch {
        let deletes = name.starts_with(DELETE_FROM_PRIMITIVE_LIST);
        let field = if deletes {
            target(&name, DELETE_FROM_PRIMITIVE_LIST)?
        } else {
            &name
        };
        if deletes && !value.is_null() && !value.is_array() {
            let problem = format!(
                "is {}, but must be a list of the texts to delete",
                named(&value)
            );
            return Err(InvalidPatch::new(problem).within(&name));
        }
        merge_field(holder, original, field, value, deletes)
            .map_err(|error| error.within(&name))?;
    }
    Ok(())
}

fn merge_field(
    holder: &str,
    original: &mut Map<String, Value>,
    field: &str,
    value: Value,
    deletes: bool,
) -> Result<(), InvalidPatch> {
    match (original.get_mut(field), value) {
        (_, Value::Null) => {
            original.remove(field);
        }
        (Some(Value::Object(old)), Value::Object(new)) => merge_maps(field, old, new)?,
        (Some(Value::Array(old)), Value::Array(new)) if deletes => list::delete(old, &new)?,
        (Some(Value::Array(old)), Value::Array(new)) => match strategy(holder, field) {
            ListStrategy::Replace => *old = new,
            ListStrategy::Merge(key) => *old = list::merge(field, std::mem::take(old), new, key)?,
        },
        (_, _) if deletes => {}
        // The field is new, or of another type.
        (_, value) => match without_directives(without_nulls(value)) {
            Some(value) => {
                original.insert(field.to_owned(), value);
            }
            None => {
                original.remove(field);
            }
        },
    }
    Ok(())
}

/// Removes from the original what `$retainKeys` does not list. All that the patch sets must be in it.
fn retain_keys(
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
) -> Result<(), InvalidPatch> {
    let Some(retained) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let Value::Array(retained) = retained else {
        let problem = format!("is {}, but must be a list of field names", named(&retained));
        return Err(InvalidPatch::new(problem).within(RETAIN_KEYS));
    };
    let retained: std::collections::BTreeSet<&str> =
        retained.iter().filter_map(Value::as_str).collect();
    let is_directive = |name: &str| {
        name.starts_with(DELETE_FROM_PRIMITIVE_LIST) || name.starts_with(SET_ELEMENT_ORDER)
    };
    let missing = |(name, value): &(&String, &Value)| {
        !value.is_null() && !is_directive(name) && !retained.contains(name.as_str())
    };
    if let Some((name, _)) = patch.iter().find(missing) {
        let problem = format!(
            "has no {:?}, which the patch sets beside it; add it to the list",
            shown(name)
        );
        return Err(InvalidPatch::new(problem).within(RETAIN_KEYS));
    }
    original.retain(|name, _| retained.contains(name.as_str()));
    Ok(())
}

/// The field that a directive with a prefix and a slash names.
fn target<'a>(directive: &'a str, prefix: &str) -> Result<&'a str, InvalidPatch> {
    let field = directive
        .strip_prefix(prefix)
        .and_then(|rest| rest.strip_prefix('/'));
    field.ok_or_else(|| {
        let problem = format!("names no list; write {prefix}/ and the name of the list");
        InvalidPatch::new(problem).within(directive)
    })
}

fn unknown_directive(directive: &Value) -> InvalidPatch {
    let value = shown(&directive.to_string());
    InvalidPatch::new(format!("is {value}, but must be \"replace\" or \"delete\""))
        .within(DIRECTIVE)
}

fn has_directive(value: &Value) -> bool {
    value
        .as_object()
        .is_some_and(|map| map.contains_key(DIRECTIVE))
}

/// Without fields that are null, in lists too.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(
                kept.map(|(name, value)| (name, without_nulls(value)))
                    .collect(),
            )
        }
        Value::Array(list) => Value::Array(list.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

/// Without objects that hold `$patch`: a directive about a field that is not there does nothing.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(DIRECTIVE) => None,
        Value::Object(map) => {
            let kept = map
                .into_iter()
                .filter_map(|(name, value)| Some((name, without_directives(value)?)));
            Some(Value::Object(kept.collect()))
        }
        Value::Array(list) => Some(Value::Array(
            list.into_iter().filter_map(without_directives).collect(),
        )),
        other => Some(other),
    }
}

/// As Kubernetes' types read the result: null is no value, and a directive that is left is an
/// unknown field.
fn decoded(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map
                .into_iter()
                .filter(|(name, value)| !value.is_null() && !is_directive(name));
            Value::Object(kept.map(|(name, value)| (name, decoded(value))).collect())
        }
        Value::Array(list) => Value::Array(list.into_iter().map(decoded).collect()),
        other => other,
    }
}

fn is_directive(name: &str) -> bool {
    name == DIRECTIVE
        || name == RETAIN_KEYS
        || name.starts_with(SET_ELEMENT_ORDER)
        || name.starts_with(DELETE_FROM_PRIMITIVE_LIST)
}

fn is_deeper(value: &Value, levels: usize) -> bool {
    let Some(left) = levels.checked_sub(1) else {
        return true;
    };
    match value {
        Value::Object(map) => map.values().any(|value| is_deeper(value, left)),
        Value::Array(list) => list.iter().any(|value| is_deeper(value, left)),
        _ => false,
    }
}

/// The type of a value, for messages.
fn named(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The beginning of a text of any length.
fn shown(text: &str) -> String {
    text.chars().take(80).collect()
}
