//! The faults of SidecarSets that need no other object: keys of labels and annotations, and values
//! of annotations.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::name::is_dns_label;
use crate::names::annotation::{
    SIDECARSET_BASE, SIDECARSET_CANARY, SIDECARSET_FAILURE_POLICY, SIDECARSET_REPAIR,
};
use crate::text::Sound;
use crate::validation::violations::{Violation, Violations, at, list};

/// Kubernetes' limit for all annotations of an object, keys and values, in bytes.
const MOST_ANNOTATIONS: usize = 256 << 10;

/// The faults of a SidecarSet.
pub(crate) fn faults(object: &Value) -> Vec<Violation> {
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

/// The fault of a canary whose base is changed or set after its creation.
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
    crate::validation::annotations(object, found);
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

/// Faults in labels and annotations of pods that name a container.
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
        // The schema refuses other forms.
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
    /// Kubernetes validates an annotation's key like a label's key, but ignores its case.
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
mod tests;
