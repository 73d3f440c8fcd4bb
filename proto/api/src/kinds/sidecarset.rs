//! SidecarSet.

use kube::CustomResourceExt;

use crate::conversion;
use crate::kind::{Kind, read};
use crate::names::GROUP;
use crate::schema::Schema;
use crate::v1beta1::sidecarset::rules::patches;
use crate::validation;
use crate::version::Version;
use crate::weight::Limits;
use crate::{v1alpha1, v1beta1};

/// SidecarSet.
pub const SIDECAR_SET: Kind = Kind {
    group: GROUP,
    kind: "SidecarSet",
    plural: "sidecarsets",
    namespaced: false,
    stored: Version::V1Beta1,
    older: &[Version::V1Alpha1],
    read: read::<v1beta1::SidecarSet>,
    limits: Limits::of_specs,
    template: None,
    owns: &["controllerrevisions", "imagepulljobs"],
    mapping: conversion::sidecarset::MAPPING,
    faults: validation::of_sidecar_set,
    faults_of_change: |object, old| validation::base_changes(object, old).into_iter().collect(),
};

pub(super) const SCHEMA: Schema = Schema {
    versions: &[v1beta1::SidecarSet::crd, v1alpha1::SidecarSet::crd],
    patches,
};
