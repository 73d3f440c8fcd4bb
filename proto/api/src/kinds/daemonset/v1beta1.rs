//! Advanced DaemonSet: one pod on each node that fits, updated node by node, in place where that is
//! possible.

pub(crate) mod rules;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::rules::{more_than_none, name, no_hook_of_updates, not_above_all, v1beta1_ways};
use crate::fields::condition::status_condition;
use crate::fields::lifecycle::Lifecycle;
use crate::fields::template::PodTemplate;
use crate::kinds::cloneset::v1beta1::{DEFAULT_REVISION_HISTORY_LIMIT, MAX_REVISION_HISTORY_LIMIT};
use crate::schema::absent::{is_false, is_zero_i32, is_zero_i64};
use crate::schema::field::{checks, defaults_to, int_or_percent, label_selector, with};
use crate::schema::pods::{selector, selector_matches_template};
use crate::schema::template;

/// How many pods are created, and how many deleted, at a time, where nothing is said.
pub const DEFAULT_BURST_REPLICAS: i32 = 250;

/// What the pods shall be, on which nodes, and how a change reaches them.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "apps.kruise.io",
    version = "v1beta1",
    kind = "DaemonSet",
    namespaced,
    status = "DaemonSetStatus",
    derive = "Default",
    derive = "PartialEq",
    shortname = "daemon",
    shortname = "ads",
    doc = "DaemonSet keeps one pod running on each node that fits its template, and brings changes to them node by node. A change of images, labels or annotations can reach the pods in place: same pod, same IP.",
    validation = name(),
    printcolumn = r#"{"name": "DESIRED", "type": "integer", "jsonPath": ".status.desiredNumberScheduled", "description": "Nodes that shall have a pod."}"#,
    printcolumn = r#"{"name": "CURRENT", "type": "integer", "jsonPath": ".status.currentNumberScheduled", "description": "Those of them that have one."}"#,
    printcolumn = r#"{"name": "READY", "type": "integer", "jsonPath": ".status.numberReady", "description": "Those of them that have a ready one."}"#,
    printcolumn = r#"{"name": "UP-TO-DATE", "type": "integer", "jsonPath": ".status.updatedNumberScheduled", "description": "Those of them that have one of the update revision."}"#,
    printcolumn = r#"{"name": "AVAILABLE", "type": "integer", "jsonPath": ".status.numberAvailable", "description": "Those of them that have an available one."}"#,
    printcolumn = r#"{"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp", "description": "Time since the creation."}"#,
    printcolumn = r#"{"name": "CONTAINERS", "type": "string", "priority": 1, "jsonPath": ".spec.template.spec.containers[*].name", "description": "The template's containers."}"#,
    printcolumn = r#"{"name": "IMAGES", "type": "string", "priority": 1, "jsonPath": ".spec.template.spec.containers[*].image", "description": "The template's images."}"#,
    printcolumn = r#"{"name": "BLOCKED", "type": "string", "priority": 1, "jsonPath": ".status.conditions[?(@.type=='Blocked')].reason", "description": "The reason of the condition Blocked, which is there as long as something holds the object back."}"#,
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = checks(selector_matches_template()))]
pub struct DaemonSetSpec {
    /// Which pods belong to the DaemonSet, by their labels. It must match the template's labels and
    /// cannot be changed later.
    #[schemars(transform = selector("DaemonSet"))]
    pub selector: LabelSelector,
    /// The pods that are made. Their fields are those of a pod, see `kubectl explain pod.spec`;
    /// nodeName, nodeSelector, affinity and tolerations say on which nodes. A change of an image or
    /// of metadata can be made in place, any other change replaces pods.
    #[schemars(transform = with(template::pod("DaemonSet")))]
    pub template: PodTemplate,
    /// How a changed template reaches the pods.
    #[serde(default)]
    #[schemars(transform = defaults_to(json!({})), transform = checks(v1beta1_ways()))]
    pub update_strategy: DaemonSetUpdateStrategy,
    /// Seconds for which a pod must have been ready before it counts as available. Defaults to 0.
    #[serde(default, skip_serializing_if = "is_zero_i32")]
    #[schemars(range(min = 0, max = i32::MAX))]
    pub min_ready_seconds: i32,
    /// How many pods are created, and how many deleted, at a time: a number, or a percentage of the
    /// nodes that shall have a pod, rounded down, at least 1. Defaults to 250.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = defaults_to(DEFAULT_BURST_REPLICAS), transform = int_or_percent)]
    #[schemars(transform = checks([more_than_none()]))]
    pub burst_replicas: Option<IntOrString>,
    /// How many old revisions of the template are kept to roll back to, at most 200. Defaults to
    /// 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = MAX_REVISION_HISTORY_LIMIT))]
    #[schemars(transform = defaults_to(DEFAULT_REVISION_HISTORY_LIMIT))]
    pub revision_history_limit: Option<i32>,
    /// Points at which a pod waits until someone else agrees. A DaemonSet knows preDelete alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = checks([no_hook_of_updates()]))]
    pub lifecycle: Option<Lifecycle>,
    /// How pods are created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_strategy: Option<DaemonSetScaleStrategy>,
}

