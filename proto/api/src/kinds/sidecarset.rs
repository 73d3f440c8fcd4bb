//! SidecarSet: its columns, and the defaults and validation of its fields.

mod containers;

use kube::CustomResourceExt;
use serde_json::{Value, json};

use self::containers::{IS_DNS_LABEL, NAME, by_name, dns_label};
use crate::conversion;
use crate::kind::{Kind, read};
use crate::names::GROUP;
use crate::names::label::NAMESPACE_NAME;
use crate::schema::Schema;
use crate::schema::columns::Column;
use crate::schema::patch::Patch;
use crate::schema::rules::{
    DNS_SUBDOMAIN, LABEL_KEY, LABEL_VALUE, at, check, int_or_percent, label_selector, not_empty,
    reported_at, rule, unless_unchanged,
};
use crate::v1beta1::cloneset::{DEFAULT_REVISION_HISTORY_LIMIT, MAX_REVISION_HISTORY_LIMIT};
use crate::validation;
use crate::version::Version;
use crate::weight::Limits;
use crate::{v1alpha1, v1beta1};

/// SidecarSet.
pub const SIDECAR_SET: Kind = Kind {
    group: GROUP,
    kind: "SidecarSet",
    plural: "sidecarsets",
    namespaced: false,
    stored: Version::V1Beta1,
    older: &[Version::V1Alpha1],
    read: read::<v1beta1::SidecarSet>,
    limits: Limits::of_specs,
    template: None,
    owns: &["controllerrevisions", "imagepulljobs"],
    mapping: conversion::sidecarset::MAPPING,
    faults: validation::of_sidecar_set,
    faults_of_change: |object, old| validation::base_changes(object, old).into_iter().collect(),
};

pub(super) const SCHEMA: Schema = Schema {
    versions: &[v1beta1::SidecarSet::crd, v1alpha1::SidecarSet::crd],
    patches: rules,
    columns: COLUMNS,
};

const COLUMNS: &[Column] = &[
    Column::integer(
        "MATCHED",
        ".status.matchedPods",
        "Pods that are selected and have the containers.",
    ),
    Column::integer(
        "UPDATED",
        ".status.updatedPods",
        "Pods that have the latest containers.",
    ),
    Column::integer("READY", ".status.readyPods", "Pods that are ready."),
    Column::AGE,
];

/// The most volumes.
const MOST_VOLUMES: u32 = 128;
/// The most secrets.
const MOST_SECRETS: u32 = 64;
/// The most entries of `patchPodMetadata`, and of annotations in each.
const MOST_PATCHES: u32 = 32;
const MOST_ANNOTATIONS: u32 = 64;
/// As much as Kubernetes takes of all annotations of a pod.
const ANNOTATIONS: u32 = 256 << 10;
/// The longest message of a condition, as Kubernetes' own conditions have it.
const CONDITION_MESSAGE: u32 = 32_768;

fn rules(version: Version) -> Vec<Patch> {
    let mut of_spec = vec![
        has_selector(),
        containers::some(),
        containers::named_once(),
        containers::free_names(),
    ];
    of_spec.push(containers::none_added());
    let mut rules = vec![
        at("", check(&[name()])),
        at(
            "spec.revisionHistoryLimit",
            json!({"default": DEFAULT_REVISION_HISTORY_LIMIT}),
        ),
        at(
            "spec.revisionHistoryLimit",
            json!({"minimum": 0, "maximum": MAX_REVISION_HISTORY_LIMIT}),
        ),
        at("spec.volumes", by_name(MOST_VOLUMES)),
        at("spec.volumes", json!({"items": volume()})),
        at("spec.imagePullSecrets", json!({"maxItems": MOST_SECRETS})),
        at(
            "spec.imagePullSecrets[].name",
            json!({"minLength": 1, "maxLength": 253, "pattern": DNS_SUBDOMAIN}),
        ),
        at(
            "spec.imagePullSecrets[].name",
            json!({"description": "The secret's name."}),
        ),
    ];
    rules.extend(label_selector("spec.selector"));
    rules.push(at("spec.selector", check(&[not_empty(EVERYTHING)])));
    rules.extend(label_selector("spec.namespaceSelector"));
    rules.push(at(
        "spec.namespaceSelector",
        check(&[not_empty(EVERYWHERE)]),
    ));
    rules.extend(containers::rules());
    rules.extend(update());
    rules.extend(injection());
    rules.extend(metadata());
    rules.extend(status());
    if version == Version::V1Alpha1 {
        of_spec.push(one_namespace());
        rules.push(at("spec.namespace", json!({"maxLength": NAME})));
        rules.push(at("spec.namespace", check(&[namespace()])));
    } else {
        rules.push(at("spec.customVersion", json!({"maxLength": LABEL_VALUE})));
        rules.push(at("spec.customVersion", check(&[label_value()])));
    }
    rules.push(at("spec", check(&of_spec)));
    rules
}

const EVERYTHING: &str = "is empty and would select every pod: set matchLabels or matchExpressions";
const EVERYWHERE: &str =
    "is empty: set matchLabels or matchExpressions, or remove it for pods of all namespaces";

fn volume() -> Value {
    json!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "required": ["name"],
        "properties": {"name": {
            "type": "string", "maxLength": NAME, "description": "The name that containers mount the volume by.",
            "x-kubernetes-validations": [dns_label("the name of a volume")],
        }},
    })
}

/// Revisions have it as a label, and it has no dot, as OpenKruise's.
fn name() -> Value {
    let valid = format!(
        "oldSelf.hasValue() || (size(self.metadata.name) <= {NAME} && !self.metadata.name.contains('.'))"
    );
    let message = format!(
        "'has the name \"%s\", but labels of its revisions are made from it: use at most {NAME} of a-z, 0-9 and -'\
         .format([self.metadata.name])"
    );
    let mut rule = rule(valid, message);
    rule["optionalOldSelf"] = json!(true);
    rule
}

