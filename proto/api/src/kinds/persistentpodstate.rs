//! PersistentPodState.

mod conversion;
pub mod v1alpha1;
pub mod v1beta1;
mod validation;

use kube::CustomResourceExt;

use crate::kinds::kind::{Kind, read, spec};
use crate::names::GROUP;
use crate::schema::Schema;

/// PersistentPodState.
pub const PERSISTENT_POD_STATE: Kind = Kind {
    group: GROUP,
    kind: "PersistentPodState",
    plural: "persistentpodstates",
    read: read::<v1beta1::PersistentPodState>,
    mapping: conversion::MAPPING,
    faults: validation::faults,
    spec: spec::<v1beta1::PersistentPodState>,
    v1alpha1_alone: &[("1.9.0", &[]), ("1.8.4", &[])],
    ..Kind::USUAL
};

pub(super) const SCHEMA: Schema = Schema {
    versions: &[
        v1beta1::PersistentPodState::crd,
        v1alpha1::PersistentPodState::crd,
    ],
    patches: |_| Vec::new(),
};
