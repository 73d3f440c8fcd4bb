//! Advanced DaemonSet.

mod conversion;
pub mod v1alpha1;
pub mod v1beta1;
mod validation;

use kube::CustomResourceExt;
use serde_json::json;

use crate::kinds::kind::{Kind, read, spec};
use crate::names::GROUP;
use crate::schema::Schema;
use crate::schema::patch::{Patch, at};
use crate::version::Version;

/// Advanced DaemonSet.
pub const DAEMON_SET: Kind = Kind {
    group: GROUP,
    kind: "DaemonSet",
    plural: "daemonsets",
    read: read::<v1beta1::DaemonSet>,
    template: Some("spec.template"),
    owns: &["pods", "controllerrevisions", "imagepulljobs"],
    mapping: conversion::MAPPING,
    faults: validation::faults,
    spec: spec::<v1beta1::DaemonSet>,
    v1alpha1_alone: &[("1.8.4", &[])],
    ..Kind::USUAL
};

pub(super) const SCHEMA: Schema = Schema {
    versions: &[v1beta1::DaemonSet::crd, v1alpha1::DaemonSet::crd],
    patches,
};

/// Patches of the definition of v1alpha1, which calls a field `daemonSetHash`.
fn patches(version: Version) -> Vec<Patch> {
    match version {
        Version::V1Alpha1 => vec![at(
            "status",
            json!({"properties": {"updateRevision": null}}),
        )],
        Version::V1Beta1 => Vec::new(),
    }
}
