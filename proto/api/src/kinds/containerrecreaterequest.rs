//! ContainerRecreateRequest: its columns, and the defaults and validation of its fields.

use kube::CustomResourceExt;
use serde_json::json;

use crate::conversion;
use crate::kind::{Kind, read};
use crate::names::GROUP;
use crate::schema::Schema;
use crate::schema::columns::Column;
use crate::schema::patch::Patch;
use crate::schema::rules::{DNS_LABEL, DNS_SUBDOMAIN, at, conditions, int32};
use crate::v1beta1::containerrecreaterequest::{
    MAX_CONTAINER_ID, MAX_GRACE_SECONDS, MAX_RECREATED_CONTAINERS, MIN_ACTIVE_DEADLINE_SECONDS,
};
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
    patches: rules,
    columns: COLUMNS,
};

const COLUMNS: &[Column] = &[
    Column::string("PHASE", ".status.phase", "How far it is."),
    Column::string("POD", ".spec.podName", "The pod."),
    Column::string(
        "NODE",
        r".metadata.labels.crr\.apps\.kruise\.io/node-name",
        "The pod's node.",
    ),
    Column::AGE,
];

fn rules(version: Version) -> Vec<Patch> {
    let by_name = json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]});
    let strategy = "spec.strategy";
    let mut rules = vec![
        at(
            "spec.podName",
            json!({"minLength": 1, "maxLength": 253, "pattern": DNS_SUBDOMAIN}),
        ),
        at("spec.containers", by_name),
        at(
            "spec.containers",
            json!({"minItems": 1, "maxItems": MAX_RECREATED_CONTAINERS}),
        ),
        at(
            "spec.containers[].name",
            json!({"minLength": 1, "maxLength": 63, "pattern": DNS_LABEL}),
        ),
        at(
            "spec.containers[].statusContext.containerID",
            json!({"maxLength": MAX_CONTAINER_ID}),
        ),
        at(strategy, json!({"default": {}})),
        at(
            format!("{strategy}.failurePolicy"),
            json!({"default": "Fail"}),
        ),
        at(
            format!("{strategy}.terminationGracePeriodSeconds"),
            json!({"minimum": 0, "maximum": MAX_GRACE_SECONDS}),
        ),
        at(
            format!("{strategy}.unreadyGracePeriodSeconds"),
            json!({"minimum": 0, "maximum": MAX_GRACE_SECONDS}),
        ),
        int32(format!("{strategy}.minStartedSeconds"), 0),
        int32("spec.activeDeadlineSeconds", MIN_ACTIVE_DEADLINE_SECONDS),
        int32("spec.ttlSecondsAfterFinished", 0),
        at("status", json!({"required": ["phase"]})),
        at(
            "status.containerRecreateStates",
            json!({"maxItems": MAX_RECREATED_CONTAINERS}),
        ),
    ];
    rules.extend(filled_in());
    rules.extend(conditions(
        "PreRecreateGrace, MinStartedPending, Blocked or DeadlineExceeded.",
    ));
    if version == Version::V1Beta1 {
        rules.push(at(
            "status.containerStatusSnapshot",
            json!({"maxItems": MAX_RECREATED_CONTAINERS}),
        ));
    }
    rules
}

/// What is copied from the pod, described in our own words. Fields that newer pods have are copied, too.
fn filled_in() -> Vec<Patch> {
    let hook = "spec.containers[].preStop";
    let ports = "spec.containers[].ports";
    let said = [
        (
            format!("{hook}.exec.command"),
            "The command and its arguments.",
        ),
        (
            format!("{hook}.httpGet.host"),
            "The host; the pod's address where there is none.",
        ),
        (
            format!("{hook}.httpGet.httpHeaders"),
            "Headers of the request.",
        ),
        (
            format!("{hook}.httpGet.httpHeaders[].name"),
            "The header's name.",
        ),
        (
            format!("{hook}.httpGet.httpHeaders[].value"),
            "The header's value.",
        ),
        (format!("{hook}.httpGet.path"), "The path."),
        (
            format!("{hook}.httpGet.port"),
            "The port, a number or the name of one of the container's.",
        ),
        (format!("{hook}.httpGet.scheme"), "HTTP or HTTPS."),
        (format!("{hook}.sleep.seconds"), "Its seconds."),
        (format!("{hook}.tcpSocket.host"), "The host."),
        (format!("{hook}.tcpSocket.port"), "The port."),
        (
            format!("{ports}[].containerPort"),
            "The port of the pod's address.",
        ),
        (
            format!("{ports}[].hostIP"),
            "The node's address that it is bound to.",
        ),
        (format!("{ports}[].hostPort"), "The node's port."),
        (format!("{ports}[].name"), "The port's name."),
        (format!("{ports}[].protocol"), "TCP, UDP or SCTP."),
    ];
    let copied = [
        "",
        ".exec",
        ".httpGet",
        ".httpGet.httpHeaders[]",
        ".sleep",
        ".tcpSocket",
    ]
    .map(|part| format!("{hook}{part}"));
    let copied = copied.into_iter().chain([format!("{ports}[]")]);
    let whole = copied.map(|path| at(path, json!({"x-kubernetes-preserve-unknown-fields": true})));
    said.into_iter()
        .map(|(path, description)| at(path, json!({"description": description})))
        .chain(whole)
        .collect()
}
