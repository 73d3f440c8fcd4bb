//! SidecarSet.

use kube::CustomResourceExt;

use crate::conversion;
use crate::kind::{Kind, read};
use crate::names::GROUP;
use crate::schema::Schema;
use crate::v1beta1::sidecarset::rules::patches;
use crate::validation;
use crate::{v1alpha1, v1beta1};

/// SidecarSet.
pub const SIDECAR_SET: Kind = Kind {
    group: GROUP,
    kind: "SidecarSet",
    plural: "sidecarsets",
    namespaced: false,
    read: read::<v1beta1::SidecarSet>,
    owns: &["controllerrevisions", "imagepulljobs"],
    mapping: conversion::sidecarset::MAPPING,
    faults: validation::of_sidecar_set,
    faults_of_change: |object, old| validation::base_changes(object, old).into_iter().collect(),
    ..Kind::USUAL
};

pub(super) const SCHEMA: Schema = Schema {
    versions: &[v1beta1::SidecarSet::crd, v1alpha1::SidecarSet::crd],
    patches,
};
