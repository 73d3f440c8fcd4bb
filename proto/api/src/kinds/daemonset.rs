//! Advanced DaemonSet: its columns, and the defaults and validation of its fields.

use kube::CustomResourceExt;
use serde_json::{Value, json};

use crate::conversion;
use crate::kind::{Kind, read};
use crate::names::GROUP;
use crate::schema::columns::Column;
use crate::schema::patch::Patch;
use crate::schema::rules::{
    PERCENT, at, check, int_or_percent, int32, is_zero, label_selector, reported_at, rule,
};
use crate::schema::{Schema, pods, template};
use crate::v1beta1::cloneset::{DEFAULT_REVISION_HISTORY_LIMIT, MAX_REVISION_HISTORY_LIMIT};
use crate::v1beta1::daemonset::DEFAULT_BURST_REPLICAS;
use crate::validation;
use crate::version::Version;
use crate::weight::Limits;
use crate::{v1alpha1, v1beta1};

/// Advanced DaemonSet.
pub const DAEMON_SET: Kind = Kind {
    group: GROUP,
    kind: "DaemonSet",
    plural: "daemonsets",
    namespaced: true,
    stored: Version::V1Beta1,
    older: &[Version::V1Alpha1],
    read: read::<v1beta1::DaemonSet>,
    limits: Limits::of_specs,
    template: Some("spec.template"),
    owns: &["pods", "controllerrevisions", "imagepulljobs"],
    mapping: conversion::daemonset::MAPPING,
    faults: validation::of_daemon_set,
    faults_of_change: |_, _| Vec::new(),
};

pub(super) const SCHEMA: Schema = Schema {
    versions: &[v1beta1::DaemonSet::crd, v1alpha1::DaemonSet::crd],
    rules,
    columns: COLUMNS,
};

const COLUMNS: &[Column] = &[
    Column::integer(
        "DESIRED",
        ".status.desiredNumberScheduled",
        "Nodes that shall have a pod.",
    ),
    Column::integer(
        "CURRENT",
        ".status.currentNumberScheduled",
        "Those of them that have one.",
    ),
    Column::integer(
        "READY",
        ".status.numberReady",
        "Those of them that have a ready one.",
    ),
    Column::integer(
        "UP-TO-DATE",
        ".status.updatedNumberScheduled",
        "Those of them that have one of the update revision.",
    ),
    Column::integer(
        "AVAILABLE",
        ".status.numberAvailable",
        "Those of them that have an available one.",
    ),
    Column::AGE,
    Column::string(
        "CONTAINERS",
        ".spec.template.spec.containers[*].name",
        "The template's containers.",
    )
    .wide(),
    Column::string(
        "IMAGES",
        ".spec.template.spec.containers[*].image",
        "The template's images.",
    )
    .wide(),
    Column::BLOCKED,
];

/// The longest name: with a dash and ten characters behind it, it is the name of a revision.
const LONGEST_NAME: usize = 242;
const ROLLING: &str = "spec.updateStrategy.rollingUpdate";

fn rules(version: Version) -> Vec<Patch> {
    let mut rules = vec![
        at("", check(&[name()])),
        at("spec.template", template::pod("DaemonSet")),
        int32("spec.minReadySeconds", 0),
        at(
            "spec.burstReplicas",
            json!({"default": DEFAULT_BURST_REPLICAS}),
        ),
        int_or_percent("spec.burstReplicas"),
        at(
            "spec.burstReplicas",
            check(&[more_than_none("self", "creates and deletes no pod")]),
        ),
        at(
            "spec.revisionHistoryLimit",
            json!({"default": DEFAULT_REVISION_HISTORY_LIMIT}),
        ),
        at(
            "spec.revisionHistoryLimit",
            json!({"minimum": 0, "maximum": MAX_REVISION_HISTORY_LIMIT}),
        ),
        at("spec.updateStrategy", json!({"default": {}})),
        at(
            "spec.updateStrategy.type",
            json!({"default": "RollingUpdate"}),
        ),
        at(ROLLING, json!({"default": {}})),
        at(
            format!("{ROLLING}.rollingUpdateType"),
            json!({"default": "Standard"}),
        ),
        at(format!("{ROLLING}.partition"), json!({"default": 0})),
        at(format!("{ROLLING}.paused"), json!({"default": false})),
        at("spec.lifecycle", check(&[no_hook_of_updates()])),
        at("spec.updateStrategy", check(&ways(version))),
        at(
            "status",
            json!({"required": ["currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady",
                                "updatedNumberScheduled"]}),
        ),
    ];
    for field in ["maxUnavailable", "maxSurge", "partition"] {
        rules.push(int_or_percent(format!("{ROLLING}.{field}")));
    }
    for field in ["maxUnavailable", "maxSurge"] {
        rules.push(at(format!("{ROLLING}.{field}"), check(&[not_above_all()])));
    }
    rules.extend(label_selector(&format!("{ROLLING}.selector")));
    rules.extend(pods::hooks());
    rules.extend(pods::selector("DaemonSet"));
    rules
}

