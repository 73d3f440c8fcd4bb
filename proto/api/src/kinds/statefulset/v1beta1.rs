//! Advanced StatefulSet: pods with a name, claims and a place in the order of their own, updated in
//! place where that is possible.

pub(crate) mod rules;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::rules::{more_than_none, of_spec, rolls_by_itself};
use crate::fields::condition::status_condition;
use crate::fields::inplace::InPlaceUpdateStrategy;
use crate::fields::lifecycle::Lifecycle;
use crate::fields::template::{PodTemplate, VolumeClaimTemplate};
use crate::fields::update_order::UpdatePriorityStrategy;
use crate::kinds::cloneset::v1beta1::{DEFAULT_REVISION_HISTORY_LIMIT, MAX_REVISION_HISTORY_LIMIT};
use crate::schema::absent::{is_false, is_zero_i32, is_zero_i64};
use crate::schema::field::{checks, defaults_to, int_or_percent, with};
use crate::schema::pods::selector;
use crate::schema::rules::label_name;
use crate::schema::template;

/// The most seconds of `minReadySeconds`.
pub const MAX_MIN_READY_SECONDS: i32 = 300;
/// The most entries of `reserveOrdinals`, each of which may be a range.
const MOST_RESERVED: usize = 1000;

/// What the pods shall be, how many, and how a change reaches them.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "apps.kruise.io",
    version = "v1beta1",
    kind = "StatefulSet",
    namespaced,
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
    ),
    validation = label_name(52, "its pods have host names and labels made from it"),
    printcolumn = r#"{"name": "DESIRED", "type": "integer", "jsonPath": ".spec.replicas", "description": "Pods that are wanted."}"#,
    printcolumn = r#"{"name": "CURRENT", "type": "integer", "jsonPath": ".status.replicas", "description": "Pods that exist."}"#,
    printcolumn = r#"{"name": "UPDATED", "type": "integer", "jsonPath": ".status.updatedReplicas", "description": "Pods of the update revision."}"#,
    printcolumn = r#"{"name": "READY", "type": "integer", "jsonPath": ".status.readyReplicas", "description": "Pods that are ready."}"#,
    printcolumn = r#"{"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp", "description": "Time since the creation."}"#,
    printcolumn = r#"{"name": "CONTAINERS", "type": "string", "priority": 1, "jsonPath": ".spec.template.spec.containers[*].name", "description": "The template's containers."}"#,
    printcolumn = r#"{"name": "IMAGES", "type": "string", "priority": 1, "jsonPath": ".spec.template.spec.containers[*].image", "description": "The template's images."}"#,
    printcolumn = r#"{"name": "BLOCKED", "type": "string", "priority": 1, "jsonPath": ".status.conditions[?(@.type=='Blocked')].reason", "description": "The reason of the condition Blocked, which is there as long as something holds the object back."}"#,
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = checks(of_spec()))]
pub struct StatefulSetSpec {
    /// How many pods are wanted. Defaults to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = i32::MAX), transform = defaults_to(1))]
    pub replicas: Option<i32>,
    /// Which pods belong to the StatefulSet, by their labels. It must match the template's labels
    /// and cannot be changed later.
    #[schemars(transform = selector("StatefulSet"))]
    pub selector: LabelSelector,
    /// The pods that are made, each named `<statefulset>-<ordinal>`. Its fields are those of a pod,
    /// see `kubectl explain pod.spec`; any of them may be used. A change of an image or of metadata
    /// can be made in place, any other change replaces pods.
    #[schemars(transform = with(template::pod("StatefulSet")))]
    pub template: PodTemplate,
    /// Claims of which every pod gets one of its own, named `<template>-<statefulset>-<ordinal>`
    /// and mounted as a volume of the template's name. See `kubectl explain pvc.spec`. A pod that
    /// is replaced gets them back. A template that is added replaces the pods without its volume,
    /// as an update does; one that is taken away changes no pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volume_claim_templates: Vec<VolumeClaimTemplate>,
    /// How a change of volumeClaimTemplates reaches the claims that there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_claim_update_strategy: Option<VolumeClaimUpdateStrategy>,
    /// The headless Service by which each pod has a DNS name, `<pod>.<service>`. It cannot be
    /// changed later.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub service_name: String,
    /// OrderedReady makes and deletes one pod at a time, in order; an update takes as many as
    /// rollingUpdate.maxUnavailable says out of service. Parallel makes and deletes all at once. It
    /// cannot be changed later. Defaults to OrderedReady.
    #[serde(default)]
    #[schemars(transform = defaults_to("OrderedReady"))]
    pub pod_management_policy: PodManagementPolicy,
    /// How a changed template reaches the pods: by the controller, a few pods at a time as
    /// rollingUpdate says, or after the deletion of each pod.
    #[serde(default)]
    #[schemars(transform = defaults_to(json!({})))]
    pub update_strategy: StatefulSetUpdateStrategy,
    /// How many old revisions of the template are kept to roll back to, at most 200. Defaults to
    /// 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = MAX_REVISION_HISTORY_LIMIT))]
    #[schemars(transform = defaults_to(DEFAULT_REVISION_HISTORY_LIMIT))]
    pub revision_history_limit: Option<i32>,
    /// Ordinals that no pod has: numbers, and ranges such as "2-5", both ends included. A pod that
    /// has one goes, and another is made for it first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_RESERVED), extend("x-kubernetes-list-type" = "atomic"))]
    pub reserve_ordinals: Vec<IntOrString>,
    /// Points at which a pod waits until someone else agrees.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifecycle: Option<Lifecycle>,
    /// How the number of pods changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_strategy: Option<StatefulSetScaleStrategy>,
    /// What becomes of claims when their pod, or the StatefulSet, goes. They stay where nothing is
    /// said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim_retention_policy: Option<ClaimRetentionPolicy>,
    /// Where the ordinals begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ordinals: Option<StatefulSetOrdinals>,
}

