use serde_json::{Value, json};

use super::*;

const MADE: &str = "2026-01-02T00:00:00Z";
const LATER: &str = "2026-03-01T00:00:00Z";
const LATEST: &str = "2026-04-01T00:00:00Z";

fn namespace(labels: Value, managed_fields: Value) -> Namespace {
    let metadata = json!({
        "name": "shop", "uid": "u", "resourceVersion": "7", "creationTimestamp": MADE, "labels": labels,
        "annotations": {"kruise.io/a": "b", "other": "c"}, "managedFields": managed_fields,
    });
    let namespace =
        json!({"kind": "Namespace", "metadata": metadata, "spec": {"finalizers": ["kubernetes"]}});
    serde_json::from_str(&namespace.to_string()).unwrap()
}

/// The entry of a writer of these labels.
fn writer(time: &str, labels: &[&str]) -> Value {
    let labels: serde_json::Map<String, Value> = labels
        .iter()
        .map(|key| (format!("f:{key}"), json!({})))
        .chain([(".".to_owned(), json!({}))])
        .collect();
    let fields = json!({"f:metadata": {"f:annotations": {"f:note": {}}, "f:labels": labels}});
    json!({"manager": "m", "operation": "Update", "apiVersion": "v1", "time": time, "fieldsType": "FieldsV1", "fieldsV1": fields})
}

#[test]
fn label_age_is_the_time_of_its_last_writer() {
    let on = || json!({"matchLabels": {"mesh": "on"}});
    let by_name = || json!({"matchLabels": {NAMESPACE_NAME: "shop"}});
    let not_off = || json!({"matchExpressions": [{"key": "off", "operator": "DoesNotExist"}]});
    let by = |fields: Value| json!({"manager": "m", "time": LATEST, "fieldsV1": fields});
    let status = by(json!({"f:status": {"f:phase": {}}}));
    let noted = by(json!({"f:metadata": {"f:annotations": {"f:note": {}}}}));
    for (what, managed, selector, expected) in [
        (
            "with the namespace",
            json!([writer(MADE, &["mesh"])]),
            on(),
            None,
        ),
        (
            "later",
            json!([writer(MADE, &["team"]), writer(LATER, &["mesh"])]),
            on(),
            Some(LATER),
        ),
        (
            "by two",
            json!([writer(LATEST, &["mesh"]), writer(LATER, &["mesh"])]),
            on(),
            Some(LATEST),
        ),
        (
            "another label",
            json!([writer(LATEST, &["team"]), writer(LATER, &["mesh"])]),
            on(),
            Some(LATER),
        ),
        ("no label", json!([status, noted]), on(), None),
        (
            "the apiserver's own",
            json!([writer(LATER, &[NAMESPACE_NAME])]),
            by_name(),
            None,
        ),
        (
            "one that is gone",
            json!([writer(LATER, &["team"])]),
            not_off(),
            Some(LATER),
        ),
        (
            "without a time",
            json!([{"fieldsV1": {"f:metadata": {"f:labels": {"f:mesh": {}}}}}]),
            on(),
            None,
        ),
        ("none that can be read", json!([{"time": 5}]), on(), None),
        ("no list", json!("x"), on(), None),
        ("null", Value::Null, on(), None),
    ] {
        let namespace = namespace(
            json!({NAMESPACE_NAME: "shop", "mesh": "on", "team": "a"}),
            managed,
        );
        let selector = Selector::new(&serde_json::from_value(selector).unwrap()).unwrap();
        let expected = expected.map(|time| time.parse::<Timestamp>().unwrap());
        assert_eq!(namespace.labelled_for(&selector), expected, "{what}");
        let metadata = &namespace.metadata;
        assert_eq!(
            (&*metadata.name, metadata.label("mesh")),
            ("shop", Some("on"))
        );
        assert_eq!(
            (
                metadata.annotation("kruise.io/a"),
                metadata.annotation("other")
            ),
            (Some("b"), None)
        );
    }
}

#[test]
fn namespace_without_managed_fields_is_read() {
    let namespace = json!({"metadata": {"name": "shop", "labels": {"mesh": "on"}}});
    let from_text: Namespace = serde_json::from_str(&namespace.to_string()).unwrap();
    assert_eq!(
        from_text,
        serde_json::from_value::<Namespace>(namespace).unwrap()
    );
    assert_eq!(
        (from_text.metadata.label("mesh"), from_text.labelled.len()),
        (Some("on"), 0)
    );
    let managed =
        json!({"metadata": {"name": "shop", "managedFields": [writer(LATER, &["mesh"])]}});
    let from_text: Namespace = serde_json::from_str(&managed.to_string()).unwrap();
    assert_eq!(
        from_text,
        serde_json::from_value::<Namespace>(managed).unwrap()
    );
    assert_eq!(from_text.labelled.len(), 1);
}
