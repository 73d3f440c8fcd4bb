use serde_json::{Value, json};

use super::*;

fn listing(path: &str, is_bound: bool) -> Listing {
    Listing {
        one: "object",
        many: "objects",
        path: path.to_owned(),
        fields: None,
        is_bound,
    }
}

fn item(namespace: &str, name: &str, is_terminating: bool, phase: &str) -> Value {
    let ends = is_terminating.then_some("2026-01-01T00:00:00Z");
    json!({"metadata": {"namespace": namespace, "name": name, "deletionTimestamp": ends}, "status": {"phase": phase}})
}

#[test]
fn census_skips_terminating_and_unbound_claims() {
    let items = [
        item("a", "x", false, "Bound"),
        item("a", "y", true, "Bound"),
        item("a", "z", false, "Pending"),
        item("a", "v", false, "Bound"),
    ];
    let of_namespace = "/api/v1/namespaces/a/things";
    for (path, is_bound, token, items, expected) in [
        (
            of_namespace,
            false,
            None,
            &items[..],
            (3, false, vec!["x", "z", "v"]),
        ),
        (
            of_namespace,
            true,
            Some(""),
            &items[..],
            (2, false, vec!["x", "v"]),
        ),
        (
            "/apis/g/v1/things",
            true,
            Some("more"),
            &items[..1],
            (1, true, vec!["a/x"]),
        ),
        (of_namespace, true, None, &items[1..3], (0, false, vec![])),
    ] {
        let page = json!({"metadata": {"continue": token}, "items": items});
        let found = listing(path, is_bound).living(&serde_json::from_value(page).unwrap());
        let names = found.names.iter().map(String::as_str).collect();
        assert_eq!(
            (found.count, found.has_more, names),
            expected,
            "{path} {is_bound} {items:?}"
        );
    }
    let none: Page = serde_json::from_value(json!({"metadata": {}, "items": null})).unwrap();
    assert_eq!(
        listing("/apis/g/v1/things", false).living(&none),
        Living::default()
    );
}

#[test]
fn only_three_of_many_objects_are_named() {
    let items: Vec<_> = (0..PAGE)
        .map(|index| item("a", &index.to_string(), false, ""))
        .collect();
    let page = serde_json::from_value(json!({"metadata": {}, "items": items})).unwrap();
    let found = listing("/api/v1/namespaces/a/pods", false).living(&page);
    assert_eq!(
        (found.count, &*found.names),
        (25, &["0", "1", "2"].map(str::to_owned)[..])
    );
}

#[test]
fn apiserver_reason_is_extracted_and_cut() {
    assert_eq!(reason(br#"{"kind": "Status", "message": "no"}"#), "no");
    assert_eq!(reason(b"<html>"), "");
    assert_eq!(
        reason(json!({"message": "x".repeat(1000)}).to_string().as_bytes()).len(),
        LONGEST_REASON
    );
}
