//! BroadcastJob: its columns, and the defaults and validation of its fields.

use kube::CustomResourceExt;
use serde_json::{Value, json};

use crate::conversion::Mapping;
use crate::kind::{Kind, read};
use crate::names::GROUP;
use crate::names::label::{BROADCASTJOB_CONTROLLER_UID, BROADCASTJOB_NAME};
use crate::schema::Schema;
use crate::schema::columns::Column;
use crate::schema::patch::Patch;
use crate::schema::rules::{at, check, int_or_percent, int32, rule};
use crate::v1beta1::broadcastjob::DEFAULT_PARALLELISM;
use crate::validation;
use crate::version::Version;
use crate::weight::Limits;
use crate::{v1alpha1, v1beta1};

/// BroadcastJob.
pub const BROADCAST_JOB: Kind = Kind {
    group: GROUP,
    kind: "BroadcastJob",
    plural: "broadcastjobs",
    namespaced: true,
    stored: Version::V1Beta1,
    older: &[Version::V1Alpha1],
    read: read::<v1beta1::BroadcastJob>,
    limits: Limits::of_specs,
    template: Some("spec.template"),
    owns: &["pods"],
    mapping: Mapping::SAME,
    faults: validation::of_broadcast_job,
    faults_of_change: |_, _| Vec::new(),
};

pub(super) const SCHEMA: Schema = Schema {
    versions: &[v1beta1::BroadcastJob::crd, v1alpha1::BroadcastJob::crd],
    rules,
    columns: COLUMNS,
};

const COLUMNS: &[Column] = &[
    Column::integer(
        "Desired",
        ".status.desired",
        "Nodes that get a pod, or have had it.",
    ),
    Column::integer("Active", ".status.active", "Pods that have not ended."),
    Column::integer(
        "Succeeded",
        ".status.succeeded",
        "Nodes whose pod has succeeded.",
    ),
    Column::integer("Failed", ".status.failed", "Nodes whose pod has failed."),
    Column::AGE,
    Column::BLOCKED,
];

/// The longest name: it is the value of a label of its pods.
const LONGEST_NAME: usize = 63;

fn rules(_: Version) -> Vec<Patch> {
    let never = "!has(self.type) || self.type != 'Never' || !(has(self.activeDeadlineSeconds) || has(self.ttlSecondsAfterFinished))";
    let never_message = "has type Never, which knows neither activeDeadlineSeconds nor ttlSecondsAfterFinished: remove them, or set type to Always";
    vec![
        at("", check(&[name()])),
        at("spec.parallelism", json!({"default": DEFAULT_PARALLELISM})),
        int_or_percent("spec.parallelism"),
        at("spec.template", template()),
        at("spec.completionPolicy", json!({"default": {}})),
        at(
            "spec.completionPolicy",
            check(&[json!({"rule": never, "message": never_message})]),
        ),
        at("spec.completionPolicy.type", json!({"default": "Always"})),
        int32("spec.completionPolicy.activeDeadlineSeconds", 1),
        int32("spec.completionPolicy.ttlSecondsAfterFinished", 0),
        at("spec.failurePolicy", json!({"default": {}})),
        at("spec.failurePolicy.type", json!({"default": "FailFast"})),
        int32("spec.failurePolicy.restartLimit", 0),
    ]
}

/// Pods are named after the job, and a label of theirs has its name.
fn name() -> Value {
    let valid = format!(
        "oldSelf.hasValue() || (size(self.metadata.name) <= {LONGEST_NAME} && !self.metadata.name.contains('.'))"
    );
    let message = format!(
        "'has the name \"%s\", but its pods have a label with it: use at most {LONGEST_NAME} of a-z, 0-9 and -'\
         .format([self.metadata.name])"
    );
    let mut rule = rule(valid, message);
    rule["optionalOldSelf"] = json!(true);
    rule
}

/// A template whose pods end.
fn template() -> Value {
    let labels = [BROADCASTJOB_NAME, BROADCASTJOB_CONTROLLER_UID];
    let preset: Vec<_> = labels
        .iter()
        .map(|label| format!("self[?'{label}'].orValue('') == ''"))
        .collect();
    let message = format!(
        "cannot have {} or {}, by which a job's pods are found: remove them",
        labels[0], labels[1]
    );
    json!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "required": ["spec"],
        "properties": {
            "metadata": {
                "description": "Labels and annotations of the pods.",
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": true,
                "properties": {"labels": {
                    "description": "Labels of the pods.",
                    "type": "object",
                    "additionalProperties": {"type": "string"},
                    "x-kubernetes-validations": [{"rule": preset.join(" && "), "message": message}],
                }},
            },
            "spec": {
                "description": "The pods' spec: see `kubectl explain pod.spec` for its fields, all of which may be used.",
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": true,
                "required": ["restartPolicy"],
                "properties": {"restartPolicy": {
                    "type": "string",
                    "description": "Never, or OnFailure. A job's pods are to end, so there is no other.",
                    "x-kubernetes-validations": [{
                        "rule": "self in ['Never', 'OnFailure']",
                        "messageExpression": "'is \"%s\", but the pods of a BroadcastJob are to end: set it to Never or OnFailure'.format([self])",
                    }],
                }},
            },
        },
    })
}
