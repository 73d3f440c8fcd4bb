//! PodUnavailableBudget.

pub mod annotations;
mod conversion;
pub mod v1beta1;
mod validation;

use kube::CustomResourceExt;
use serde_json::json;

pub use self::v1beta1 as v1alpha1;
use crate::kinds::kind::{Kind, read, spec};
use crate::names::POLICY_GROUP;
use crate::schema::Schema;
use crate::schema::patch::{Patch, at};
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
    mapping: conversion::MAPPING,
    faults: validation::faults,
    spec: spec::<v1beta1::PodUnavailableBudget>,
    v1alpha1_alone: &[
        ("1.9.0", &["spec.unhealthyPodPolicy"]),
        ("1.8.4", &["spec.unhealthyPodPolicy"]),
    ],
    ..Kind::USUAL
};

pub(super) const SCHEMA: Schema = Schema {
    versions: &[v1beta1::PodUnavailableBudget::crd],
    patches,
};

/// Patches of the definition of v1alpha1, which has annotations for some fields.
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
