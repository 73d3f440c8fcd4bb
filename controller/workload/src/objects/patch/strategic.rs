//! Kubernetes' strategic merge patch of a pod template: the result equals the apiserver's.
//!
//! A list with a merge key is merged element by element, every other list is replaced whole. The
//! rules are those of `k8s.io/apimachinery/pkg/util/strategicpatch`, the keys those of the struct
//! tags in `k8s.io/api/core/v1` and `k8s.io/apimachinery/pkg/apis/meta/v1`.

mod element_order;
mod list;
mod order;
mod rules;

#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use rules::{
    DELETE_FROM_PRIMITIVE_LIST, DIRECTIVE, ListStrategy, RETAIN_KEYS, SET_ELEMENT_ORDER,
    is_directive, named, shown, strategy, target, unknown_directive, without_directives,
};

pub use rules::InvalidPatch;

/// The deepest nesting of a template or patch. Kubernetes' own fields nest less than 20 deep.
const DEEPEST: usize = 64;

/// Objects that Kubernetes' types write even where they are empty, so that a patch always meets
/// them: the field that holds the object, and the object.
const ALWAYS_PRESENT: [(&str, &str); 5] = [
    ("", "metadata"),
    ("", "spec"),
    ("containers", "resources"),
    ("initContainers", "resources"),
    ("ephemeralContainers", "resources"),
];

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
    element_order::set_element_order(holder, original, &mut patch, merge_maps)?;
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
            ListStrategy::Merge(key) => {
                *old = list::merge(field, std::mem::take(old), new, key, merge_maps)?
            }
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

/// Removes fields that `$retainKeys` does not list from the original. The list must have all fields
/// that the patch sets.
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

/// The result as Kubernetes' types read it: null is no value, and a remaining directive is an
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
