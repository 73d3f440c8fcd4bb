//! Advanced StatefulSet: pods with a name, claims and a place in the order of their own, updated in place where that is possible.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::template::{PodTemplate, VolumeClaimTemplate};
use crate::v1beta1::statefulset::{PodManagementPolicy, StatefulSetUpdateStrategy};
pub use crate::v1beta1::statefulset::{StatefulSetCondition, StatefulSetStatus};

/// What the pods shall be, how many, and how a change reaches them.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "apps.kruise.io",
    version = "v1alpha1",
    kind = "StatefulSet",
    namespaced,
    storage = false,
    status = "StatefulSetStatus",
    derive = "Default",
    derive = "PartialEq",
    shortname = "sts",
    shortname = "asts",
    doc = "StatefulSet keeps pods running that each have a name, claims and a place in the order of their own, and brings changes to them. A change of images, labels or annotations can reach the pods in place: same pod, same node, same IP.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.labelSelector"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct StatefulSetSpec {
    /// How many pods are wanted. Defaults to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Which pods belong to the StatefulSet, by their labels. It must match the template's labels and cannot be changed later.
    pub selector: LabelSelector,
    /// The pods that are made, each named `<statefulset>-<ordinal>`. Its fields are those of a pod, see `kubectl explain
    /// pod.spec`; any of them may be used. A change of an image or of metadata can be made in place, any other change
    /// replaces pods.
    pub template: PodTemplate,
    /// Claims of which every pod gets one of its own, named `<template>-<statefulset>-<ordinal>` and mounted as a volume of the
    /// template's name. See `kubectl explain pvc.spec`. A pod that is replaced gets them back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volume_claim_templates: Vec<VolumeClaimTemplate>,
    /// The headless Service by which each pod has a DNS name, `<pod>.<service>`. It cannot be changed later.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub service_name: String,
    /// OrderedReady makes and deletes one pod at a time, in order. Parallel does so with all at once. It cannot be changed
    /// later. Defaults to OrderedReady.
    #[serde(default)]
    pub pod_management_policy: PodManagementPolicy,
    /// How a changed template reaches the pods: by the controller, a few pods at a time as rollingUpdate says, or by
    /// whoever deletes pods.
    #[serde(default)]
    pub update_strategy: StatefulSetUpdateStrategy,
    /// How many old revisions of the template are kept to roll back to, at most 200. Defaults to 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision_history_limit: Option<i32>,
}
