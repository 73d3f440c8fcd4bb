//! The faults of SidecarSets that need no other object: keys of labels and annotations, and what annotations say.

use std::collections::BTreeSet;

use serde_json::Value;

use super::violations::{Violation, Violations, at, list};
use crate::name::is_dns_label;
use crate::names::annotation::{
    SIDECARSET_BASE, SIDECARSET_CANARY, SIDECARSET_FAILURE_POLICY, SIDECARSET_REPAIR,
};
use crate::text::Sound;

/// As much as Kubernetes takes of all annotations of an object, keys and values, in bytes.
const MOST_ANNOTATIONS: usize = 256 << 10;

/// The faults of a SidecarSet.
pub(crate) fn of_sidecar_set(object: &Value) -> Vec<Violation> {
    let mut found = Violations(Vec::new());
    annotations(object, &mut found);
    for selector in [
        "spec.selector",
        "spec.namespaceSelector",
        "spec.updateStrategy.selector",
    ] {
        found.selector(selector, at(object, selector));
    }
    found.priority("spec.updateStrategy.priorityStrategy", object);
    found.scatter("spec.updateStrategy.scatterStrategy", object, Some("*"));
    for containers in ["spec.initContainers", "spec.containers"] {
        for (index, container) in list(at(object, containers)) {
            sources(container, &format!("{containers}[{index}]"), &mut found);
        }
    }
    patches(object, &mut found);
    found.0
}

/// The base of a canary that was another before, or none.
pub(crate) fn base_changes(object: &Value, old: &Value) -> Option<Violation> {
    let (before, after) = (
        annotation(old, SIDECARSET_BASE),
        annotation(object, SIDECARSET_BASE),
    );
    if !is_canary(object) || before == after || after.is_none() {
        return None;
    }
    let message = match before {
        Some(before) => format!("cannot be changed, it was {before:?}: take the change back, or create another canary"),
        None => {
            "cannot be set later, for pods have what the SidecarSet was before: create another SidecarSet as canary"
                .to_owned()
        }
    };
    let mut found = Violations(Vec::new());
    found.add(&of(SIDECARSET_BASE), after.unwrap_or_default(), &message);
    found.0.pop()
}

fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    at(object, "metadata.annotations")?.get(key)?.as_str()
}

fn of(key: &str) -> String {
    format!("metadata.annotations[{key}]")
}

fn is_canary(object: &Value) -> bool {
    annotation(object, SIDECARSET_CANARY) == Some("true")
}

fn annotations(object: &Value, found: &mut Violations) {
    super::annotations(object, found);
    for (key, values, remedy) in [
        (
            SIDECARSET_CANARY,
            &["true", "false"][..],
            "use true, or remove it",
        ),
        (
            SIDECARSET_FAILURE_POLICY,
            &["Ignore", "Fail"],
            "use Fail for pods that are not created without the containers, or remove it",
        ),
        (
            SIDECARSET_REPAIR,
            &["None", "Missed", "All"],
            "use one of them, or remove it",
        ),
    ] {
        let value = annotation(object, key).unwrap_or(values[0]);
        if !values.contains(&value) {
            found.add(
                &of(key),
                value,
                &format!("is none of {}: {remedy}", values.join(", ")),
            );
        }
    }
    if is_canary(object) {
        canary(object, found);
    }
}

fn canary(object: &Value, found: &mut Violations) {
    let base = annotation(object, SIDECARSET_BASE).unwrap_or_default();
    let name = at(object, "metadata.name").and_then(Value::as_str);
    if !is_dns_label(base) {
        let message = "is no SidecarSet's name, but a canary stands before its base: set it to the name of the base, at most 63 of a-z, 0-9 \
                       and -, or remove the annotation that makes it a canary";
        found.add(&of(SIDECARSET_BASE), base, message);
    } else if name == Some(base) {
        let message = "is the canary itself: set it to the name of another SidecarSet";
        found.add(&of(SIDECARSET_BASE), base, message);
    }
    let update = "spec.updateStrategy.type";
    let value = at(object, update)
        .and_then(Value::as_str)
        .unwrap_or_default();
    if value != "NotUpdate" {
        let message = "updates pods that have the containers of the base: set it to NotUpdate, or remove the annotations that make it a canary";
        found.add(update, value, message);
    }
}

/// Labels and annotations of pods that name a container.
fn sources(container: &Value, field: &str, found: &mut Violations) {
    for (index, variable) in list(container.get("transferEnv")) {
        let path = at(variable, "sourceContainerNameFrom.fieldRef.fieldPath")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let field =
            format!("{field}.transferEnv[{index}].sourceContainerNameFrom.fieldRef.fieldPath");
        let key = |before: &str| {
            path.strip_prefix(before)?
                .strip_prefix("['")?
                .strip_suffix("']")
        };
        // What has another form is the schema's matter.
        if let Some(key) = key("metadata.labels") {
            found.key(&field, key);
        } else if let Some(key) = key("metadata.annotations") {
            found.annotation_key(&field, key);
        }
    }
}

fn patches(object: &Value, found: &mut Violations) {
    let field = "spec.patchPodMetadata";
    let (mut size, mut keys) = (0, BTreeSet::new());
    for (index, patch) in list(at(object, field)) {
        let annotations = patch.get("annotations").and_then(Value::as_object);
        for (key, value) in annotations.into_iter().flatten() {
            size += key.len() + value.as_str().unwrap_or_default().len();
            found.annotation_key(&format!("{field}[{index}].annotations"), key);
            if !keys.insert(key) {
                let message =
                    "is there twice, and which one would count is not said: remove one of them";
                found.add(&format!("{field}[{index}].annotations"), key, message);
            }
            if patch.get("patchPolicy").and_then(Value::as_str) == Some("MergePatchJson") {
                merged(
                    value.as_str().unwrap_or_default(),
                    &format!("{field}[{index}].annotations[{key}]"),
                    found,
                );
            }
        }
    }
    if size > MOST_ANNOTATIONS {
        let message = format!(
            "bytes of annotations are more than a pod can have, {MOST_ANNOTATIONS} in all: shorten or remove some"
        );
        found.add(field, &size.to_string(), &message);
    }
}

fn merged(value: &str, field: &str, found: &mut Violations) {
    let is_object =
        value.trim_start().starts_with('{') && serde_json::from_str::<Sound>(value).is_ok();
    if !is_object {
        let message = "is no JSON object, but MergePatchJson merges it into that of a pod: correct it, or set patchPolicy to Retain or Overwrite";
        found.add(field, value, message);
    }
}

impl Violations {
    /// Kubernetes takes an annotation's key for one of a label, whatever its case.
    fn annotation_key(&mut self, field: &str, key: &str) {
        let before = self.0.len();
        self.key(field, &key.to_ascii_lowercase());
        for violation in self.0.iter_mut().skip(before) {
            key.clone_into(&mut violation.value);
            violation.message = violation.message.replace("label key", "annotation's key");
        }
    }
}

#[cfg(test)]
mod tests {
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
    fn annotations_say_what_they_can_say() {
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
    fn the_base_of_a_canary_stays() {
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
}
