//! The claims of a pod from its workload's claim templates, named `<template>-<pod>`.

use berth_api::fields::template::{VolumeClaimTemplate, mount_claims};
use serde_json::{Value, json};

use super::Workload;
use crate::objects::pod::Pod;

/// The name of a pod's claim.
pub fn claim_name(template: &VolumeClaimTemplate, pod: &str) -> String {
    format!("{}-{pod}", template.name())
}

/// The names of all claims of a pod.
pub fn claim_names(workload: &Workload<'_>, pod: &str) -> impl Iterator<Item = String> {
    workload
        .claim_templates
        .iter()
        .map(move |template| claim_name(template, pod))
}

/// The first template without a volume in the pod, because it was added after the pod was created.
/// Only the volume's name counts, because a webhook may have changed its claim.
pub fn without_volume<'a>(workload: &Workload<'a>, pod: &Pod) -> Option<&'a str> {
    let has = |template: &str| {
        pod.spec
            .claim_volumes
            .iter()
            .any(|volume| **volume == *template)
    };
    workload
        .claim_templates
        .iter()
        .map(VolumeClaimTemplate::name)
        .find(|template| !has(template))
}

/// The claims of a pod from templates that were removed since, as the pod's volumes show them.
pub fn former_claim_names<'a>(
    workload: &Workload<'a>,
    pod: &'a Pod,
) -> impl Iterator<Item = String> + use<'a> {
    let templates = workload.claim_templates;
    let is_there = move |volume: &str| templates.iter().any(|template| template.name() == volume);
    let former = pod
        .spec
        .claim_volumes
        .iter()
        .filter(move |volume| !is_there(volume));
    former.map(|volume| format!("{volume}-{}", pod.metadata.name))
}

/// A new claim from a parsed template, with the labels of the workload's selector. It has no owner
/// yet.
pub fn new_claim(workload: &Workload<'_>, template: &Value, name: &str) -> Value {
    let map = |field: &str| {
        template
            .pointer(field)
            .filter(|map| map.is_object())
            .cloned()
            .unwrap_or(json!({}))
    };
    let (mut labels, annotations) = (map("/metadata/labels"), map("/metadata/annotations"));
    for (key, value) in workload.selector.match_labels.iter().flatten() {
        labels[key] = json!(value);
    }
    let metadata = json!({
        "name": name,
        "namespace": workload.metadata.namespace,
        "labels": labels,
        "annotations": annotations,
    });
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": template["spec"]})
}

/// Adds volumes for the claims to a pod's spec. They replace volumes of the same name in the
/// template.
pub(crate) fn mount(workload: &Workload<'_>, pod: &str, spec: &mut Value) {
    let templates = workload.claim_templates.iter();
    mount_claims(
        spec,
        templates.map(|template| (template.name(), claim_name(template, pod))),
    );
}

/// The pod template for validation: with the volumes that its containers mount by the claims'
/// names.
pub(crate) fn with_volumes(workload: &Workload<'_>, mut template: Value) -> Value {
    let templates = workload.claim_templates.iter();
    if let Some(spec) = template.get_mut("spec") {
        mount_claims(
            spec,
            templates.map(|template| (template.name(), template.name().to_owned())),
        );
    }
    template
}
