//! NodeImage.

mod conversion;
pub mod v1alpha1;
pub mod v1beta1;

use kube::CustomResourceExt;
use serde_json::json;

use crate::kinds::kind::{Kind, read};
use crate::names::GROUP;
use crate::schema::Schema;
use crate::schema::patch::{Patch, at};
use crate::version::Version;
use crate::weight::Limits;

/// NodeImage.
pub const NODE_IMAGE: Kind = Kind {
    group: GROUP,
    kind: "NodeImage",
    plural: "nodeimages",
    namespaced: false,
    read: read::<v1beta1::NodeImage>,
    // The controller writes it, so that the limits for users' specs do not hold.
    limits: |_| Limits::of_node_images(),
    mapping: conversion::MAPPING,
    // Only the controller writes its spec, and OpenKruise's controller writes it anew, so that
    // nothing can be lost.
    v1alpha1_alone: &[("1.8.4", &[])],
    ..Kind::USUAL
};

pub(super) const SCHEMA: Schema = Schema {
    versions: &[v1beta1::NodeImage::crd],
    patches,
};

fn patches(version: Version) -> Vec<Patch> {
    let mut patches = vec![
        at("", json!({"required": null})),
        at("spec", json!({"default": {}})),
    ];
    if version == Version::V1Alpha1 {
        let secret = "spec.images{}.pullSecrets[]";
        patches.push(at(secret, json!({"properties": {"mode": null}})));
    }
    patches
}