/// How pods are made and deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum PodManagementPolicy {
    /// One at a time, in order.
    #[default]
    OrderedReady,
    /// All at once.
    Parallel,
}

/// How a change of claim templates reaches claims.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VolumeClaimUpdateStrategy {
    /// OnDelete leaves claims alone: the next claim is as the template. OnPodRollingUpdate enlarges
    /// the claims of each pod before it is updated. Defaults to OnDelete.
    #[serde(default, rename = "type")]
    #[schemars(transform = defaults_to("OnDelete"))]
    pub type_: VolumeClaimUpdateStrategyType,
}

/// How a change reaches the claims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum VolumeClaimUpdateStrategyType {
    /// A deletion brings it: the next claim has the change.
    #[default]
    OnDelete,
    /// The controller brings it, with the update of the claim's pod.
    OnPodRollingUpdate,
}

/// How the number of pods changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatefulSetScaleStrategy {
    /// While scaling up: no more pods are created as long as this many, a number or a percentage of
    /// the replicas rounded down, were made and are not available yet. Only with Parallel. Without
    /// it all are created at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = int_or_percent, transform = checks([more_than_none()]))]
    pub max_unavailable: Option<IntOrString>,
}

/// What becomes of claims.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimRetentionPolicy {
    /// When the StatefulSet is deleted. Defaults to Retain.
    #[serde(default)]
    #[schemars(transform = defaults_to("Retain"))]
    pub when_deleted: ClaimRetention,
    /// When its ordinal is no longer wanted: there are fewer replicas, or it is reserved, or the
    /// start is another. Defaults to Retain.
    #[serde(default)]
    #[schemars(transform = defaults_to("Retain"))]
    pub when_scaled: ClaimRetention,
}

/// Whether claims stay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ClaimRetention {
    /// They stay.
    #[default]
    Retain,
    /// They are deleted.
    Delete,
}

/// Where ordinals begin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StatefulSetOrdinals {
    /// The first ordinal. Counts where the feature gate StatefulSetStartOrdinal is on; ordinals
    /// begin with 0 elsewhere.
    #[serde(default)]
    #[schemars(range(min = 0, max = i32::MAX))]
    pub start: i32,
}

/// How a changed template reaches the pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = checks([rolls_by_itself()]))]
pub struct StatefulSetUpdateStrategy {
    /// RollingUpdate brings a change to the pods by itself. OnDelete deletes no pods: the change
    /// reaches a pod only after its deletion. Defaults to RollingUpdate.
    #[serde(default, rename = "type")]
    #[schemars(transform = defaults_to("RollingUpdate"))]
    pub type_: StatefulSetUpdateStrategyType,
    /// How many pods at a time, how far, in which order, and whether in place. With OnDelete,
    /// nothing but the defaults.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = defaults_to(json!({})))]
    pub rolling_update: Option<RollingUpdateStatefulSetStrategy>,
}

/// How a change reaches the pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum StatefulSetUpdateStrategyType {
    /// The controller brings it, a few pods at a time.
    #[default]
    RollingUpdate,
    /// A deletion brings it: the next pod has the change.
    OnDelete,
}

