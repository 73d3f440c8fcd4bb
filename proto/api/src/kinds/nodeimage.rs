//! NodeImage: its columns, and the defaults and validation of its fields: what nodes are asked, and how much a daemon may
//! report.

use kube::CustomResourceExt;
use serde_json::{Value, json};

use crate::conversion;
use crate::kind::{Kind, read};
use crate::names::GROUP;
use crate::schema::Schema;
use crate::schema::columns::Column;
use crate::schema::patch::Patch;
use crate::schema::rules::{at, backoff, check, int32, not_negative, timeout};
use crate::v1beta1::containerrecreaterequest::{MAX_CONTAINER_ID, MAX_GRACE_SECONDS};
use crate::v1beta1::nodeimage::{MAX_IMAGES, MAX_INSPECTED_PODS, MAX_STOPPED_CONTAINERS, MAX_TAGS};
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
    patches: rules,
    columns: COLUMNS,
};

const COLUMNS: &[Column] = &[
    Column::integer("DESIRED", ".status.desired", "Pulls that are wanted."),
    Column::integer("PULLING", ".status.pulling", "Pulls that are going on."),
    Column::integer("SUCCEED", ".status.succeeded", "Pulls that succeeded."),
    Column::integer("FAILED", ".status.failed", "Pulls that failed."),
    Column::AGE,
];

/// The longest name: of an object, a container, a hash.
const NAME: usize = 253;
/// The longest image reference, and the longest id of an image or a container.
const REFERENCE: usize = 1024;
/// The longest message of a pull.
const MESSAGE: usize = 4096;
/// The longest message of a condition, as Kubernetes' own conditions have it: it has the runtime's words.
const CONDITION_MESSAGE: usize = 32_768;

fn rules(_: Version) -> Vec<Patch> {
    let tags = "spec.images{}.tags[]";
    let by = |keys: &[&str]| json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys});
    let mut rules = vec![
        at("", json!({"required": null})),
        at("spec", json!({"default": {}})),
        at("spec.images", json!({"maxProperties": MAX_IMAGES})),
        at(
            "spec.images",
            check(&[
                json!({"rule": "!('' in self)", "message": "has an image without a name: name it or remove it"}),
            ]),
        ),
        at("spec.images{}", json!({"required": ["tags"]})),
        at("spec.images{}.tags", by(&["tag"])),
        at("spec.images{}.tags", check(&[tag_count()])),
        at(format!("{tags}.tag"), json!({"minLength": 1})),
        not_negative(format!("{tags}.version")),
        at(format!("{tags}.pullPolicy"), json!({"default": {}})),
        timeout(format!("{tags}.pullPolicy.timeoutSeconds")),
        backoff(format!("{tags}.pullPolicy.backoffLimit")),
        int32(format!("{tags}.pullPolicy.ttlSecondsAfterFinished"), 0),
        int32(format!("{tags}.pullPolicy.activeDeadlineSeconds"), 1),
        at("spec.inspectPods", by(&["uid"])),
        at("spec.inspectPods", json!({"maxItems": MAX_INSPECTED_PODS})),
        at("spec.inspectPods[].env", by(&["container"])),
        at("spec.stopContainers", by(&["request", "container"])),
        at(
            "spec.stopContainers",
            json!({"maxItems": MAX_STOPPED_CONTAINERS}),
        ),
        at(
            "spec.stopContainers[].gracePeriodSeconds",
            json!({"minimum": 0, "maximum": MAX_GRACE_SECONDS}),
        ),
        int32("spec.stopContainers[].minStartedSeconds", 0),
        at("spec.stopContainers[].request", json!({"maxLength": NAME})),
        at(
            "spec.stopContainers[].namespace",
            json!({"maxLength": NAME}),
        ),
        at("spec.stopContainers[].name", json!({"maxLength": NAME})),
        at("spec.stopContainers[].uid", json!({"maxLength": NAME})),
        at(
            "spec.stopContainers[].container",
            json!({"maxLength": NAME}),
        ),
        at(
            "spec.stopContainers[].containerID",
            json!({"maxLength": MAX_CONTAINER_ID}),
        ),
        at("status", json!({"required": ["desired"]})),
        at("status.imageStatuses{}", json!({"required": ["tags"]})),
        at("status.conditions", by(&["type"])),
        at("status.inspectedPods", by(&["uid"])),
        at("status.inspectedPods[].containers", by(&["name"])),
        at("status.imageFacts", by(&["image"])),
        at("status.stoppedContainers", by(&["request", "container"])),
    ];
    rules.extend(reports());
    rules.push(at(
        format!("{tags}.ownerReferences[]"),
        json!({"x-kubernetes-map-type": "atomic"}),
    ));
    for (field, description) in [
        ("apiVersion", "The object's API version."),
        ("fieldPath", "The part of the object that is meant; unused."),
        ("kind", "The object's kind."),
        ("name", "The object's name."),
        ("namespace", "The object's namespace."),
        ("resourceVersion", "The object's resourceVersion; unused."),
        ("uid", "The object's uid."),
    ] {
        rules.push(at(
            format!("{tags}.ownerReferences[].{field}"),
            json!({"description": description}),
        ));
    }
    rules
}

