use serde_json::{Value, json};

use super::*;

fn selector(value: Value) -> Result<Selector, String> {
    Selector::new(&serde_json::from_value(value).unwrap())
}

#[test]
fn matching_and_writing() {
    let given = selector(json!({
        "matchLabels": {"app": "web"},
        "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["b", "a"]},
            {"key": "zone", "operator": "NotIn", "values": ["z"]},
            {"key": "live", "operator": "Exists"},
            {"key": "dead", "operator": "DoesNotExist"},
        ],
    }))
    .unwrap();
    assert_eq!(
        given.to_string(),
        "app=web,!dead,live,tier in (a,b),zone notin (z)"
    );
    let good = [("app", "web"), ("tier", "a"), ("live", "")];
    let matches = |labels: &[(&str, &str)]| {
        let labels: std::collections::BTreeMap<String, String> = labels
            .iter()
            .map(|(k, v)| (k.to_string(), v.to_string()))
            .collect();
        given.matches(|key| labels.get(key).map(|v| &**v))
    };
    assert!(matches(&good));
    for (key, value) in [
        ("app", "other"),
        ("tier", "c"),
        ("zone", "z"),
        ("dead", "x"),
    ] {
        let changed: Vec<_> = good
            .iter()
            .copied()
            .filter(|(k, _)| *k != key)
            .chain([(key, value)])
            .collect();
        assert!(!matches(&changed), "{key}={value}");
    }
}

#[test]
fn selector_text_is_parsed_and_written_the_same() {
    for text in [
        "",
        "app=web",
        "app=web,!dead,live,tier in (a,b),zone notin (z)",
        "a.b/c=",
        "a in (,b)",
    ] {
        assert_eq!(Selector::parse(text).unwrap().to_string(), text);
    }
    for (text, same) in [
        (" app == web , tier in ( b, a ) ", "app=web,tier in (a,b)"),
        ("zone!=z", "zone notin (z)"),
        ("b,a", "a,b"),
    ] {
        assert_eq!(Selector::parse(text).unwrap().to_string(), same);
    }
    for text in [
        "a,,b",
        "a in b",
        "in (a)",
        "a like (b)",
        "a in (b",
        "=x",
        "a b",
    ] {
        assert!(Selector::parse(text).is_err(), "{text}");
    }
}

#[test]
fn invalid_selector_expression_is_named() {
    for (expression, says) in [
        (
            json!({"key": "a", "operator": "Like", "values": ["b"]}),
            "\"Like\"",
        ),
        (json!({"key": "a", "operator": "In"}), "a In needs values"),
        (
            json!({"key": "a", "operator": "Exists", "values": ["b"]}),
            "a Exists takes no values",
        ),
    ] {
        let error = selector(json!({"matchExpressions": [expression]})).unwrap_err();
        assert!(error.contains(says), "{error}");
    }
}
mod properties {
    use proptest::prelude::*;

    use super::*;

    const KEYS: [&str; 2] = ["a", "b"];
    const VALUES: [&str; 3] = ["1", "2", "3"];

    fn any_selector() -> impl Strategy<Value = Selector> {
        let values = prop::sample::subsequence(VALUES.to_vec(), 1..=VALUES.len());
        let asked = (prop::sample::select(KEYS.to_vec()), 0..4_usize, values).prop_map(
            |(key, operator, values)| {
                let operator = ["In", "NotIn", "Exists", "DoesNotExist"][operator];
                let values = operator.ends_with("In").then_some(values);
                json!({"key": key, "operator": operator, "values": values})
            },
        );
        let label = prop::option::of((
            prop::sample::select(KEYS.to_vec()),
            prop::sample::select(VALUES.to_vec()),
        ));
        (label, prop::collection::vec(asked, 0..4)).prop_map(|(label, expressions)| {
            let labels: BTreeMap<_, _> = label.into_iter().collect();
            selector(json!({"matchLabels": labels, "matchExpressions": expressions})).unwrap()
        })
    }

    /// All combinations of labels: each is absent, has a value that selectors may name, or has
    /// another value.
    fn all_labels() -> impl Iterator<Item = [Option<&'static str>; 2]> {
        let values = || [None, Some("other")].into_iter().chain(VALUES.map(Some));
        values().flat_map(move |a| values().map(move |b| [a, b]))
    }

    proptest! {
        #[test]
        fn exclusive_selectors_match_no_common_labels(
            one in any_selector(), other in any_selector(),
        ) {
            let matched = all_labels().find(|labels| {
                let label = |key: &str| labels[KEYS.iter().position(|known| *known == key).unwrap()];
                one.matches(label) && other.matches(label)
            });
            let example = Selector::example([&one, &other]);
            prop_assert_eq!(example.is_some(), matched.is_some());
            if let Some(labels) = example {
                let label = |key: &str| labels.get(key).map(String::as_str);
                prop_assert!(one.matches(label) && other.matches(label), "{} | {}: {:?}", one, other, labels);
            }
            prop_assert_eq!(one.excludes(&other), matched.is_none(), "{} | {}: {:?}", one, other, matched);
        }
    }
}
