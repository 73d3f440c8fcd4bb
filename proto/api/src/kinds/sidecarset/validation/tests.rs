use serde_json::json;

use super::*;
use crate::kinds::{new_violations, violations};

const CANARY: &str = "metadata.annotations[apps.kruise.io/sidecarset-canary]";
const BASE: &str = "metadata.annotations[apps.kruise.io/sidecarset-base]";
const TYPE: &str = "spec.updateStrategy.type";

fn set(annotations: &Value, spec: &Value) -> Value {
    json!({"kind": "SidecarSet", "metadata": {"name": "demo", "annotations": annotations}, "spec": spec})
}

fn fields(object: &Value) -> Vec<String> {
    violations(object)
        .into_iter()
        .map(|violation| violation.field)
        .collect()
}

#[test]
fn invalid_annotations_are_refused() {
    let canary =
        |canary: &str, base: &str| json!({SIDECARSET_CANARY: canary, SIDECARSET_BASE: base});
    let long = "a".repeat(64);
    for (annotations, update, expected) in [
        (json!({}), "RollingUpdate", vec![]),
        (json!({SIDECARSET_BASE: "no name"}), "RollingUpdate", vec![]),
        (canary("false", ""), "RollingUpdate", vec![]),
        (canary("yes", "base"), "RollingUpdate", vec![CANARY]),
        (canary("true", "base"), "NotUpdate", vec![]),
        (canary("true", "base"), "RollingUpdate", vec![TYPE]),
        (json!({SIDECARSET_CANARY: "true"}), "NotUpdate", vec![BASE]),
        (canary("true", "a.b"), "NotUpdate", vec![BASE]),
        (canary("true", &long), "NotUpdate", vec![BASE]),
        (canary("true", "demo"), "RollingUpdate", vec![BASE, TYPE]),
        (
            json!({SIDECARSET_FAILURE_POLICY: "Fail", SIDECARSET_REPAIR: "Missed"}),
            "RollingUpdate",
            vec![],
        ),
        (
            json!({SIDECARSET_FAILURE_POLICY: "Ignore", SIDECARSET_REPAIR: "None"}),
            "RollingUpdate",
            vec![],
        ),
        (
            json!({"apps.kruise.io/inplace-update-wait-for-image": "soon"}),
            "RollingUpdate",
            vec!["metadata.annotations[apps.kruise.io/inplace-update-wait-for-image]"],
        ),
        (
            json!({SIDECARSET_FAILURE_POLICY: "fail", SIDECARSET_REPAIR: "all"}),
            "RollingUpdate",
            vec![
                "metadata.annotations[apps.kruise.io/sidecarset-failure-policy]",
                "metadata.annotations[apps.kruise.io/sidecarset-repair]",
            ],
        ),
    ] {
        let object = set(&annotations, &json!({"updateStrategy": {"type": update}}));
        assert_eq!(fields(&object), expected, "{object}");
    }
}

#[test]
fn base_of_a_canary_is_immutable() {
    let of = |canary: Option<&str>, base: Option<&str>| {
        let mut annotations = json!({});
        for (key, value) in [(SIDECARSET_CANARY, canary), (SIDECARSET_BASE, base)] {
            if let Some(value) = value {
                annotations[key] = json!(value);
            }
        }
        set(
            &annotations,
            &json!({"updateStrategy": {"type": "NotUpdate"}}),
        )
    };
    for (old, new, expected) in [
        (
            of(Some("true"), Some("a")),
            of(Some("true"), Some("a")),
            vec![],
        ),
        (
            of(Some("true"), Some("a")),
            of(Some("true"), Some("b")),
            vec![BASE],
        ),
        (
            of(Some("true"), Some("a")),
            of(Some("true"), None),
            vec![BASE],
        ),
        (of(Some("true"), Some("a")), of(None, None), vec![]),
        (of(None, None), of(Some("true"), Some("a")), vec![BASE]),
        (of(None, None), of(None, Some("a")), vec![]),
        (of(None, Some("a")), of(Some("true"), Some("a")), vec![]),
    ] {
        let found: Vec<_> = new_violations(&new, Some(&old))
            .into_iter()
            .map(|found| found.field)
            .collect();
        assert_eq!(found, expected, "{old} {new}");
    }
    let found = new_violations(
        &of(Some("true"), Some("b")),
        Some(&of(Some("true"), Some("a"))),
    );
    assert_eq!(
        found.first().unwrap().to_string(),
        format!(
            "{BASE}: Invalid value: \"b\": cannot be changed, it was \"a\": take the change back, or create another canary"
        )
    );
}

