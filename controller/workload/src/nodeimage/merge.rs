//! JSON merge patches (RFC 7396).

use serde_json::{Map, Value};

/// The patch that makes `new` of `old`. `None` when they are equal.
pub(super) fn difference(old: &Value, new: &Value) -> Option<Value> {
    if old == new {
        return None;
    }
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return Some(new.clone()) };
    let mut patch: Map<_, _> =
        old.keys().filter(|key| !new.contains_key(*key)).map(|key| (key.clone(), Value::Null)).collect();
    for (key, value) in new {
        let change = difference(old.get(key).unwrap_or(&Value::Null), value);
        patch.extend(change.map(|change| (key.clone(), change)));
    }
    Some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_differs_is_patched() {
        let table = [
            (json!({"a": 1}), json!({"a": 1}), None),
            (json!({"a": 1, "b": 2}), json!({"a": 1}), Some(json!({"b": null}))),
            (json!({"a": {"x": 1, "y": 2}}), json!({"a": {"x": 1, "y": 3}}), Some(json!({"a": {"y": 3}}))),
            (json!({"a": [1, 2]}), json!({"a": [2]}), Some(json!({"a": [2]}))),
            (json!({}), json!({"a": {"b": {}}}), Some(json!({"a": {"b": {}}}))),
            (json!({"a": 1}), json!({"a": {"b": 1}}), Some(json!({"a": {"b": 1}}))),
        ];
        for (old, new, patch) in table {
            assert_eq!(difference(&old, &new), patch, "{old} -> {new}");
        }
    }
}
