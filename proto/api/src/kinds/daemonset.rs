//! Advanced DaemonSet.

use kube::CustomResourceExt;

use crate::conversion;
use crate::kind::{Kind, read};
use crate::names::GROUP;
use crate::schema::Schema;
use crate::validation;
use crate::version::Version;
use crate::weight::Limits;
use crate::{v1alpha1, v1beta1};

/// Advanced DaemonSet.
pub const DAEMON_SET: Kind = Kind {
    group: GROUP,
    kind: "DaemonSet",
    plural: "daemonsets",
    namespaced: true,
    stored: Version::V1Beta1,
    older: &[Version::V1Alpha1],
    read: read::<v1beta1::DaemonSet>,
    limits: Limits::of_specs,
    template: Some("spec.template"),
    owns: &["pods", "controllerrevisions", "imagepulljobs"],
    mapping: conversion::daemonset::MAPPING,
    faults: validation::of_daemon_set,
    faults_of_change: |_, _| Vec::new(),
};

pub(super) const SCHEMA: Schema = Schema {
    versions: &[v1beta1::DaemonSet::crd, v1alpha1::DaemonSet::crd],
    patches: |_| Vec::new(),
};
