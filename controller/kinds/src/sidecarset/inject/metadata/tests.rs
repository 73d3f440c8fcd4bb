use super::*;

#[test]
fn annotations_become() {
    use PatchPolicy::{MergePatchJson, Overwrite, Retain};
    let table = [
        (None, "new", Retain, Some("new")),
        (Some("old"), "new", Retain, None),
        (Some(""), "new", Retain, None),
        (None, "new", Overwrite, Some("new")),
        (Some("old"), "new", Overwrite, Some("new")),
        (
            None,
            r#"{"b":1, "a":2}"#,
            MergePatchJson,
            Some(r#"{"b":1, "a":2}"#),
        ),
        (Some(""), r#"{"a":1}"#, MergePatchJson, Some(r#"{"a":1}"#)),
        (
            None,
            r#"{"a":1,"b":null}"#,
            MergePatchJson,
            Some(r#"{"a":1}"#),
        ),
        (
            Some(r#"{"log":1}"#),
            r#"{"mesh":"<2"}"#,
            MergePatchJson,
            Some(r#"{"log":1,"mesh":"\u003c2"}"#),
        ),
        (
            Some(r#"{"a":{"b":1,"c":2}}"#),
            r#"{"a":{"b":null}}"#,
            MergePatchJson,
            Some(r#"{"a":{"c":2}}"#),
        ),
        (
            Some(r#"{"a":[1]}"#),
            r#"{"a":{"b":1}}"#,
            MergePatchJson,
            Some(r#"{"a":{"b":1}}"#),
        ),
        (
            Some(r#"{ "b":1, "a":2 }"#),
            r#"{"a":2}"#,
            MergePatchJson,
            None,
        ),
    ];
    for (old, wanted, policy, expected) in table {
        let new = annotation(old, wanted, policy).unwrap();
        assert_eq!(new.as_deref(), expected, "{old:?} {wanted} {policy:?}");
        let again = new.as_deref().or(old);
        let twice = annotation(again, wanted, policy).unwrap();
        assert_eq!(
            twice.as_deref().or(again),
            again,
            "{old:?} {wanted} {policy:?}: twice is once"
        );
    }
    for (old, wanted) in [
        (Some("old"), "{}"),
        (None, "new"),
        (Some("[]"), "{}"),
        (Some("{}"), ""),
    ] {
        assert!(
            annotation(old, wanted, MergePatchJson)
                .unwrap_err()
                .contains("is no JSON object")
        );
    }
}
