//! CloneSet.

pub(crate) mod conversion;
pub mod v1alpha1;
pub mod v1beta1;
mod validation;

use kube::CustomResourceExt;

use crate::kinds::kind::{Kind, read, spec};
use crate::names::GROUP;
use crate::schema::Schema;

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
    mapping: conversion::MAPPING,
    faults: validation::faults,
    spec: spec::<v1beta1::CloneSet>,
    v1alpha1_alone: &[
        ("1.9.0", &IMAGE_PRE_DOWNLOAD),
        (
            "1.8.4",
            &[
                "spec.progressDeadlineSeconds",
                IMAGE_PRE_DOWNLOAD[0],
                IMAGE_PRE_DOWNLOAD[1],
                IMAGE_PRE_DOWNLOAD[2],
            ],
        ),
    ],
    ..Kind::USUAL
};

/// Most of their values are annotations in v1alpha1; values that no annotation can have stay
/// fields.
const IMAGE_PRE_DOWNLOAD: [&str; 3] = [
    "spec.updateStrategy.inPlaceUpdateStrategy.imagePreDownloadMinUpdatedReadyPods",
    "spec.updateStrategy.inPlaceUpdateStrategy.imagePreDownloadParallelism",
    "spec.updateStrategy.inPlaceUpdateStrategy.imagePreDownloadTimeoutSeconds",
];

pub(super) const SCHEMA: Schema = Schema {
    versions: &[v1beta1::CloneSet::crd, v1alpha1::CloneSet::crd],
    patches: |_| Vec::new(),
};
