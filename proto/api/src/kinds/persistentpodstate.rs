//! PersistentPodState.

use kube::CustomResourceExt;

use crate::conversion;
use crate::kind::{Kind, read};
use crate::names::GROUP;
use crate::schema::Schema;
use crate::validation;
use crate::{v1alpha1, v1beta1};

/// PersistentPodState.
pub const PERSISTENT_POD_STATE: Kind = Kind {
    group: GROUP,
    kind: "PersistentPodState",
    plural: "persistentpodstates",
    read: read::<v1beta1::PersistentPodState>,
    mapping: conversion::persistentpodstate::MAPPING,
    faults: validation::of_persistent_pod_state,
    ..Kind::USUAL
};

pub(super) const SCHEMA: Schema = Schema {
    versions: &[
        v1beta1::PersistentPodState::crd,
        v1alpha1::PersistentPodState::crd,
    ],
    patches: |_| Vec::new(),
};
