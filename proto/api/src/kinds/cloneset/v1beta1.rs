//! CloneSet: a set of interchangeable pods, updated in place where that is possible.

pub(crate) mod rules;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::rules::{surge_in_place, v1beta1_rules};
use crate::fields::condition::status_condition;
use crate::fields::inplace::InPlaceUpdateStrategy;
use crate::fields::lifecycle::Lifecycle;
use crate::fields::template::{PodTemplate, VolumeClaimTemplate};
use crate::fields::update_order::{UpdatePriorityStrategy, UpdateScatterTerm};
use crate::schema::absent::{is_false, is_zero_i32, is_zero_i64};
use crate::schema::field::{checks, defaults_to, int_or_percent, list_by, with};
use crate::schema::pods::{selector, selector_matches_template};
use crate::schema::template;

/// `maxUnavailable` of an update where nothing is said.
pub const DEFAULT_MAX_UNAVAILABLE: &str = "20%";
/// `revisionHistoryLimit` where nothing is said.
pub const DEFAULT_REVISION_HISTORY_LIMIT: i32 = 10;
/// The highest `revisionHistoryLimit`. Every revision is a whole template, held by each replica of
/// the controller for as long as it is kept: 200 are twenty times the default, and at the largest
/// size of a template 50 MiB.
pub const MAX_REVISION_HISTORY_LIMIT: i32 = 200;

/// What the pods shall be, how many, and how a change reaches them.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "apps.kruise.io",
    version = "v1beta1",
    kind = "CloneSet",
    namespaced,
    status = "CloneSetStatus",
    derive = "Default",
    derive = "PartialEq",
    shortname = "clone",
    doc = "CloneSet keeps a number of interchangeable pods running and brings changes to them. A change of images, labels or annotations can reach the pods in place: same pod, same node, same IP.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.labelSelector"
    ),
    printcolumn = r#"{"name": "DESIRED", "type": "integer", "jsonPath": ".spec.replicas", "description": "Pods that are wanted."}"#,
    printcolumn = r#"{"name": "UPDATED", "type": "integer", "jsonPath": ".status.updatedReplicas", "description": "Pods of the update revision."}"#,
    printcolumn = r#"{"name": "UPDATED_READY", "type": "integer", "jsonPath": ".status.updatedReadyReplicas", "description": "Pods of the update revision that are ready."}"#,
    printcolumn = r#"{"name": "UPDATED_AVAILABLE", "type": "integer", "jsonPath": ".status.updatedAvailableReplicas", "description": "Pods of the update revision that are available."}"#,
    printcolumn = r#"{"name": "READY", "type": "integer", "jsonPath": ".status.readyReplicas", "description": "Pods that are ready."}"#,
    printcolumn = r#"{"name": "TOTAL", "type": "integer", "jsonPath": ".status.replicas", "description": "Pods that exist."}"#,
    printcolumn = r#"{"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp", "description": "Time since the creation."}"#,
    printcolumn = r#"{"name": "CONTAINERS", "type": "string", "priority": 1, "jsonPath": ".spec.template.spec.containers[*].name", "description": "The template's containers."}"#,
    printcolumn = r#"{"name": "IMAGES", "type": "string", "priority": 1, "jsonPath": ".spec.template.spec.containers[*].image", "description": "The template's images."}"#,
    printcolumn = r#"{"name": "SELECTOR", "type": "string", "priority": 1, "jsonPath": ".status.labelSelector", "description": "The selector of the pods."}"#,
    printcolumn = r#"{"name": "BLOCKED", "type": "string", "priority": 1, "jsonPath": ".status.conditions[?(@.type=='Blocked')].reason", "description": "The reason of the condition Blocked, which is there as long as something holds the object back."}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = checks(selector_matches_template()), transform = checks(v1beta1_rules()))]