#[test]
fn every_fault_of_the_spec_names_its_field() {
    let source = |path: &str| json!({"transferEnv": [{"sourceContainerNameFrom": {"fieldRef": {"fieldPath": path}}}]});
    let selector = json!({"matchLabels": {"a b": "ok"}});
    let object = set(
        &json!({}),
        &json!({
            "selector": selector, "namespaceSelector": selector,
            "updateStrategy": {
                "selector": selector,
                "priorityStrategy": {"orderPriority": [{"orderedKey": "a/b/c"}]},
                "scatterStrategy": [{"key": "a", "value": "*"}, {"key": "", "value": "a*"}],
            },
            "initContainers": [source("metadata.labels['a b']")],
            "containers": [
                source("metadata.annotations['Example.com/a']"), source("metadata.annotations['a/b/c']"),
                source("metadata.name"), source("metadata.labels['Example.com/a']"),
            ],
            "patchPodMetadata": [
                {"annotations": {"Example.com/A": "{", "a b": ""}},
                {"annotations": {"a": "{}", "b": "{"}, "patchPolicy": "MergePatchJson"},
                {"annotations": {"a": ""}},
            ],
        }),
    );
    let of = |containers: &str| {
        format!("spec.{containers}.transferEnv[0].sourceContainerNameFrom.fieldRef.fieldPath")
    };
    assert_eq!(
        fields(&object),
        [
            "spec.selector.matchLabels",
            "spec.namespaceSelector.matchLabels",
            "spec.updateStrategy.selector.matchLabels",
            "spec.updateStrategy.priorityStrategy.orderPriority[0].orderedKey",
            "spec.updateStrategy.scatterStrategy[1].key",
            "spec.updateStrategy.scatterStrategy[1].value",
            &of("initContainers[0]"),
            &of("containers[1]"),
            &of("containers[3]"),
            "spec.patchPodMetadata[0].annotations",
            "spec.patchPodMetadata[1].annotations[b]",
            "spec.patchPodMetadata[2].annotations",
        ]
    );
    assert_eq!(new_violations(&object, Some(&object)), []);
}

#[test]
fn what_is_merged_is_an_object_that_can_be_read() {
    let deep = |levels: usize| format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels));
    let (least, most) = (deep(100), deep(200));
    for (value, is_refused) in [
        ("{}", false),
        (" {\"a\": [1, -1, 1.5, null, true, \"b\", {}]}\n", false),
        (&least, false),
        (&most, true),
        (r#"{"a":1e999}"#, true),
        (r#"{"a":"\ud800"}"#, true),
        ("{", true),
        ("{} {}", true),
        ("", true),
        ("[]", true),
        ("\"text\"", true),
        ("5", true),
        ("null", true),
    ] {
        let of = |policy: &str| {
            set(
                &json!({}),
                &json!({"patchPodMetadata": [{"annotations": {"a": value}, "patchPolicy": policy}]}),
            )
        };
        let expected = is_refused.then_some("spec.patchPodMetadata[0].annotations[a]");
        assert_eq!(
            fields(&of("MergePatchJson")),
            Vec::from_iter(expected),
            "{value}"
        );
        assert_eq!(fields(&of("Overwrite")), Vec::<String>::new(), "{value}");
        let is_read = serde_json::from_str::<Value>(value).is_ok_and(|read| read.is_object());
        assert_eq!(is_read, !is_refused, "injection reads it so: {value}");
    }
}

#[test]
fn annotations_are_no_more_than_a_pod_can_have() {
    let of = |bytes: usize| {
        set(
            &json!({}),
            &json!({"patchPodMetadata": [{"annotations": {"a": "x".repeat(bytes)}}]}),
        )
    };
    assert_eq!(violations(&of(MOST_ANNOTATIONS - 1)), []);
    let found = violations(&of(MOST_ANNOTATIONS));
    assert!(
        found
            .first()
            .unwrap()
            .to_string()
            .starts_with("spec.patchPodMetadata: Invalid value: \"262145\"")
    );
}