fn has_selector() -> Value {
    let message = "is missing, so that it is not said which pods get the containers: set matchLabels or matchExpressions";
    let rule = reported_at(
        ".selector",
        json!({"rule": "has(self.selector)", "message": message}),
    );
    unless_unchanged(&["selector"], rule)
}

/// A namespace selector of the form that a namespace becomes in v1beta1 is there when a manifest is applied again, and yields.
fn one_namespace() -> Value {
    let labels = "self.namespaceSelector.matchLabels";
    let converted = format!(
        "has({labels}) && size({labels}) == 1 && '{NAMESPACE_NAME}' in {labels} && \
         (!has(self.namespaceSelector.matchExpressions) || size(self.namespaceSelector.matchExpressions) == 0)"
    );
    let valid = format!(
        "!has(self.namespace) || self.namespace == '' || !has(self.namespaceSelector) || ({converted})"
    );
    let message = "'is \"%s\", but namespaceSelector is set, too: remove one of them'.format([self.namespace])";
    unless_unchanged(
        &["namespace", "namespaceSelector"],
        reported_at(".namespace", rule(valid, message)),
    )
}

fn namespace() -> Value {
    let mut rule = dns_label("the name of a namespace");
    rule["rule"] = json!(format!("self == '' || {IS_DNS_LABEL}"));
    rule
}

fn label_value() -> Value {
    let message = "'is \"%s\", but a label of the revision has it: use at most 63 of letters, digits, -, _ and ., with a letter or digit at \
                   both ends'.format([self])";
    rule(
        "self == '' || self.matches('^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')",
        message,
    )
}

/// How a change reaches pods.
fn update() -> Vec<Patch> {
    let update = "spec.updateStrategy";
    let mut rules = vec![
        at(update, json!({"default": {}})),
        at(
            format!("{update}.type"),
            json!({"default": "RollingUpdate"}),
        ),
        at(format!("{update}.partition"), json!({"default": 0})),
        int_or_percent(format!("{update}.partition")),
        at(format!("{update}.maxUnavailable"), json!({"default": 1})),
        int_or_percent(format!("{update}.maxUnavailable")),
        at(update, check(&[selected_or_kept_back()])),
        at(
            format!("{update}.scatterStrategy"),
            json!({"maxItems": 100, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["key", "value"]}),
        ),
        at(
            format!("{update}.scatterStrategy[].key"),
            json!({"minLength": 1, "maxLength": LABEL_KEY}),
        ),
        at(
            format!("{update}.scatterStrategy[].value"),
            json!({"maxLength": LABEL_VALUE}),
        ),
    ];
    rules.extend(label_selector(&format!("{update}.selector")));
    let message = "is empty: set matchLabels or matchExpressions, or remove it";
    rules.push(at(
        format!("{update}.selector"),
        check(&[not_empty(message)]),
    ));
    rules
}

/// A percentage is said by somebody, 0 is what is filled in.
fn selected_or_kept_back() -> Value {
    let valid = "!has(self.selector) || !has(self.partition) || (type(self.partition) == int && self.partition == 0) || \
                 (has(self.type) && self.type == 'NotUpdate')";
    let message = "'is \"%s\", but selector says already which pods are updated: remove one of them'.format([self.partition])";
    reported_at(".partition", rule(valid, message))
}

/// What pods get when they are created.
fn injection() -> Vec<Patch> {
    let revision = "spec.injectionStrategy.revision";
    let named = json!({
        "rule": "has(self.revisionName) || has(self.customVersion)",
        "message": "names no revision: set revisionName or customVersion, or remove it for the latest",
    });
    vec![
        at(revision, check(&[named])),
        at(format!("{revision}.policy"), json!({"default": "Always"})),
        at(
            format!("{revision}.revisionName"),
            json!({"minLength": 1, "maxLength": 253, "pattern": DNS_SUBDOMAIN}),
        ),
        at(
            format!("{revision}.customVersion"),
            json!({"minLength": 1, "maxLength": LABEL_VALUE}),
        ),
        at(format!("{revision}.customVersion"), check(&[label_value()])),
    ]
}

/// Annotations that pods get. That none is there twice a webhook says, for a rule could not name it: a map's keys are of any length.
fn metadata() -> Vec<Patch> {
    let patches = "spec.patchPodMetadata";
    vec![
        at(patches, json!({"maxItems": MOST_PATCHES})),
        at(format!("{patches}[]"), json!({"required": ["annotations"]})),
        at(
            format!("{patches}[].patchPolicy"),
            json!({"default": "Retain"}),
        ),
        at(
            format!("{patches}[].annotations"),
            json!({
                "minProperties": 1, "maxProperties": MOST_ANNOTATIONS,
                "additionalProperties": {"type": "string", "maxLength": ANNOTATIONS},
            }),
        ),
    ]
}

fn status() -> Vec<Patch> {
    let conditions = "status.conditions";
    vec![
        at(
            "status",
            json!({"required": ["matchedPods", "readyPods", "updatedPods"]}),
        ),
        at("status.latestRevision", json!({"maxLength": 253})),
        at(
            conditions,
            json!({"maxItems": 16, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}),
        ),
        at(format!("{conditions}[].type"), json!({"maxLength": 253})),
        at(format!("{conditions}[].status"), json!({"maxLength": 253})),
        at(format!("{conditions}[].reason"), json!({"maxLength": 1024})),
        at(
            format!("{conditions}[].message"),
            json!({"maxLength": CONDITION_MESSAGE}),
        ),
    ]
}