pub struct CloneSetSpec {
    /// How many pods are wanted. Defaults to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = i32::MAX), transform = defaults_to(1))]
    pub replicas: Option<i32>,
    /// Which pods belong to the CloneSet, by their labels. It must match the template's labels and
    /// cannot be changed later. Pods that match but have another owner, or none, are left alone.
    #[schemars(transform = selector("CloneSet"))]
    pub selector: LabelSelector,
    /// The pods that are made. Its fields are those of a pod, see `kubectl explain pod.spec`; any
    /// of them may be used. A change of an image or of metadata can be made in place, any other
    /// change replaces pods.
    #[schemars(transform = with(template::pod("CloneSet")))]
    pub template: PodTemplate,
    /// Claims of which every pod gets one of its own, named `<template>-<cloneset>-<instance>` and
    /// mounted as a volume of the template's name. See `kubectl explain pvc.spec`. They go with a
    /// pod that the controller deletes; those of a pod that someone else deletes stay for the next
    /// one if scaleStrategy.enablePVCReuse is set, and go too if not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volume_claim_templates: Vec<VolumeClaimTemplate>,
    /// How the number of pods changes.
    #[serde(default)]
    #[schemars(transform = defaults_to(json!({})))]
    pub scale_strategy: CloneSetScaleStrategy,
    /// How a changed template reaches the pods: by the controller, a few pods at a time as
    /// rollingUpdate says, or after the deletion of each pod. To have new images in running pods,
    /// without new pods, nodes and addresses, set rollingUpdate.podUpdatePolicy to
    /// InPlaceIfPossible.
    #[serde(default)]
    #[schemars(transform = defaults_to(json!({})))]
    pub update_strategy: CloneSetUpdateStrategy,
    /// How many old revisions of the template are kept to roll back to, at most 200. Defaults to
    /// 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = MAX_REVISION_HISTORY_LIMIT))]
    #[schemars(transform = defaults_to(DEFAULT_REVISION_HISTORY_LIMIT))]
    pub revision_history_limit: Option<i32>,
    /// Seconds for which a pod must have been ready before it counts as available. Defaults to 0.
    #[serde(default, skip_serializing_if = "is_zero_i32")]
    #[schemars(range(min = 0, max = i32::MAX))]
    pub min_ready_seconds: i32,
    /// Points at which a pod waits until someone else agrees.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifecycle: Option<Lifecycle>,
    /// Seconds without progress after which the condition Progressing turns False with reason
    /// ProgressDeadlineExceeded. Time spent paused does not count. Without it there is no such
    /// condition.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = i32::MAX))]
    pub progress_deadline_seconds: Option<i32>,
}

/// How the number of pods changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CloneSetScaleStrategy {
    /// Names of pods that go first. With fewer replicas at the same time they are what is removed;
    /// without, they are replaced. Names of pods that are gone are taken off the list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(length(min = 1, max = 253)), extend("x-kubernetes-list-type" = "set"))]
    pub pods_to_delete: Vec<String>,
    /// While scaling up: no more pods are created as long as this many, a number or a percentage of
    /// the replicas, are not available yet. Without it all are created at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = int_or_percent)]
    pub max_unavailable: Option<IntOrString>,
    /// Whether a replaced pod gets the claims of the one before it. Defaults to false: every pod
    /// gets new ones. (v1alpha1 has the opposite, disablePVCReuse, and reuses where nothing is
    /// said.)
    #[serde(default, rename = "enablePVCReuse")]
    #[schemars(transform = defaults_to(false))]
    pub enable_pvc_reuse: bool,
    /// Whether pods that wait in state PreparingDelete no longer count as replicas, so that their
    /// replacements are created at once. Defaults to false. (In v1alpha1 this is the label
    /// apps.kruise.io/cloneset-scaling-exclude-preparing-delete.)
    #[serde(default, skip_serializing_if = "is_false")]
    #[schemars(transform = defaults_to(false))]
    pub exclude_preparing_delete: bool,
}

/// How a changed template reaches the pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CloneSetUpdateStrategy {
    /// RollingUpdate brings a change to the pods by itself. OnDelete deletes no pods: the change
    /// reaches a pod only after its deletion. Defaults to RollingUpdate.
    #[serde(default, rename = "type")]
    #[schemars(transform = defaults_to("RollingUpdate"))]
    pub type_: CloneSetUpdateStrategyType,
    /// How many pods at a time (maxUnavailable, maxSurge), how far (partition, paused), in which
    /// order (priorityStrategy, scatterStrategy), and whether in place (podUpdatePolicy,
    /// inPlaceUpdateStrategy).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = defaults_to(json!({})))]
    pub rolling_update: Option<RollingUpdateCloneSetStrategy>,
}

