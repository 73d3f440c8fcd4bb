//! CloneSet: its columns, and the defaults and validation of its fields.

use kube::CustomResourceExt;
use serde_json::{Value, json};

use crate::conversion;
use crate::kind::{Kind, read};
use crate::names::GROUP;
use crate::schema::columns::Column;
use crate::schema::patch::Patch;
use crate::schema::rules::{
    LABEL_KEY, at, check, int_or_percent, int32, is_zero, reported_at, rule, unless_unchanged,
};
use crate::schema::{Schema, pods, template};
use crate::v1beta1::cloneset::{
    DEFAULT_MAX_UNAVAILABLE, DEFAULT_REVISION_HISTORY_LIMIT, MAX_REVISION_HISTORY_LIMIT,
};
use crate::validation;
use crate::version::Version;
use crate::weight::Limits;
use crate::{v1alpha1, v1beta1};

/// CloneSet.
pub const CLONE_SET: Kind = Kind {
    group: GROUP,
    kind: "CloneSet",
    plural: "clonesets",
    namespaced: true,
    stored: Version::V1Beta1,
    older: &[Version::V1Alpha1],
    read: read::<v1beta1::CloneSet>,
    limits: Limits::of_specs,
    template: Some("spec.template"),
    owns: &[
        "pods",
        "persistentvolumeclaims",
        "controllerrevisions",
        "imagepulljobs",
    ],
    mapping: conversion::cloneset::MAPPING,
    faults: validation::of_clone_set,
    faults_of_change: |_, _| Vec::new(),
};

pub(super) const SCHEMA: Schema = Schema {
    versions: &[v1beta1::CloneSet::crd, v1alpha1::CloneSet::crd],
    rules,
    columns: COLUMNS,
};

const COLUMNS: &[Column] = &[
    Column::integer("DESIRED", ".spec.replicas", "Pods that are wanted."),
    Column::integer(
        "UPDATED",
        ".status.updatedReplicas",
        "Pods of the update revision.",
    ),
    Column::integer(
        "UPDATED_READY",
        ".status.updatedReadyReplicas",
        "Pods of the update revision that are ready.",
    ),
    Column::integer(
        "UPDATED_AVAILABLE",
        ".status.updatedAvailableReplicas",
        "Pods of the update revision that are available.",
    ),
    Column::integer("READY", ".status.readyReplicas", "Pods that are ready."),
    Column::integer("TOTAL", ".status.replicas", "Pods that exist."),
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
    Column::string(
        "SELECTOR",
        ".status.labelSelector",
        "The selector of the pods.",
    )
    .wide(),
    Column::BLOCKED,
];

