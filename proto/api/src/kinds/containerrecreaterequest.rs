//! ContainerRecreateRequest.

use kube::CustomResourceExt;

use crate::conversion;
use crate::kind::{Kind, read};
use crate::names::GROUP;
use crate::schema::Schema;
use crate::version::Version;
use crate::weight::Limits;
use crate::{v1alpha1, v1beta1};

/// ContainerRecreateRequest.
pub const CONTAINER_RECREATE_REQUEST: Kind = Kind {
    group: GROUP,
    kind: "ContainerRecreateRequest",
    plural: "containerrecreaterequests",
    namespaced: true,
    stored: Version::V1Beta1,
    older: &[Version::V1Alpha1],
    read: read::<v1beta1::ContainerRecreateRequest>,
    limits: Limits::of_specs,
    template: None,
    owns: &[],
    mapping: conversion::containerrecreaterequest::MAPPING,
    faults: |_| Vec::new(),
    faults_of_change: |_, _| Vec::new(),
};

pub(super) const SCHEMA: Schema = Schema {
    versions: &[
        v1beta1::ContainerRecreateRequest::crd,
        v1alpha1::ContainerRecreateRequest::crd,
    ],
    patches: |_| Vec::new(),
};
