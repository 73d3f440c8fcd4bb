use serde_json::{Value, json};

use super::*;

fn of(selector: Value) -> Option<String> {
    expression(&serde_json::from_value(selector).unwrap())
}

#[test]
fn each_operator_asks_for_the_label_before_its_value() {
    let labels = "object.metadata.?labels.orValue({})";
    let expression = |key: &str, operator: &str, values: Value| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
    for (selector, expected) in [
        (
            json!({"matchLabels": {"app": "web"}}),
            format!("('app' in {labels} && {labels}['app'] in ['web'])"),
        ),
        (
            expression("a/b", "In", json!(["x", "y"])),
            format!("('a/b' in {labels} && {labels}['a/b'] in ['x', 'y'])"),
        ),
        (
            expression("a", "NotIn", json!(["x"])),
            format!("!('a' in {labels} && {labels}['a'] in ['x'])"),
        ),
        (
            expression("a", "Exists", Value::Null),
            format!("'a' in {labels}"),
        ),
        (
            expression("a", "DoesNotExist", json!([])),
            format!("!('a' in {labels})"),
        ),
    ] {
        assert_eq!(of(selector.clone()), Some(expected), "{selector}");
    }
    let both = json!({"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "b", "operator": "Exists"}]});
    assert!(of(both).unwrap().contains(" && 'b' in "));
}

#[test]
fn only_single_label_selectors_become_a_label_rule() {
    let of = |selector: Value| {
        let selector = serde_json::from_value(selector).unwrap();
        only_label(&selector).map(|(key, values)| format!("{key} {}", values.join(",")))
    };
    let expression =
        |operator: &str, values: Value| json!({"key": "b", "operator": operator, "values": values});
    for (selector, expected) in [
        (json!({"matchLabels": {"a": "1"}}), Some("a 1")),
        (
            json!({"matchExpressions": [expression("In", json!(["1", "2"]))]}),
            Some("b 1,2"),
        ),
        (json!({"matchLabels": {"a": "1", "b": "2"}}), None),
        (
            json!({"matchLabels": {"a": "1"}, "matchExpressions": [expression("In", json!(["1"]))]}),
            None,
        ),
        (
            json!({"matchExpressions": [expression("NotIn", json!(["1"]))]}),
            None,
        ),
        (
            json!({"matchExpressions": [expression("Exists", Value::Null)]}),
            None,
        ),
        (
            json!({"matchExpressions": [expression("In", json!([]))]}),
            None,
        ),
        (json!({"matchLabels": {"a": "x'] || true || ['"}}), None),
        (json!({}), None),
    ] {
        assert_eq!(of(selector.clone()).as_deref(), expected, "{selector}");
    }
}

#[test]
fn a_selector_that_the_apiserver_refuses_is_not_sound() {
    let is = |selector: Value| is_sound(&serde_json::from_value(selector).unwrap());
    let expression = |operator: &str, values: Value| json!({"matchExpressions": [{"key": "a", "operator": operator, "values": values}]});
    assert!(is(json!({})) && is(json!({"matchLabels": {"kubernetes.io/metadata.name": "a"}})));
    assert!(is(expression("In", json!(["x"]))) && is(expression("Exists", Value::Null)));
    for selector in [
        json!({"matchLabels": {"team x": "a"}}),
        json!({"matchLabels": {"team": "a b"}}),
        expression("In", json!([])),
        expression("Exists", json!(["x"])),
        expression("Like", json!(["x"])),
    ] {
        assert!(!is(selector.clone()), "{selector}");
    }
}

#[test]
fn invalid_or_unsafe_selectors_have_no_expression() {
    for selector in [
        json!({}),
        json!({"matchLabels": {"a": "x'] || true || ['"}}),
        json!({"matchLabels": {"a'": "x"}}),
        json!({"matchExpressions": [{"key": "a", "operator": "In", "values": []}]}),
        json!({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]}),
        json!({"matchExpressions": [{"key": "a", "operator": "Like", "values": ["x"]}]}),
    ] {
        assert_eq!(of(selector.clone()), None, "{selector}");
    }
}
