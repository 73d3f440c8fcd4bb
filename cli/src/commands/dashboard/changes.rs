//! The differences between two templates, field by field, and as a JSON merge patch.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::objects::items;

/// The most differences of two templates.
const MOST: usize = 200;

/// A field that differs.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Change {
    /// The place, such as `spec.containers[web].image`.
    pub(super) path: String,
    /// The value before; null if there was none.
    pub(super) old: Value,
    /// The value after; null if there is none.
    pub(super) new: Value,
}

/// The fields in which two values differ. Elements of lists are compared by their names, as of
/// containers and variables, if all of them have one.
pub(super) fn between(old: &Value, new: &Value) -> Vec<Change> {
    let mut changes = Vec::new();
    compare(String::new(), old, new, &mut changes);
    changes
}

fn compare(path: String, old: &Value, new: &Value, changes: &mut Vec<Change>) {
    if old == new || changes.len() >= MOST {
        return;
    }
    let parts = match (old, new) {
        (Value::Object(old), Value::Object(new)) => Some((old.clone(), new.clone(), false)),
        (Value::Array(old), Value::Array(new)) => by_name(old)
            .zip(by_name(new))
            .map(|(old, new)| (old, new, true)),
        _ => None,
    };
    let Some((old_parts, new_parts, is_list)) = parts else {
        changes.push(Change {
            path,
            old: old.clone(),
            new: new.clone(),
        });
        return;
    };
    let before = changes.len();
    let keys: BTreeSet<_> = old_parts.keys().chain(new_parts.keys()).collect();
    for key in keys {
        let part = match (is_list, path.is_empty()) {
            (true, _) => format!("{path}[{key}]"),
            (false, true) => key.clone(),
            (false, false) => format!("{path}.{key}"),
        };
        let of = |parts: &Map<String, Value>| parts.get(key).cloned().unwrap_or_default();
        compare(part, &of(&old_parts), &of(&new_parts), changes);
    }
    if is_list && changes.len() == before {
        let names = |list: &Value| {
            items(list, "")
                .map(|one| one["name"].clone())
                .collect::<Value>()
        };
        changes.push(Change {
            path: format!("{path} (order)"),
            old: names(old),
            new: names(new),
        });
    }
}

/// The elements of a list by name; `None` if the names do not tell them apart.
fn by_name(list: &[Value]) -> Option<Map<String, Value>> {
    let mut named = Map::new();
    for element in list {
        let name = element.get("name")?.as_str()?;
        if named.insert(name.to_owned(), element.clone()).is_some() {
            return None;
        }
    }
    Some(named)
}

/// The JSON merge patch that makes `new` of `old`. A merge patch replaces a list as a whole.
pub(super) fn merge_patch(old: &Value, new: &Value) -> Value {
    let (Value::Object(before), Value::Object(after)) = (old, new) else {
        return new.clone();
    };
    let mut patch = Map::new();
    for key in before.keys().filter(|key| !after.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, value) in after {
        match before.get(key) {
            Some(same) if same == value => {}
            Some(other) => {
                patch.insert(key.clone(), merge_patch(other, value));
            }
            None => {
                patch.insert(key.clone(), value.clone());
            }
        }
    }
    Value::Object(patch)
}

#[cfg(test)]
mod tests;
