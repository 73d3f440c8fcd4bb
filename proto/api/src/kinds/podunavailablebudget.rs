//! PodUnavailableBudget.

use kube::CustomResourceExt;

use crate::conversion;
use crate::kind::{Kind, read};
use crate::names::POLICY_GROUP;
use crate::schema::Schema;
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
    patches: |_| Vec::new(),
};
