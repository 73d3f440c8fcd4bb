//! PodUnavailableBudget.

use kube::CustomResourceExt;
use serde_json::json;

use crate::conversion;
use crate::kind::{Kind, read};
use crate::names::POLICY_GROUP;
use crate::schema::Schema;
use crate::schema::patch::{Patch, at};
use crate::v1beta1;
use crate::validation;
use crate::version::Version;
use crate::weight::Limits;

/// PodUnavailableBudget.
pub const POD_UNAVAILABLE_BUDGET: Kind = Kind {
    group: POLICY_GROUP,
    kind: "PodUnavailableBudget",
    plural: "podunavailablebudgets",
    read: read::<v1beta1::PodUnavailableBudget>,
    limits: |_| Limits::of_budgets(),
    owns: &["poddisruptionbudgets"],
    mapping: conversion::podunavailablebudget::MAPPING,
    faults: validation::of_pod_unavailable_budget,
    ..Kind::USUAL
};

pub(super) const SCHEMA: Schema = Schema {
    versions: &[v1beta1::PodUnavailableBudget::crd],
    patches,
};

/// What v1alpha1 has in annotations.
fn patches(version: Version) -> Vec<Patch> {
    if version == Version::V1Beta1 {
        return Vec::new();
    }
    let description = "Whose pods, and how many of them. From what they are protected, and how many are expected, annotations say.";
    let elsewhere = json!({"ignoredPodSelector": null, "protectOperations": null, "protectTotalReplicas": null});
    vec![at(
        "spec",
        json!({"description": description, "properties": elsewhere}),
    )]
}