/// Pods and revisions are named after the DaemonSet.
fn name() -> Value {
    let valid = format!("oldSelf.hasValue() || size(self.metadata.name) <= {LONGEST_NAME}");
    let message = format!(
        "'has a name of %d characters, but its revisions have longer ones made from it: use at most {LONGEST_NAME}'\
         .format([size(self.metadata.name)])"
    );
    let mut rule = rule(valid, message);
    rule["optionalOldSelf"] = json!(true);
    rule
}

fn more_than_none(field: &str, what: &str) -> Value {
    rule(
        format!("!{}", is_zero(field)),
        format!(
            "'is \"%s\", which {what}: set it to at least 1, or to a percentage'.format([{field}])"
        ),
    )
}

fn not_above_all() -> Value {
    let valid = format!(
        "type(self) == int || !self.matches('{PERCENT}') || double(self.replace('%', '')) <= 100.0"
    );
    rule(
        valid,
        "'is \"%s\", but there are no more than all nodes: use at most \"100%%\"'.format([self])",
    )
}

/// An expression: is a field of the rolling update above 0? Absent it is not.
fn is_positive(field: &str) -> String {
    let path = format!("self.rollingUpdate.{field}");
    format!("(has({path}) && !{})", is_zero(&path))
}

/// How pods are updated: exactly one of two numbers is above 0.
fn ways(version: Version) -> Vec<Value> {
    let mut rules = vec![some_way(version), one_way(), in_place_without_surge()];
    if version == Version::V1Alpha1 {
        rules.extend(surging());
    }
    rules
}

/// What is filled in where neither number is given is 1 and 0; beside the other an absent one is 0. For Surging see [`surging`].
fn some_way(version: Version) -> Value {
    let given = |field: &str| format!("has(self.rollingUpdate.{field})");
    let surging = match version {
        Version::V1Alpha1 => "self.rollingUpdate.rollingUpdateType == 'Surging' || ",
        Version::V1Beta1 => "",
    };
    let valid = format!(
        "!has(self.rollingUpdate) || {surging}(!{} && !{}) || {} || {}",
        given("maxUnavailable"),
        given("maxSurge"),
        is_positive("maxUnavailable"),
        is_positive("maxSurge"),
    );
    let message = "is 0 or absent and maxSurge is, too, which leaves no way to update a pod: set one of them to at least 1";
    reported_at(
        ".rollingUpdate.maxUnavailable",
        json!({"rule": valid, "message": message}),
    )
}

/// Surging fills in maxSurge 1 and maxUnavailable 0, each where it is absent, whatever the other is.
fn surging() -> [Value; 2] {
    let valid = |ok: &str| {
        format!(
            "!has(self.rollingUpdate) || self.rollingUpdate.rollingUpdateType != 'Surging' || {ok}"
        )
    };
    let message = |field: &str, problem: &str| {
        format!("'is \"%s\", {problem}'.format([self.rollingUpdate.{field}])")
    };
    let unavailable = rule(
        valid(&format!("!{}", is_positive("maxUnavailable"))),
        message(
            "maxUnavailable",
            "but with rollingUpdateType Surging no old pod goes before the new one is there: set it to 0 or remove it, or set \
             rollingUpdateType to Standard",
        ),
    );
    let surge = rule(
        valid(&format!(
            "!has(self.rollingUpdate.maxSurge) || !{}",
            is_zero("self.rollingUpdate.maxSurge")
        )),
        message(
            "maxSurge",
            "which with rollingUpdateType Surging leaves no way to update a pod: set it to at least 1 or remove it",
        ),
    );
    [
        reported_at(".rollingUpdate.maxUnavailable", unavailable),
        reported_at(".rollingUpdate.maxSurge", surge),
    ]
}

/// Nobody would wait for it. preNormal, which is not heeded either, is taken as OpenKruise takes it: the chart's policy warns.
fn no_hook_of_updates() -> Value {
    let message = "is set, but no update of a DaemonSet's pods waits for a hook: remove it, preDelete is the one that is heeded";
    reported_at(
        ".inPlaceUpdate",
        json!({"rule": "!has(self.inPlaceUpdate)", "message": message}),
    )
}

/// A node has its old pod gone first, or its new one there first.
fn one_way() -> Value {
    let both = format!(
        "{} && {}",
        is_positive("maxUnavailable"),
        is_positive("maxSurge")
    );
    let valid = format!("!has(self.rollingUpdate) || !({both})");
    let message = "is above 0 and so is maxUnavailable: set one of them to 0";
    reported_at(
        ".rollingUpdate.maxSurge",
        json!({"rule": valid, "message": message}),
    )
}

fn in_place_without_surge() -> Value {
    let valid = format!(
        "!has(self.rollingUpdate) || self.rollingUpdate.rollingUpdateType != 'InPlaceIfPossible' || !{}",
        is_positive("maxSurge")
    );
    let message = "is above 0, but in place no second pod is made: set it to 0, or rollingUpdateType to Standard";
    reported_at(
        ".rollingUpdate.maxSurge",
        json!({"rule": valid, "message": message}),
    )
}
