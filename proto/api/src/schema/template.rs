//! The schema of templates: every field is kept, the few that rules and columns look at are named.

use schemars::{Schema, json_schema};
use serde_json::{Value, json};

use super::rules::rule;
use crate::names::annotation::RESTARTED_AT;

/// The pod template of a kind.
pub(crate) fn pod(kind: &str) -> Value {
    let strings = |description: &str| json!({"description": description, "type": "object", "additionalProperties": {"type": "string"}});
    let containers = |description: &str| {
        json!({
            "description": description,
            "type": "array",
            "items": {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": true,
                "properties": {
                    "name": {"type": "string", "description": "The container's name, unique in the pod."},
                    "image": {"type": "string", "description": "The container's image."},
                },
            },
        })
    };
    let mut annotations = strings(&format!(
        "Annotations of the pods. A change can be made in place. Another time in {RESTARTED_AT} restarts their containers in place."
    ));
    annotations["x-kubernetes-validations"] = json!([restarted_at()]);
    json!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "metadata": {
                "description": "Labels and annotations of the pods.",
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": true,
                "properties": {
                    "labels": strings("Labels of the pods. They must match the selector. A change can be made in place."),
                    "annotations": annotations,
                },
            },
            "spec": {
                "description": "The pods' spec: see `kubectl explain pod.spec` for its fields, all of which may be used.",
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": true,
                "properties": {
                    "restartPolicy": {
                        "type": "string",
                        "description": format!("Always; a {kind} knows no other."),
                        "x-kubernetes-validations": [{
                            "rule": "self == 'Always'",
                            "messageExpression": format!("'is \"%s\", but the pods of a {kind} must restart: set it to Always or remove it'.format([self])"),
                        }],
                    },
                    "activeDeadlineSeconds": {
                        "type": "integer", "format": "int64",
                        "description": format!("Cannot be used: the pods of a {kind} are meant to stay."),
                        "x-kubernetes-validations": [{
                            "rule": "false",
                            "message": format!("cannot be used, the pods of a {kind} are meant to stay: remove it"),
                        }],
                    },
                    "containers": containers("See `kubectl explain pod.spec.containers`. A change of images alone can be made in place."),
                    "initContainers": containers("See `kubectl explain pod.spec.initContainers`. A change replaces pods."),
                },
            },
        },
    })
}

/// The most characters of a time.
const LONGEST_TIME: usize = 64;

/// The rule for the restart annotation. An old value is accepted, because any value can tell two
/// templates apart.
fn restarted_at() -> Value {
    let value = format!("self['{RESTARTED_AT}']");
    let is_there = |of: &str| format!("'{RESTARTED_AT}' in {of}");
    let is_old = format!(
        "(oldSelf.hasValue() && {} && oldSelf.value()['{RESTARTED_AT}'] == {value})",
        is_there("oldSelf.value()")
    );
    // The server estimates that a longer pattern on a text of any length is too costly, and refuses
    // it.
    let form = r"r'^\d{4}-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-6]\d([.]\d+)?(Z|[+-][0-2]\d:[0-5]\d)$'";
    let is_time = format!("(size({value}) <= {LONGEST_TIME} && {value}.matches({form}))");
    let valid = format!("!({}) || {is_old} || {is_time}", is_there("self"));
    let message = format!(
        "'{RESTARTED_AT} is \"%s\", but must be a time of at most {LONGEST_TIME} characters as of RFC 3339: write it like \"2026-11-26T12:00:00Z\"'\
         .format([size({value}) > {LONGEST_TIME} ? {value}.substring(0, {LONGEST_TIME}) + '...' : {value}])"
    );
    let mut rule = rule(valid, message);
    rule["optionalOldSelf"] = json!(true);
    rule
}

/// A claim template.
pub(crate) fn claim() -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "metadata": {
                "description": "The name that pods mount the claim by, and labels and annotations of the claims.",
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": true,
                "required": ["name"],
                "properties": {
                    "name": {
                        "type": "string",
                        "description": "The name that pods mount the claim by.",
                        "maxLength": 63,
                        "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
                    },
                },
            },
            "spec": {
                "description": "The claims' spec: see `kubectl explain pvc.spec` for its fields, all of which may be used.",
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": true,
                "required": ["accessModes", "resources"],
                "properties": {
                    "accessModes": {
                        "description": "How nodes may mount the volume, ReadWriteOnce for one.",
                        "type": "array", "minItems": 1, "items": {"type": "string"},
                    },
                    "resources": {
                        "description": "How large the volume is.",
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": true,
                        "required": ["requests"],
                        "properties": {"requests": {
                            "description": "At the least so much: storage, 10Gi for one.",
                            "type": "object",
                            "x-kubernetes-preserve-unknown-fields": true,
                            "required": ["storage"],
                        }},
                    },
                },
            },
        },
        "required": ["metadata", "spec"],
    })
}
