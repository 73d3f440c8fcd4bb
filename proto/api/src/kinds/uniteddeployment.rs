//! UnitedDeployment.

use kube::CustomResourceExt;

use crate::conversion;
use crate::kind::{Kind, read};
use crate::names::GROUP;
use crate::schema::Schema;
use crate::v1beta1::uniteddeployment::fields::patches;
use crate::validation;
use crate::{v1alpha1, v1beta1};

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
    mapping: conversion::uniteddeployment::MAPPING,
    faults: validation::of_united_deployment,
    ..Kind::USUAL
};

pub(super) const SCHEMA: Schema = Schema {
    versions: &[
        v1beta1::UnitedDeployment::crd,
        v1alpha1::UnitedDeployment::crd,
    ],
    patches,
};
