use proptest::prelude::*;
use serde_json::json;

use super::*;

fn lines(old: &Value, new: &Value) -> Vec<String> {
    let changes = between(old, new);
    let line = |change: &Change| format!("{}: {} -> {}", change.path, change.old, change.new);
    changes.iter().map(line).collect()
}

#[test]
fn changes_name_the_fields_that_differ() {
    let web = |image: &str| json!({"spec": {"containers": [{"name": "web", "image": image}]}});
    let env = |list: Value| json!({"env": list});
    let cases = [
        (web("a"), web("a"), vec![]),
        (
            web("a"),
            web("b"),
            vec![r#"spec.containers[web].image: "a" -> "b""#],
        ),
        (
            env(json!([{"name": "A", "value": "1"}])),
            env(json!([{"name": "A", "value": "1"}, {"name": "B", "value": "2"}])),
            vec![r#"env[B]: null -> {"name":"B","value":"2"}"#],
        ),
        (
            env(json!([{"name": "A"}, {"name": "B"}])),
            env(json!([{"name": "B"}, {"name": "A"}])),
            vec![r#"env (order): ["A","B"] -> ["B","A"]"#],
        ),
        (
            env(json!([{"name": "A", "value": "1"}, {"name": "A", "value": "2"}])),
            env(json!([{"name": "A", "value": "1"}])),
            vec![
                r#"env: [{"name":"A","value":"1"},{"name":"A","value":"2"}] -> [{"name":"A","value":"1"}]"#,
            ],
        ),
        (
            json!({"a": ["x"]}),
            json!({"a": ["y"]}),
            vec![r#"a: ["x"] -> ["y"]"#],
        ),
        (
            json!({"a": {"b": 1}}),
            json!({}),
            vec![r#"a: {"b":1} -> null"#],
        ),
    ];
    for (old, new, expected) in cases {
        assert_eq!(lines(&old, &new), expected);
    }
}

/// JSON without nulls in objects, which a merge patch cannot write, as the apiserver stores none.
fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        (0..3_i64).prop_map(Value::from)
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            proptest::collection::btree_map("[a-c]", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Merges as RFC 7396 says.
fn merged(target: Value, patch: &Value) -> Value {
    let Value::Object(fields) = patch else {
        return patch.clone();
    };
    let mut result = target.as_object().cloned().unwrap_or_default();
    for (key, value) in fields {
        if value.is_null() {
            result.remove(key);
        } else {
            let before = result.remove(key).unwrap_or_default();
            result.insert(key.clone(), merged(before, value));
        }
    }
    Value::Object(result)
}

proptest! {
    #[test]
    fn merge_patch_makes_the_new_of_the_old(old in values(), new in values()) {
        prop_assert_eq!(merged(old.clone(), &merge_patch(&old, &new)), new);
    }

    #[test]
    fn only_equal_values_have_no_changes(old in values(), new in values()) {
        prop_assert_eq!(between(&old, &new).is_empty(), old == new);
    }
}
