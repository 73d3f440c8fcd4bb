use serde_json::json;

use super::*;

#[test]
fn record_of_one_set_is_read_in_both_forms() {
    let of = |hash: &str, revision: &str| {
        Some(Known {
            hash: hash.into(),
            controller_revision: revision.into(),
        })
    };
    for (text, expected) in [
        (
            r#"{"a": {"hash": "h0"}, "log": {"hash": "h1", "controllerRevision": "r", "sidecarList": ["x"]}}"#,
            of("h1", "r"),
        ),
        (r#"{"log": "h1", "a": 5}"#, of("h1", "")),
        (r#"{"l\u006fg": {"hash": "h1"}}"#, of("h1", "")),
        (r#"{"log": {"hash": 5}}"#, None),
        (r#"{"log": 5}"#, None),
        (r#"{"logs": "h1"}"#, None),
        (r#"{"log": "h1"} more"#, None),
        (r#"["log"]"#, None),
        ("", None),
    ] {
        assert_eq!(known(text, "log"), expected, "{text}");
    }
}

#[test]
fn pod_is_injected_by_list_or_else_by_record() {
    let hash = json!({"log": "h1"}).to_string();
    for (annotations, expected) in [
        (json!({INJECTED_LIST: "a,log"}), true),
        (json!({INJECTED_LIST: "a,logs"}), false),
        (json!({HASH: hash}), true),
        (json!({HASH: hash, INJECTED_LIST: "a"}), false),
        (json!({}), false),
    ] {
        let pod: Pod =
            serde_json::from_value(json!({"metadata": {"annotations": annotations}})).unwrap();
        assert_eq!(is_injected(&pod, "log"), expected, "{annotations}");
    }
}