/// How a change reaches the pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum CloneSetUpdateStrategyType {
    /// The controller brings it, a few pods at a time.
    #[default]
    RollingUpdate,
    /// A deletion brings it: the next pod has the change.
    OnDelete,
}

/// How many pods at a time, how far, in which order, and whether in place.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = checks([surge_in_place("podUpdatePolicy")]))]
pub struct RollingUpdateCloneSetStrategy {
    /// How many pods stay at the old revision, a number or a percentage of the replicas, rounded
    /// up: with 10 replicas and partition 8, two pods are updated. Lower it step by step for a
    /// canary. Defaults to 0, all are updated.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = defaults_to(0), transform = int_or_percent)]
    pub partition: Option<IntOrString>,
    /// How many pods may be out of service at a time for the update, a number or a percentage of
    /// the replicas. A percentage is rounded up, or down when maxSurge is not 0. Defaults to 20%.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = defaults_to(DEFAULT_MAX_UNAVAILABLE), transform = int_or_percent)]
    pub max_unavailable: Option<IntOrString>,
    /// How many pods may exist beyond the replicas at a time for the update, a number or a
    /// percentage of the replicas, rounded up. Has no place with InPlaceOnly, which never replaces
    /// pods. Defaults to 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = defaults_to(0), transform = int_or_percent)]
    pub max_surge: Option<IntOrString>,
    /// ReCreate replaces pods. InPlaceIfPossible changes running pods where only images, labels and
    /// annotations of the template differ and replaces them otherwise. InPlaceOnly never replaces:
    /// a change that cannot be made in place is refused with a condition that names the field.
    /// Defaults to ReCreate.
    #[serde(default)]
    #[schemars(transform = defaults_to("ReCreate"))]
    pub pod_update_policy: CloneSetPodUpdateStrategyType,
    /// Stops the update where it is; scaling goes on. Defaults to false.
    #[serde(default, skip_serializing_if = "is_false")]
    pub paused: bool,
    /// Which pods are updated first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_strategy: Option<UpdatePriorityStrategy>,
    /// Labels whose pods are spread over the whole update instead of coming one after the other.
    /// Applied after priorityStrategy; better use only one of the two.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = list_by(["key", "value"]))]
    pub scatter_strategy: Vec<UpdateScatterTerm>,
    /// Details of updating in place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_place_update_strategy: Option<InPlaceUpdateStrategy>,
}

/// How a pod is brought to the update revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum CloneSetPodUpdateStrategyType {
    /// By a new pod.
    #[default]
    ReCreate,
    /// In place where possible, by a new pod otherwise.
    InPlaceIfPossible,
    /// In place or not at all.
    InPlaceOnly,
}

/// What the controller saw and did last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["availableReplicas", "readyReplicas", "replicas", "updatedReadyReplicas", "updatedReplicas"]))]
pub struct CloneSetStatus {
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
    /// Pods of updateRevision.
    #[serde(default)]
    pub updated_replicas: i32,
    /// Pods of updateRevision that are ready.
    #[serde(default)]
    pub updated_ready_replicas: i32,
    /// Pods of updateRevision that have been ready for at least minReadySeconds.
    #[serde(default, skip_serializing_if = "is_zero_i32")]
    pub updated_available_replicas: i32,
    /// Pods that the partition lets be updated: replicas less partition.
    #[serde(default, skip_serializing_if = "is_zero_i32")]
    pub expected_updated_replicas: i32,
    /// The ControllerRevision of the template as it is now.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub update_revision: String,
    /// The ControllerRevision that all pods had before the update, and have again when it is done.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub current_revision: String,
    /// How often a revision's name was taken already; part of the next name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// What is going on or going wrong: Progressing, FailedScale, FailedUpdate, Blocked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<CloneSetCondition>,
    /// The selector as a string, for HorizontalPodAutoscalers.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label_selector: String,
}

/// One aspect of a CloneSet's state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CloneSetCondition {
    /// Progressing, FailedScale, FailedUpdate or Blocked.
    #[serde(rename = "type")]
    pub type_: String,
    /// True, False or Unknown.
    pub status: String,
    /// When the condition was last written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
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

status_condition!(CloneSetCondition with last_update_time in CloneSetStatus);
