//! ContainerRecreateRequest.

mod conversion;
pub mod filled_in;
pub mod v1beta1;

use kube::CustomResourceExt;
use serde_json::json;

pub use self::v1beta1 as v1alpha1;
use crate::kinds::kind::{Kind, read, spec};
use crate::names::GROUP;
use crate::schema::Schema;
use crate::schema::patch::{Patch, at};
use crate::version::Version;

/// ContainerRecreateRequest.
pub const CONTAINER_RECREATE_REQUEST: Kind = Kind {
    group: GROUP,
    kind: "ContainerRecreateRequest",
    plural: "containerrecreaterequests",
    read: read::<v1beta1::ContainerRecreateRequest>,
    mapping: conversion::MAPPING,
    spec: spec::<v1beta1::ContainerRecreateRequest>,
    v1alpha1_alone: &[
        ("1.9.0", &["spec.containers[].preStop.sleep"]),
        ("1.8.4", &["spec.containers[].preStop.sleep"]),
    ],
    ..Kind::USUAL
};

pub(super) const SCHEMA: Schema = Schema {
    versions: &[v1beta1::ContainerRecreateRequest::crd],
    patches,
};

/// Patches of the definition of v1alpha1, which has annotations for some fields.
fn patches(version: Version) -> Vec<Patch> {
    if version == Version::V1Beta1 {
        return Vec::new();
    }
    let status = "How far the request is. What v1beta1 has in containerStatusSnapshot is the annotation \
                  crr.apps.kruise.io/sync-container-statuses, and the time of its condition PreRecreateGrace the annotation \
                  crr.apps.kruise.io/unready-acquired.";
    let conditions = "Berth: MinStartedPending says since when a container is ready that has yet to run for minStartedSeconds, \
                      where that takes long, Blocked what holds the request back, and DeadlineExceeded which containers the \
                      deadline left as they were.";
    vec![
        at(
            "status",
            json!({"description": status, "properties": {"containerStatusSnapshot": null}}),
        ),
        at("status.conditions", json!({"description": conditions})),
    ]
}
