//! Advanced DaemonSet.

use kube::CustomResourceExt;
use serde_json::json;

use crate::conversion;
use crate::kind::{Kind, read};
use crate::names::GROUP;
use crate::schema::Schema;
use crate::schema::patch::{Patch, at};
use crate::validation;
use crate::version::Version;
use crate::{v1alpha1, v1beta1};

/// Advanced DaemonSet.
pub const DAEMON_SET: Kind = Kind {
    group: GROUP,
    kind: "DaemonSet",
    plural: "daemonsets",
    read: read::<v1beta1::DaemonSet>,
    template: Some("spec.template"),
    owns: &["pods", "controllerrevisions", "imagepulljobs"],
    mapping: conversion::daemonset::MAPPING,
    faults: validation::of_daemon_set,
    ..Kind::USUAL
};

pub(super) const SCHEMA: Schema = Schema {
    versions: &[v1beta1::DaemonSet::crd, v1alpha1::DaemonSet::crd],
    patches,
};

/// What v1alpha1 calls `daemonSetHash`.
fn patches(version: Version) -> Vec<Patch> {
    match version {
        Version::V1Alpha1 => vec![at(
            "status",
            json!({"properties": {"updateRevision": null}}),
        )],
        Version::V1Beta1 => Vec::new(),
    }
}
