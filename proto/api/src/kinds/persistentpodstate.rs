//! PersistentPodState: its columns, and the defaults and validation of its fields.

use kube::CustomResourceExt;
use serde_json::{Value, json};

use crate::conversion;
use crate::kind::{Kind, read};
use crate::names::GROUP;
use crate::schema::Schema;
use crate::schema::columns::Column;
use crate::schema::patch::Patch;
use crate::schema::rules::{LABEL_KEY, at, check};
use crate::validation;
use crate::version::Version;
use crate::weight::Limits;
use crate::{v1alpha1, v1beta1};

/// PersistentPodState.
pub const PERSISTENT_POD_STATE: Kind = Kind {
    group: GROUP,
    kind: "PersistentPodState",
    plural: "persistentpodstates",
    namespaced: true,
    stored: Version::V1Beta1,
    older: &[Version::V1Alpha1],
    read: read::<v1beta1::PersistentPodState>,
    limits: Limits::of_specs,
    template: None,
    owns: &[],
    mapping: conversion::persistentpodstate::MAPPING,
    faults: validation::of_persistent_pod_state,
    faults_of_change: |_, _| Vec::new(),
};

pub(super) const SCHEMA: Schema = Schema {
    versions: &[
        v1beta1::PersistentPodState::crd,
        v1alpha1::PersistentPodState::crd,
    ],
    patches: rules,
    columns: COLUMNS,
};

const COLUMNS: &[Column] = &[
    Column::string("KIND", ".spec.targetRef.kind", "The kind of the workload."),
    Column::string("TARGET", ".spec.targetRef.name", "The workload."),
    Column::AGE,
];

/// The most labels of nodes, and annotations of pods.
const MOST_KEYS: usize = 16;

fn rules(version: Version) -> Vec<Patch> {
    let keys = if version == Version::V1Alpha1 {
        "nodeTopologyKeys"
    } else {
        "keys"
    };
    let list = || json!({"minItems": 1, "maxItems": MOST_KEYS, "items": {"type": "string", "minLength": 1, "maxLength": LABEL_KEY}});
    let preferred = "spec.preferredPersistentTopology";
    vec![
        at(
            "spec",
            check(&[is_pinned_by_something(), is_of_one_workload()]),
        ),
        at(
            "spec.targetRef.apiVersion",
            json!({"minLength": 1, "maxLength": 253}),
        ),
        at(
            "spec.targetRef.kind",
            json!({"minLength": 1, "maxLength": 63}),
        ),
        at(
            "spec.targetRef.name",
            json!({"minLength": 1, "maxLength": 253}),
        ),
        at(
            "spec.persistentPodAnnotations",
            json!({"maxItems": MOST_KEYS}),
        ),
        at(
            "spec.persistentPodAnnotations[].key",
            json!({"minLength": 1, "maxLength": LABEL_KEY}),
        ),
        at(format!("spec.requiredPersistentTopology.{keys}"), list()),
        at(preferred, json!({"maxItems": MOST_KEYS})),
        at(
            format!("{preferred}[].weight"),
            json!({"minimum": 1, "maximum": 100}),
        ),
        at(format!("{preferred}[].preference.{keys}"), list()),
        at(
            "spec.persistentPodStateRetentionPolicy",
            json!({"default": "WhenScaled"}),
        ),
    ]
}

fn is_pinned_by_something() -> Value {
    let valid = "has(self.requiredPersistentTopology) || (has(self.preferredPersistentTopology) && size(self.preferredPersistentTopology) > 0)";
    json!({"rule": valid, "message": "has neither requiredPersistentTopology nor preferredPersistentTopology, so nothing would be kept: set one of them"})
}

fn is_of_one_workload() -> Value {
    // A StatefulSet that moves from Kubernetes' kind to ours, or back, takes its pods along.
    let same = "self.targetRef.kind == oldSelf.targetRef.kind && self.targetRef.name == oldSelf.targetRef.name && \
                (self.targetRef.apiVersion.split('/')[0] == oldSelf.targetRef.apiVersion.split('/')[0] || \
                (self.targetRef.kind == 'StatefulSet' && [self, oldSelf].all(s, s.targetRef.apiVersion.split('/')[0] in ['apps', 'apps.kruise.io'])))";
    json!({"rule": same, "reason": "FieldValueForbidden", "fieldPath": ".targetRef",
           "message": "cannot be changed, the records are of the pods of that workload: create another PersistentPodState; only that of a StatefulSet may go from apps to apps.kruise.io and back, with its pods"})
}
