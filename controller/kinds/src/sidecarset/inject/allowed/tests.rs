use super::*;

fn allows(rules: &str, labels: &[(&str, &str)], by_default: bool, key: &str) -> bool {
    let labels = labels
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    Rules::read(rules)
        .unwrap()
        .of(&labels, by_default)
        .allows(key)
}

#[test]
fn rules_speak_of_sidecarsets_by_their_labels() {
    let one = r#"{"rules":[{"allowedAnnotationKeyExprs":["^key.*"],"later":1},{"selector":{"matchLabels":{"a":"b"}},
            "allowedAnnotationKeyExprs":["x"]}],"later":2}"#;
    let table = [
        (one, &[][..], false, "key1", true),
        (one, &[], false, "my-key", false),
        (one, &[], false, "axe", false),
        (one, &[("a", "b")], false, "axe", true),
        (one, &[("a", "c")], false, "axe", false),
        (one, &[], true, "other", false),
        (r#"{"rules":[]}"#, &[], true, "other", true),
        (r#"{"rules":[]}"#, &[], false, "other", false),
        (
            r#"{"rules":[{"selector":{"matchLabels":{"a":"b"}},"allowedAnnotationKeyExprs":["x"]}]}"#,
            &[],
            true,
            "y",
            true,
        ),
        (r#"{"rules":[{}]}"#, &[], false, "y", false),
        ("{}", &[], true, "y", true),
    ];
    for (rules, labels, by_default, key, expected) in table {
        assert_eq!(
            allows(rules, labels, by_default, key),
            expected,
            "{rules} {labels:?} {key}"
        );
    }
    assert!(!Rules::default().of(&BTreeMap::new(), false).allows("key"));
}

#[test]
fn rules_that_cannot_be_read_are_named() {
    for (text, expected) in [
        ("rules", "expected value"),
        (
            r#"{"rules":[{"allowedAnnotationKeyExprs":["("]}]}"#,
            "\"(\" is no regular expression",
        ),
        (
            r#"{"rules":[{"selector":{"matchExpressions":[{"key":"a","operator":"Is"}]}}]}"#,
            "Is",
        ),
    ] {
        let error = Rules::read(text).unwrap_err();
        assert!(error.contains(KEY) && error.contains(expected), "{error}");
    }
}
