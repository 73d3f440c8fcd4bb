use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn weighed(value: &Value) -> (usize, usize) {
    let children: Vec<_> = match value {
        Value::Object(map) => map.values().map(weighed).collect(),
        Value::Array(list) => list.iter().map(weighed).collect(),
        _ => return (1, 0),
    };
    let deepest = children.iter().map(|(_, depth)| *depth).max().unwrap_or(0);
    (
        1 + children.iter().map(|(values, _)| values).sum::<usize>(),
        1 + deepest,
    )
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        r#"[a",:\\{}\[\] ]{0,5}"#.prop_map(Value::from)
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(r#"[a"{,\\]{0,3}"#, inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn the_weight_of_text_is_that_of_its_tree(value in any_json()) {
        for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
            let Weight { bytes, values, depth } = Weight::of(&text);
            prop_assert_eq!((bytes, (values, depth)), (text.len(), weighed(&value)));
        }
    }
}

#[test]
fn each_limit_names_field_value_limit_and_remedy() {
    let deep = "[".repeat(MAX_DEPTH + 1) + &"]".repeat(MAX_DEPTH + 1);
    let many = format!("[{}]", vec![r#"{"":0}"#; MAX_VALUES / 2].join(","));
    let long = json!("x".repeat(999)).to_string();
    let table = [
        (deep, 1000, ["nested 101", "100"]),
        (many, DEFAULT_MAX_BYTES, ["16385 JSON values", "16384"]),
        (long, 1000, ["1001", "1000"]),
    ];
    for (text, max_bytes, says) in table {
        let error = Limits::of_specs(max_bytes)
            .check("spec.template", &text)
            .unwrap_err();
        assert!(
            error.starts_with("spec.template: ") && says.iter().all(|says| error.contains(says)),
            "{error}"
        );
    }
    let deepest = "[".repeat(MAX_DEPTH) + &"]".repeat(MAX_DEPTH);
    assert_eq!(Limits::of_specs(1000).check("spec", &deepest), Ok(()));
}

#[test]
fn pod_is_weighed_in_each_part_unless_it_is_short() {
    let bomb = |part: &str, count: usize| {
        format!(
            r#"{{"{part}":{{"list":[{}]}}}}"#,
            vec![r#"{"key":"a"}"#; count].join(",")
        )
    };
    for part in ["metadata", "spec", "status"] {
        let refused = Limits::check_pod(&bomb(part, 30_000)).unwrap_err();
        assert!(
            refused.starts_with(&format!("{part}: has 60002 JSON values, and 16384")),
            "{refused}"
        );
        assert_eq!(Limits::check_pod(&bomb(part, 1_000)), Ok(()));
    }
    let long = |bytes: usize| format!(r#"{{"spec":{{"image":"{}"}}}}"#, "x".repeat(bytes));
    assert_eq!(Limits::check_pod(&long(1_300_000)), Ok(()));
    let refused = Limits::check_pod(&long(2 << 20)).unwrap_err();
    assert!(
        refused.ends_with("keep large data in a ConfigMap or a volume"),
        "{refused}"
    );
}

#[test]
fn only_labelled_workload_is_bounded() {
    let limits = Limits::of_subsets(100 << 10);
    let object = |label: &str, bytes: usize| {
        format!(
            r#"{{"metadata":{{"labels":{{"{label}":"a"}}}},"spec":{{"image":"{}"}}}}"#,
            "x".repeat(bytes)
        )
    };
    let of_subset = object(SUBSET_NAME, 300 << 10);
    assert!(!limits.is_light(&of_subset) && limits.is_light(&object("app", 300 << 10)));
    let owned = object("app", 300 << 10);
    let owned = owned.replacen(
        "labels",
        r#"ownerReferences":[{"kind":"UnitedDeployment"}],"labels"#,
        1,
    );
    assert!(!limits.is_light(&owned));
    assert!(limits.is_light(&object(SUBSET_NAME, 1_000)));
    let refused = limits.check_object(&of_subset).unwrap_err();
    assert!(
        refused.starts_with("spec: has 307212 bytes of JSON, and 204800 are the limit"),
        "{refused}"
    );
    assert_eq!(limits.check_object(&object(SUBSET_NAME, 199 << 10)), Ok(()));
}

fn nested(field: &str, depth: usize) -> String {
    format!(
        r#"{{"{field}":{{"a":{}1{}}}}}"#,
        r#"{"a":"#.repeat(depth),
        "}".repeat(depth)
    )
}

#[test]
fn check_counts_all_parts_but_managed_fields() {
    let limits = Limits::of_specs(1 << 20);
    let managed = format!(
        r#"{{"metadata":{{"managedFields":{}}}}}"#,
        nested("f:spec", 10_000)
    );
    assert_eq!(
        limits.check_object(&without_managed_fields(&managed)),
        Ok(())
    );
    assert!(
        limits
            .check_object(&nested("metadata", 10_000))
            .unwrap_err()
            .contains("metadata: is nested 10001")
    );
    assert!(
        limits
            .check_object(&nested("spec", 10_000))
            .unwrap_err()
            .contains("spec: is nested 10001")
    );
    assert!(
        Limits::of_revisions(10)
            .check_object(&nested("data", 200))
            .unwrap_err()
            .contains("data: has")
    );
}

#[test]
fn an_object_that_cannot_be_weighed_is_refused() {
    let limits = Limits::of_specs(1 << 20);
    for object in [
        r#"{"data":1,"data":2,"spec":{}}"#,
        r#"{"spec":{},"spec":[{"":0}]}"#,
        "[1",
        "7",
    ] {
        assert!(
            limits
                .check_object(object)
                .unwrap_err()
                .starts_with("the object cannot be read: "),
            "{object}"
        );
    }
    let owners = format!(
        r#"{{"metadata":{{"ownerReferences":[{}]}}}}"#,
        vec!["{}"; MAX_VALUES].join(",")
    );
    assert!(
        limits
            .check_object(&owners)
            .unwrap_err()
            .starts_with("metadata: has 16386 JSON values")
    );
}

#[test]
fn only_managed_fields_are_left_out() {
    let of = |fields: &str| {
        format!(
            r#"{{"metadata":{{"name":"a","managedFields":{fields},"uid":"ü"}},"spec":{{"managedFields":1}}}}"#
        )
    };
    assert_eq!(
        without_managed_fields(&of(&nested("f:spec", 10_000))),
        of("null")
    );
    for untouched in [
        r#"{"metadata":{"name":"a"}}"#,
        "{}",
        "[1",
        r#"{"metadata":{"managedFields":null}}"#,
    ] {
        assert_eq!(without_managed_fields(untouched), untouched);
    }
}
