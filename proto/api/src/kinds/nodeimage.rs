//! NodeImage.

use kube::CustomResourceExt;
use serde_json::json;

use crate::conversion;
use crate::kind::{Kind, read};
use crate::names::GROUP;
use crate::schema::Schema;
use crate::schema::patch::at;
use crate::version::Version;
use crate::weight::Limits;
use crate::{v1alpha1, v1beta1};

/// NodeImage.
pub const NODE_IMAGE: Kind = Kind {
    group: GROUP,
    kind: "NodeImage",
    plural: "nodeimages",
    namespaced: false,
    stored: Version::V1Beta1,
    older: &[Version::V1Alpha1],
    read: read::<v1beta1::NodeImage>,
    // The controller writes it, whatever users may write.
    limits: |_| Limits::of_node_images(),
    template: None,
    owns: &[],
    mapping: conversion::nodeimage::MAPPING,
    faults: |_| Vec::new(),
    faults_of_change: |_, _| Vec::new(),
};

pub(super) const SCHEMA: Schema = Schema {
    versions: &[v1beta1::NodeImage::crd, v1alpha1::NodeImage::crd],
    patches: |_| {
        vec![
            at("", json!({"required": null})),
            at("spec", json!({"default": {}})),
        ]
    },
};