/// At most so many tags, or no more than there were before.
fn tag_count() -> Value {
    json!({
        "rule": format!("size(self) <= {MAX_TAGS} || (oldSelf.hasValue() && size(self) <= size(oldSelf.value()))"),
        "messageExpression": format!("'has %d tags, but can have {MAX_TAGS}: remove some'.format([size(self)])"),
        "optionalOldSelf": true,
    })
}

/// What a daemon may report: each node writes its own, and every controller holds all of them. A pull's message has 1 KiB at most,
/// and some words before it.
fn reports() -> Vec<Patch> {
    let text = |length: usize| json!({"maxLength": length});
    let ids = json!({"maxItems": 64, "items": {"type": "string", "maxLength": REFERENCE}});
    let tags = "status.imageStatuses{}.tags[]";
    let pods = "status.inspectedPods";
    let containers = format!("{pods}[].containers[]");
    let stopped = "status.stoppedContainers";
    vec![
        at("status.conditions", json!({"maxItems": 16})),
        at("status.conditions[].type", text(NAME)),
        at("status.conditions[].status", text(NAME)),
        at("status.conditions[].reason", text(NAME)),
        at("status.conditions[].message", text(CONDITION_MESSAGE)),
        at("status.firstSyncStatus.message", text(MESSAGE)),
        at("status.imageStatuses", json!({"maxProperties": MAX_IMAGES})),
        at("status.imageStatuses", check(&[short_names()])),
        // Four times what a spec may ask for, for nodes that were taken over with more.
        at(
            "status.imageStatuses{}.tags",
            json!({"maxItems": 4 * MAX_TAGS}),
        ),
        at(format!("{tags}.tag"), text(REFERENCE)),
        at(format!("{tags}.message"), text(MESSAGE)),
        at(format!("{tags}.imageID"), text(REFERENCE)),
        at(format!("{tags}.imageIDs"), ids.clone()),
        at(pods, json!({"maxItems": MAX_INSPECTED_PODS})),
        at(format!("{pods}[].uid"), text(NAME)),
        at(format!("{pods}[].containers"), json!({"maxItems": 128})),
        at(format!("{containers}.env"), json!({"maxProperties": 128})),
        at(format!("{containers}.name"), text(NAME)),
        at(format!("{containers}.containerID"), text(REFERENCE)),
        at(format!("{containers}.image"), text(REFERENCE)),
        at(format!("{containers}.imageID"), text(REFERENCE)),
        at(format!("{containers}.hash"), text(NAME)),
        at(format!("{containers}.update"), text(NAME)),
        at(format!("{containers}.envHash"), text(NAME)),
        at(
            "status.imageFacts",
            json!({"maxItems": 4 * MAX_INSPECTED_PODS}),
        ),
        at("status.imageFacts[].image", text(REFERENCE)),
        at("status.imageFacts[].imageIDs", ids),
        // The last answers stay until the next write.
        at(stopped, json!({"maxItems": 2 * MAX_STOPPED_CONTAINERS})),
        at(format!("{stopped}[].request"), text(NAME)),
        at(format!("{stopped}[].container"), text(NAME)),
        at(format!("{stopped}[].containerID"), text(REFERENCE)),
        at(format!("{stopped}[].lastingContainerID"), text(REFERENCE)),
        at(format!("{stopped}[].message"), text(REFERENCE)),
        at(format!("{stopped}[].hookMessage"), text(REFERENCE)),
    ]
}

/// A map's keys have no length of their own in a schema.
fn short_names() -> Value {
    json!({
        "rule": format!("self.all(name, size(name) <= {REFERENCE})"),
        "message": format!("has an image whose name is longer than {REFERENCE} characters: no image has such a name"),
    })
}
