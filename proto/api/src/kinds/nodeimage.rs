//! NodeImage.

use kube::CustomResourceExt;
use serde_json::json;

use crate::conversion;
use crate::kind::{Kind, read};
use crate::names::GROUP;
use crate::schema::Schema;
use crate::schema::patch::{Patch, at};
use crate::v1beta1;
use crate::version::Version;
use crate::weight::Limits;

/// NodeImage.
pub const NODE_IMAGE: Kind = Kind {
    group: GROUP,
    kind: "NodeImage",
    plural: "nodeimages",
    namespaced: false,
    read: read::<v1beta1::NodeImage>,
    // The controller writes it, whatever users may write.
    limits: |_| Limits::of_node_images(),
    mapping: conversion::nodeimage::MAPPING,
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
