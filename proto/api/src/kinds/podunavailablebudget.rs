//! PodUnavailableBudget: its columns, and the defaults and validation of its fields.

use kube::CustomResourceExt;
use serde_json::json;

use crate::budget::MOST_ENTRIES;
use crate::conversion;
use crate::kind::{Kind, read};
use crate::names::POLICY_GROUP;
use crate::schema::Schema;
use crate::schema::budgets::{amount, ledger, one_of, unchanged};
use crate::schema::columns::Column;
use crate::schema::patch::Patch;
use crate::schema::rules::{at, check, conditions, int32, label_selector, not_empty};
use crate::validation;
use crate::version::Version;
use crate::weight::Limits;
use crate::{v1alpha1, v1beta1};

/// PodUnavailableBudget.
pub const POD_UNAVAILABLE_BUDGET: Kind = Kind {
    group: POLICY_GROUP,
    kind: "PodUnavailableBudget",
    plural: "podunavailablebudgets",
    namespaced: true,
    stored: Version::V1Beta1,
    older: &[Version::V1Alpha1],
    read: read::<v1beta1::PodUnavailableBudget>,
    limits: |_| Limits::of_budgets(),
    template: None,
    owns: &["poddisruptionbudgets"],
    mapping: conversion::podunavailablebudget::MAPPING,
    faults: validation::of_pod_unavailable_budget,
    faults_of_change: |_, _| Vec::new(),
};

pub(super) const SCHEMA: Schema = Schema {
    versions: &[
        v1beta1::PodUnavailableBudget::crd,
        v1alpha1::PodUnavailableBudget::crd,
    ],
    patches: rules,
    columns: COLUMNS,
};

const COLUMNS: &[Column] = &[
    Column::integer(
        "Allowed",
        ".status.unavailableAllowed",
        "Pods that may be taken out of service now.",
    ),
    Column::integer(
        "Current",
        ".status.currentAvailable",
        "Pods that are available.",
    ),
    Column::integer(
        "Desired",
        ".status.desiredAvailable",
        "Pods that must stay available.",
    ),
    Column::integer("Total", ".status.totalReplicas", "Pods that are expected."),
    Column::AGE,
];

fn rules(version: Version) -> Vec<Patch> {
    let mut rules = vec![
        at(
            "spec",
            check(&[
                one_of("selector", "targetRef"),
                one_of("maxUnavailable", "minAvailable"),
            ]),
        ),
        at(
            "spec",
            check(&[unchanged("selector"), unchanged("targetRef")]),
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
        at("spec.unhealthyPodPolicy", json!({"default": "AlwaysAllow"})),
        amount("spec.maxUnavailable"),
        amount("spec.minAvailable"),
    ];
    rules.extend(label_selector("spec.selector"));
    rules.push(at(
        "spec.selector",
        check(&[not_empty(
            "is empty and would select every pod: set matchLabels or matchExpressions",
        )]),
    ));
    if version == Version::V1Beta1 {
        rules.push(at("spec.protectOperations", json!({"maxItems": 16})));
        rules.push(int32("spec.protectTotalReplicas", 1));
        rules.extend(label_selector("spec.ignoredPodSelector"));
        let message = "is empty and would select every pod, so that none was protected: set matchLabels or matchExpressions, or remove it";
        rules.push(at("spec.ignoredPodSelector", check(&[not_empty(message)])));
    }
    rules.extend(status());
    rules
}

fn status() -> Vec<Patch> {
    let names = || json!({"maxProperties": MOST_ENTRIES});
    let mut rules = vec![
        at("status.disruptedPods", names()),
        at("status.unavailablePods", names()),
    ];
    rules.extend(ledger());
    rules.extend(conditions("Enforced or Blocked."));
    rules
}
