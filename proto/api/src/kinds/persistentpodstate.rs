//! PersistentPodState.

use kube::CustomResourceExt;

use crate::conversion;
use crate::kind::{Kind, read};
use crate::names::GROUP;
use crate::schema::Schema;
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
    patches: |_| Vec::new(),
};
