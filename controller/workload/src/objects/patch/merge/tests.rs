use proptest::prelude::*;
use serde_json::json;

use super::*;

/// RFC 7386, as a server applies it.
fn apply(target: Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else {
        return patch.clone();
    };
    let mut target = match target {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    for (key, change) in patch {
        if change.is_null() {
            target.remove(key);
        } else {
            let old = target.remove(key).unwrap_or(Value::Null);
            target.insert(key.clone(), apply(old, change));
        }
    }
    Value::Object(target)
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => map
            .into_iter()
            .filter(|(_, v)| !v.is_null())
            .map(|(k, v)| (k, without_nulls(v)))
            .collect(),
        other => other,
    }
}

fn object() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        (0..3i32).prop_map(Value::from),
        "[ab]".prop_map(Value::from)
    ];
    let value = leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[abc]", inner, 0..3)
                .prop_map(|map| map.into_iter().collect()),
        ]
    });
    prop::collection::btree_map("[abc]", value, 0..4).prop_map(|map| map.into_iter().collect())
}

proptest! {
    #[test]
    fn merge_patch_changes_old_into_new(old in object(), new in object()) {
        let (old, new) = (without_nulls(old), without_nulls(new));
        match merge_patch(&old, &new) {
            None => prop_assert_eq!(old, new),
            Some(patch) => {
                prop_assert_ne!(&old, &new);
                prop_assert_eq!(apply(old, &patch), new);
            }
        }
    }
}

#[test]
fn merge_patch_has_only_changed_fields() {
    let old = json!({"replicas": 3, "ready": 1, "label": "x", "conditions": [{"type": "A"}]});
    let new = json!({"replicas": 3, "ready": 2, "label": null, "conditions": [{"type": "A"}]});
    assert_eq!(
        merge_patch(&old, &new),
        Some(json!({"ready": 2, "label": null}))
    );
}

#[test]
fn merge_patch_nulls_fields_and_replaces_lists() {
    let table = [
        (json!({"a": 1}), json!({"a": 1}), None),
        (
            json!({"a": 1, "b": 2}),
            json!({"a": 1}),
            Some(json!({"b": null})),
        ),
        (
            json!({"a": {"x": 1, "y": 2}}),
            json!({"a": {"x": 1, "y": 3}}),
            Some(json!({"a": {"y": 3}})),
        ),
        (
            json!({"a": [1, 2]}),
            json!({"a": [2]}),
            Some(json!({"a": [2]})),
        ),
        (
            json!({}),
            json!({"a": {"b": {}}}),
            Some(json!({"a": {"b": {}}})),
        ),
        (
            json!({"a": 1}),
            json!({"a": {"b": 1}}),
            Some(json!({"a": {"b": 1}})),
        ),
    ];
    for (old, new, patch) in table {
        assert_eq!(merge_patch(&old, &new), patch, "{old} -> {new}");
    }
}
