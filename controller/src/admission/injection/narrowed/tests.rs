use serde_json::{Value, json};

use super::*;

#[test]
fn example_matches_what_others_have_added() {
    let selector = |value: Value| Selector::new(&serde_json::from_value(value).unwrap()).unwrap();
    let added = |pods: Value| {
        let found: Vec<(LabelSelector, LabelSelector)> =
            serde_json::from_value(json!([[{}, pods]])).unwrap();
        Narrowed::new(Some(&found))
    };
    let own = selector(json!({"matchLabels": {"app": "web"}}));
    let example =
        added(json!({"matchExpressions": [{"key": "inject", "operator": "Exists"}]})).example(&own);
    assert_eq!(
        example.unwrap().keys().collect::<Vec<_>>(),
        ["app", "inject"]
    );
    assert_eq!(
        added(json!({"matchLabels": {"app": "db"}})).example(&own),
        None
    );
}

#[test]
fn added_selectors_exclude_pods_that_do_not_match() {
    let has_none =
        || json!({"matchExpressions": [{"key": "no-sidecars", "operator": "DoesNotExist"}]});
    let asks = || json!({"matchLabels": {"inject": "yes"}});
    let any = || json!({});
    let namespace = |labels: Value| Some(json!({"metadata": {"name": "n", "labels": labels}}));
    let (plain, opted_out) = (namespace(json!({})), namespace(json!({"no-sidecars": ""})));
    for (what, found, namespace, pod, expected) in [
        ("nothing is added", Some(json!([])), &plain, "no", false),
        (
            "nothing is added, the namespace is new",
            Some(json!([])),
            &None,
            "no",
            false,
        ),
        ("the entries were not read", None, &plain, "yes", true),
        (
            "a namespace that matches",
            Some(json!([[has_none(), any()]])),
            &plain,
            "no",
            false,
        ),
        (
            "one that does not",
            Some(json!([[has_none(), any()]])),
            &opted_out,
            "yes",
            true,
        ),
        (
            "a namespace that is not known",
            Some(json!([[has_none(), any()]])),
            &None,
            "yes",
            true,
        ),
        (
            "a pod that matches",
            Some(json!([[any(), asks()]])),
            &plain,
            "yes",
            false,
        ),
        (
            "one that does not",
            Some(json!([[any(), asks()]])),
            &plain,
            "no",
            true,
        ),
        (
            "one of two entries",
            Some(json!([[any(), any()], [any(), asks()]])),
            &plain,
            "no",
            true,
        ),
    ] {
        let found: Option<Vec<(LabelSelector, LabelSelector)>> =
            found.map(|found| serde_json::from_value(found).unwrap());
        let namespace: Option<Watched<Namespace>> = namespace
            .clone()
            .map(|namespace| serde_json::from_value(namespace).unwrap());
        let label = |key: &str| (key == "inject").then_some(pod);
        let is_left_out = Narrowed::new(found.as_deref()).leaves_out(label, namespace.as_ref());
        assert_eq!(is_left_out, expected, "{what}");
    }
}