/// How many pods at a time, how far, in which order, and whether in place.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RollingUpdateStatefulSetStrategy {
    /// How many pods stay at the old revision: those with the lowest ordinals, or, with
    /// unorderedUpdate, those whose turn comes last. Lower it step by step for a canary. Defaults
    /// to 0, all are updated.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = i32::MAX), transform = defaults_to(0))]
    pub partition: Option<i32>,
    /// How many pods may be out of service at a time for the update, a number or a percentage of
    /// the replicas rounded down, at least 1. With podManagementPolicy OrderedReady the next pods
    /// follow when all pods are available. Defaults to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = defaults_to(1), transform = int_or_percent)]
    #[schemars(transform = checks([more_than_none()]))]
    pub max_unavailable: Option<IntOrString>,
    /// ReCreate replaces pods. InPlaceIfPossible changes running pods where only images, labels and
    /// annotations of the template differ and replaces them otherwise. InPlaceOnly never replaces:
    /// a change that cannot be made in place is refused with a condition that names the field.
    /// Defaults to ReCreate.
    #[serde(default)]
    #[schemars(transform = defaults_to("ReCreate"))]
    pub pod_update_policy: PodUpdatePolicy,
    /// Stops the update where it is; scaling goes on. Defaults to false.
    #[serde(default, skip_serializing_if = "is_false")]
    pub paused: bool,
    /// Updates pods in another order than that of their ordinals. Only with podManagementPolicy
    /// Parallel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unordered_update: Option<UnorderedUpdateStrategy>,
    /// Details of updating in place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_place_update_strategy: Option<InPlaceUpdateStrategy>,
    /// Seconds for which a pod must have been ready before it counts as available, at most 300.
    /// Defaults to 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = MAX_MIN_READY_SECONDS), transform = defaults_to(0))]
    pub min_ready_seconds: Option<i32>,
}

/// How a pod is brought to the update revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum PodUpdatePolicy {
    /// By a new pod.
    #[default]
    ReCreate,
    /// In place where possible, by a new pod otherwise.
    InPlaceIfPossible,
    /// In place or not at all.
    InPlaceOnly,
}

/// Another order than that of the ordinals.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnorderedUpdateStrategy {
    /// Which pods are updated first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_strategy: Option<UpdatePriorityStrategy>,
}

/// What the controller saw and did last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatefulSetStatus {
    /// The metadata.generation that this status speaks of.
    #[serde(default, skip_serializing_if = "is_zero_i64")]
    pub observed_generation: i64,
    /// Pods that exist.
    #[serde(default)]
    pub replicas: i32,
    /// Pods that are ready.
    #[serde(default)]
    pub ready_replicas: i32,
    /// Pods that have been ready for at least minReadySeconds.
    #[serde(default)]
    pub available_replicas: i32,
    /// Pods of currentRevision.
    #[serde(default)]
    pub current_replicas: i32,
    /// Pods of updateRevision.
    #[serde(default)]
    pub updated_replicas: i32,
    /// Pods of updateRevision that are ready.
    #[serde(default, skip_serializing_if = "is_zero_i32")]
    pub updated_ready_replicas: i32,
    /// Pods of updateRevision that have been ready for at least minReadySeconds.
    #[serde(default, skip_serializing_if = "is_zero_i32")]
    pub updated_available_replicas: i32,
    /// The ControllerRevision that all pods had before the update, and have again when it is done.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub current_revision: String,
    /// The ControllerRevision of the template as it is now.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub update_revision: String,
    /// How often a revision's name was taken already; part of the next name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// What is going wrong: FailedCreatePod, FailedUpdatePod, Blocked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<StatefulSetCondition>,
    /// The selector as a string, for HorizontalPodAutoscalers.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label_selector: String,
    /// By claim template, how many claims are as it says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volume_claims: Vec<VolumeClaimStatus>,
}

/// One aspect of a StatefulSet's state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatefulSetCondition {
    /// FailedCreatePod, FailedUpdatePod or Blocked.
    #[serde(rename = "type")]
    pub type_: String,
    /// True, False or Unknown.
    pub status: String,
    /// When the status last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// Why, in one word.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why, in a sentence that names object, field, value and remedy.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// How far the claims of one template are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeClaimStatus {
    /// The template's name.
    #[serde(default)]
    pub volume_claim_name: String,
    /// Claims that request at least what the template does.
    #[serde(default)]
    pub compatible_replicas: i32,
    /// Those of them whose volume has what they request.
    #[serde(default)]
    pub compatible_ready_replicas: i32,
}

status_condition!(StatefulSetCondition in StatefulSetStatus);
