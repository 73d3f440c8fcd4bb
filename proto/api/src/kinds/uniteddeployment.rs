//! UnitedDeployment.

mod conversion;
pub mod names;
pub mod v1alpha1;
pub mod v1beta1;
mod validation;

use kube::CustomResourceExt;

use self::v1beta1::fields::patches;
use crate::kinds::kind::{Kind, read, spec};
use crate::names::GROUP;
use crate::schema::Schema;

/// UnitedDeployment.
pub const UNITED_DEPLOYMENT: Kind = Kind {
    group: GROUP,
    kind: "UnitedDeployment",
    plural: "uniteddeployments",
    read: read::<v1beta1::UnitedDeployment>,
    // The pod template is below one of four fields, in the template of a workload.
    owns: &[
        "clonesets",
        "controllerrevisions",
        "deployments",
        "statefulsets",
    ],
    mapping: conversion::MAPPING,
    warnings: Some(validation::ignored_fields),
    faults: validation::faults,
    spec: spec::<v1beta1::UnitedDeployment>,
    v1alpha1_alone: &[
        ("1.9.0", &IMAGE_PRE_DOWNLOAD),
        (
            "1.8.4",
            &[
                "spec.topology.scheduleStrategy.adaptive.reserveUnschedulablePods",
                "spec.template.cloneSetTemplate.spec.progressDeadlineSeconds",
                IMAGE_PRE_DOWNLOAD[0],
                IMAGE_PRE_DOWNLOAD[1],
                IMAGE_PRE_DOWNLOAD[2],
            ],
        ),
    ],
    ..Kind::USUAL
};

/// As in a CloneSet, most of their values are annotations in v1alpha1.
const IMAGE_PRE_DOWNLOAD: [&str; 3] = [
    "spec.template.cloneSetTemplate.spec.updateStrategy.inPlaceUpdateStrategy.imagePreDownloadMinUpdatedReadyPods",
    "spec.template.cloneSetTemplate.spec.updateStrategy.inPlaceUpdateStrategy.imagePreDownloadParallelism",
    "spec.template.cloneSetTemplate.spec.updateStrategy.inPlaceUpdateStrategy.imagePreDownloadTimeoutSeconds",
];

pub(super) const SCHEMA: Schema = Schema {
    versions: &[
        v1beta1::UnitedDeployment::crd,
        v1alpha1::UnitedDeployment::crd,
    ],
    patches,
};
