//! CloneSet.

use kube::CustomResourceExt;

use crate::conversion;
use crate::kind::{Kind, read};
use crate::names::GROUP;
use crate::schema::Schema;
use crate::validation;
use crate::{v1alpha1, v1beta1};

/// CloneSet.
pub const CLONE_SET: Kind = Kind {
    group: GROUP,
    kind: "CloneSet",
    plural: "clonesets",
    read: read::<v1beta1::CloneSet>,
    template: Some("spec.template"),
    owns: &[
        "pods",
        "persistentvolumeclaims",
        "controllerrevisions",
        "imagepulljobs",
    ],
    mapping: conversion::cloneset::MAPPING,
    faults: validation::of_clone_set,
    ..Kind::USUAL
};

pub(super) const SCHEMA: Schema = Schema {
    versions: &[v1beta1::CloneSet::crd, v1alpha1::CloneSet::crd],
    patches: |_| Vec::new(),
};