/// How pods are created.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DaemonSetScaleStrategy {
    /// Pods are created only on as many nodes as updateStrategy.rollingUpdate.partition leaves, in
    /// the order of their names. Defaults to false, one is created on every node at once.
    #[serde(default, skip_serializing_if = "is_false")]
    pub partitioned_scaling: bool,
}

/// How a changed template reaches the pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DaemonSetUpdateStrategy<T: Default = RollingUpdateType> {
    /// RollingUpdate brings a change to the pods by itself. OnDelete deletes no pods: the change
    /// reaches a pod only after its deletion. Defaults to RollingUpdate.
    #[serde(default, rename = "type")]
    #[schemars(transform = defaults_to("RollingUpdate"))]
    pub type_: DaemonSetUpdateStrategyType,
    /// How many pods at a time, how far, and whether in place.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = defaults_to(json!({})))]
    pub rolling_update: Option<RollingUpdateDaemonSet<T>>,
}

/// How a change reaches the pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum DaemonSetUpdateStrategyType {
    /// The controller brings it, a few nodes at a time.
    #[default]
    RollingUpdate,
    /// A deletion brings it: the next pod has the change.
    OnDelete,
}

/// How many pods at a time, how far, and whether in place.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RollingUpdateDaemonSet<T: Default = RollingUpdateType> {
    /// Standard replaces pods. InPlaceIfPossible changes running pods where only images, labels and
    /// annotations of the template differ and replaces them otherwise. Defaults to Standard.
    #[serde(default, rename = "rollingUpdateType")]
    #[schemars(transform = defaults_to("Standard"))]
    pub type_: T,
    /// How many of the nodes that shall have a pod may be without an available one for the update:
    /// a number or a percentage of them, rounded up. Defaults to 1, beside a maxSurge to 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = int_or_percent, transform = checks([not_above_all()]))]
    pub max_unavailable: Option<IntOrString>,
    /// On how many nodes a new pod may run beside the old one that it replaces: a number or a
    /// percentage of the nodes that shall have a pod, rounded up. Only with Standard. Defaults to
    /// 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = int_or_percent, transform = checks([not_above_all()]))]
    pub max_surge: Option<IntOrString>,
    /// Updates pods on these nodes only, by their labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = label_selector)]
    pub selector: Option<LabelSelector>,
    /// On how many nodes pods stay at the old revision: a number, or a percentage of the nodes that
    /// shall have a pod, rounded down. The last by name are updated first. Lower it step by step
    /// for a canary. Defaults to 0, all are updated.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = defaults_to(0), transform = int_or_percent)]
    pub partition: Option<IntOrString>,
    /// Stops the update where it is; pods are created and deleted with the nodes as ever. Defaults
    /// to false.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = defaults_to(false))]
    pub paused: Option<bool>,
}

/// How a pod is brought to the update revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum RollingUpdateType {
    /// By a new pod.
    #[default]
    Standard,
    /// In place where possible, by a new pod otherwise.
    InPlaceIfPossible,
}

/// What the controller saw and did last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady", "updatedNumberScheduled"]))]
pub struct DaemonSetStatus {
    /// Nodes that shall have a pod and have one.
    #[serde(default)]
    pub current_number_scheduled: i32,
    /// Nodes that have a pod and shall have none.
    #[serde(default)]
    pub number_misscheduled: i32,
    /// Nodes that shall have a pod.
    #[serde(default)]
    pub desired_number_scheduled: i32,
    /// Nodes that shall have a pod and have one that is ready.
    #[serde(default)]
    pub number_ready: i32,
    /// The metadata.generation that this status speaks of.
    #[serde(default, skip_serializing_if = "is_zero_i64")]
    pub observed_generation: i64,
    /// Nodes that shall have a pod and have one of the update revision.
    #[serde(default)]
    pub updated_number_scheduled: i32,
    /// Nodes that shall have a pod and have one that has been ready for at least minReadySeconds.
    #[serde(default, skip_serializing_if = "is_zero_i32")]
    pub number_available: i32,
    /// Nodes that shall have a pod and have no available one.
    #[serde(default, skip_serializing_if = "is_zero_i32")]
    pub number_unavailable: i32,
    /// How often a revision's name was taken already; part of the next name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// What is going wrong: Blocked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<DaemonSetCondition>,
    /// The hash of the template as it is now: the label controller-revision-hash of updated pods.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub update_revision: String,
}

/// One aspect of a DaemonSet's state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DaemonSetCondition {
    /// Blocked.
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

status_condition!(DaemonSetCondition in DaemonSetStatus);