fn rules(version: Version) -> Vec<Patch> {
    let alpha = version == Version::V1Alpha1;
    let update = if alpha {
        "spec.updateStrategy"
    } else {
        "spec.updateStrategy.rollingUpdate"
    };
    let mut rules = vec![
        at("spec.replicas", json!({"default": 1})),
        int32("spec.replicas", 0),
        at(
            "spec.revisionHistoryLimit",
            json!({"default": DEFAULT_REVISION_HISTORY_LIMIT}),
        ),
        at(
            "spec.revisionHistoryLimit",
            json!({"minimum": 0, "maximum": MAX_REVISION_HISTORY_LIMIT}),
        ),
        int32("spec.minReadySeconds", 0),
        int32("spec.progressDeadlineSeconds", 1),
        at("spec.template", template::pod("CloneSet")),
        at("spec.volumeClaimTemplates[]", template::claim()),
        at("spec.scaleStrategy", json!({"default": {}})),
        at(
            "spec.scaleStrategy.podsToDelete",
            json!({"x-kubernetes-list-type": "set", "items": {"type": "string", "minLength": 1, "maxLength": 253}}),
        ),
        int_or_percent("spec.scaleStrategy.maxUnavailable"),
        at("spec.updateStrategy", json!({"default": {}})),
        at(format!("{update}.partition"), json!({"default": 0})),
        int_or_percent(format!("{update}.partition")),
        at(
            format!("{update}.maxUnavailable"),
            json!({"default": DEFAULT_MAX_UNAVAILABLE}),
        ),
        int_or_percent(format!("{update}.maxUnavailable")),
        at(format!("{update}.maxSurge"), json!({"default": 0})),
        int_or_percent(format!("{update}.maxSurge")),
        int_or_percent(format!(
            "{update}.inPlaceUpdateStrategy.imagePreDownloadParallelism"
        )),
        int32(
            format!("{update}.inPlaceUpdateStrategy.gracePeriodSeconds"),
            0,
        ),
        int32(
            format!("{update}.inPlaceUpdateStrategy.imagePreDownloadTimeoutSeconds"),
            0,
        ),
        int32(
            format!("{update}.inPlaceUpdateStrategy.imagePreDownloadMinUpdatedReadyPods"),
            0,
        ),
        at(
            "status",
            json!({"required": ["availableReplicas", "readyReplicas", "replicas", "updatedReadyReplicas", "updatedReplicas"]}),
        ),
    ];
    if alpha {
        rules.push(at(
            "spec.scaleStrategy.disablePVCReuse",
            json!({"default": false}),
        ));
        rules.push(at(format!("{update}.type"), json!({"default": "ReCreate"})));
        rules.push(at(update, check(&[surge_in_place("type")])));
    } else {
        rules.push(at(
            "spec.scaleStrategy.enablePVCReuse",
            json!({"default": false}),
        ));
        rules.push(at(
            "spec.scaleStrategy.excludePreparingDelete",
            json!({"default": false}),
        ));
        rules.push(at(
            "spec.updateStrategy.type",
            json!({"default": "RollingUpdate"}),
        ));
        rules.push(at(update, json!({"default": {}})));
        rules.push(at(
            format!("{update}.podUpdatePolicy"),
            json!({"default": "ReCreate"}),
        ));
        rules.push(at(update, check(&[surge_in_place("podUpdatePolicy")])));
    }
    rules.extend(pods::hooks());
    rules.extend(pods::selector("CloneSet"));
    rules.extend(pods::priority(&format!("{update}.priorityStrategy")));
    rules.push(at(
        format!("{update}.scatterStrategy"),
        json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["key", "value"]}),
    ));
    rules.push(at(
        format!("{update}.scatterStrategy[].key"),
        json!({"minLength": 1, "maxLength": LABEL_KEY}),
    ));
    let limits = if alpha {
        "updateStrategy"
    } else {
        "updateStrategy.rollingUpdate"
    };
    rules.push(at(
        "spec",
        check(&[
            unless_unchanged(
                &[
                    "replicas",
                    &format!("{limits}.maxUnavailable"),
                    &format!("{limits}.maxSurge"),
                    "updateStrategy.type",
                ],
                no_way_to_update(alpha),
            ),
            unless_unchanged(
                &["minReadySeconds", "progressDeadlineSeconds"],
                deadline_after_ready(),
            ),
        ]),
    ));
    rules
}

/// InPlaceOnly never replaces pods, so an update needs none beyond the replicas.
fn surge_in_place(policy: &str) -> Value {
    let valid = format!(
        "!has(self.{policy}) || self.{policy} != 'InPlaceOnly' || !has(self.maxSurge) || {}",
        is_zero("self.maxSurge")
    );
    let message = format!(
        "'is \"%s\", but InPlaceOnly never replaces pods: set it to 0, or {policy} to InPlaceIfPossible'.format([self.maxSurge])"
    );
    reported_at(".maxSurge", rule(valid, message))
}

/// With neither a pod to miss nor one to add, no update could begin.
fn no_way_to_update(alpha: bool) -> Value {
    let strategy = "self.updateStrategy";
    let (there, update, path) = if alpha {
        (
            format!("has({strategy})"),
            strategy.to_owned(),
            ".updateStrategy.maxUnavailable",
        )
    } else {
        let update = format!("{strategy}.rollingUpdate");
        (
            format!("has({strategy}) && has({update})"),
            update,
            ".updateStrategy.rollingUpdate.maxUnavailable",
        )
    };
    let on_delete = format!("has({strategy}.type) && {strategy}.type == 'OnDelete'");
    let (unavailable, surge) = (
        format!("{update}.maxUnavailable"),
        format!("{update}.maxSurge"),
    );
    let stuck = format!(
        "has({unavailable}) && {} && (!has({surge}) || {})",
        is_zero(&unavailable),
        is_zero(&surge)
    );
    let valid = format!(
        "(has(self.replicas) && self.replicas == 0) || !({there}) || ({on_delete}) || !({stuck})"
    );
    let message = "is 0 and so is maxSurge, which leaves no way to update a pod: set one of them to at least 1";
    reported_at(path, json!({"rule": valid, "message": message}))
}

fn deadline_after_ready() -> Value {
    let valid = "!has(self.progressDeadlineSeconds) || !has(self.minReadySeconds) || \
                 self.progressDeadlineSeconds == 2147483647 || self.progressDeadlineSeconds > self.minReadySeconds";
    let message = "'is %d, but must be more than minReadySeconds, which is %d: no pod could be available in time'\
                   .format([self.progressDeadlineSeconds, self.minReadySeconds])";
    reported_at(".progressDeadlineSeconds", rule(valid, message))
}
