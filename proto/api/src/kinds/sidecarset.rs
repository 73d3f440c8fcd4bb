//! SidecarSet.

mod conversion;
pub mod v1alpha1;
pub mod v1beta1;
mod validation;

use kube::CustomResourceExt;

use self::v1beta1::rules::patches;
use crate::kinds::kind::{Kind, read, spec};
use crate::names::GROUP;
use crate::schema::Schema;

/// SidecarSet.
pub const SIDECAR_SET: Kind = Kind {
    group: GROUP,
    kind: "SidecarSet",
    plural: "sidecarsets",
    namespaced: false,
    read: read::<v1beta1::SidecarSet>,
    owns: &["controllerrevisions", "imagepulljobs"],
    mapping: conversion::MAPPING,
    faults: validation::faults,
    faults_of_change: |object, old| validation::base_changes(object, old).into_iter().collect(),
    spec: spec::<v1beta1::SidecarSet>,
    v1alpha1_alone: &[(
        "1.8.4",
        &[
            "spec.containers[].resourcesPolicy",
            "spec.containers[].shareVolumeDevicePolicy",
            "spec.initContainers[].resourcesPolicy",
            "spec.initContainers[].shareVolumeDevicePolicy",
        ],
    )],
    ..Kind::USUAL
};

pub(super) const SCHEMA: Schema = Schema {
    versions: &[v1beta1::SidecarSet::crd, v1alpha1::SidecarSet::crd],
    patches,
};
