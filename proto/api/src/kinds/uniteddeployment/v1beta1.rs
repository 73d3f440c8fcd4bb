//! UnitedDeployment: one workload for each domain, among which the replicas of one application are
//! divided.

mod division;
pub(crate) mod fields;
pub(crate) mod rules;
pub(crate) mod shapes;
mod status;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeSelectorTerm, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

pub use self::rules::{MAX_NAME, MAX_SUBSETS};
pub use self::status::{SubsetStatus, UnitedDeploymentCondition, UnitedDeploymentStatus};

use self::division::share;
use self::fields::{node_term, partitions, tolerations, workload};
use self::rules::{
    is_subset_name, name, of_spec, one_template, one_way, tolerations_stay, unbounded,
};
use crate::schema::absent::is_false;
use crate::schema::field::{checks, defaults_to, list_by, with};
use crate::schema::pods::selector;
use crate::schema::rules::LABEL_VALUE;

/// Most bytes of JSON that the template of one UnitedDeployment comes to in all of its subsets.
/// Otherwise one object of 256 KiB would fill etcd and the controller's memory with 50 MiB.
pub const MAX_RENDERED: usize = 4 << 20;
/// Old revisions that are kept, unless the spec says otherwise.
pub const DEFAULT_REVISION_HISTORY_LIMIT: i32 = 10;
/// Seconds that a pod waits for a node before its subset counts as unschedulable, unless the spec
/// says otherwise.
pub const DEFAULT_RESCHEDULE_CRITICAL_SECONDS: i32 = 30;
/// Seconds for which a subset stays unschedulable, unless the spec says otherwise.
pub const DEFAULT_UNSCHEDULABLE_DURATION: i32 = 300;

/// What runs in each domain, and how many of the replicas each domain gets.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "apps.kruise.io",
    version = "v1beta1",
    kind = "UnitedDeployment",
    namespaced,
    status = "UnitedDeploymentStatus",
    derive = "Default",
    derive = "PartialEq",
    shortname = "ud",
    doc = "UnitedDeployment runs one application in several domains, such as zones, node pools or architectures: it makes one workload for each of them, a subset, and divides the replicas among them.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.labelSelector"
    ),
    validation = name(),
    printcolumn = r#"{"name": "DESIRED", "type": "integer", "jsonPath": ".spec.replicas", "description": "Pods that are wanted."}"#,
    printcolumn = r#"{"name": "CURRENT", "type": "integer", "jsonPath": ".status.replicas", "description": "Pods that exist, without reserved ones."}"#,
    printcolumn = r#"{"name": "UPDATED", "type": "integer", "jsonPath": ".status.updatedReplicas", "description": "Pods of the updated revision, without reserved ones."}"#,
    printcolumn = r#"{"name": "READY", "type": "integer", "jsonPath": ".status.readyReplicas", "description": "Pods that are ready."}"#,
    printcolumn = r#"{"name": "RESERVED", "type": "integer", "priority": 1, "jsonPath": ".status.reservedPods", "description": "Pods for which other subsets run substitutes."}"#,
    printcolumn = r#"{"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp", "description": "Time since the creation."}"#,
    printcolumn = r#"{"name": "BLOCKED", "type": "string", "priority": 1, "jsonPath": ".status.conditions[?(@.type=='Blocked')].reason", "description": "The reason of the condition Blocked, which is there as long as something holds the object back."}"#,
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["selector", "template"]), transform = checks(of_spec()))]
pub struct UnitedDeploymentSpec {
    /// How many pods are wanted in all subsets together. Defaults to the sum of the subsets'
    /// replicas if each of them has a number, otherwise to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = i32::MAX))]
    pub replicas: Option<i32>,
    /// Which pods belong to the UnitedDeployment, by their labels. It must match the labels of the
    /// template and of its pods, and cannot be changed later.
    #[schemars(transform = selector("UnitedDeployment"))]
    pub selector: LabelSelector,
    /// The workload that each subset gets. Exactly one of its fields must be set.
    #[serde(default)]
    pub template: SubsetTemplate,
    /// The subsets, and how the replicas are divided among them.
    #[serde(default)]
    pub topology: Topology,
    /// How a change of the template reaches the subsets.
    #[serde(default)]
    #[schemars(transform = defaults_to(json!({"type": "Manual", "manualUpdate": {}})))]
    pub update_strategy: UpdateStrategy,
    /// How many old revisions of the template are kept to roll back to. Defaults to 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = i32::MAX))]
    #[schemars(transform = defaults_to(DEFAULT_REVISION_HISTORY_LIMIT))]
    pub revision_history_limit: Option<i32>,
}

/// How many bytes of JSON a template comes to in so many subsets.
pub fn rendered(template: &impl Serialize, subsets: usize) -> usize {
    serde_json::to_string(template)
        .map_or(0, |text| text.len())
        .saturating_mul(subsets)
}

/// The workload that each subset gets. Exactly one field is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = checks(one_template()))]
pub struct SubsetTemplate {
    /// Each subset is a StatefulSet of Kubernetes, see `kubectl explain statefulset.spec
    /// --api-version=apps/v1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stateful_set_template: Option<WorkloadTemplate>,
    /// Each subset is an Advanced StatefulSet, see `kubectl explain statefulset.spec
    /// --api-version=apps.kruise.io/v1beta1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advanced_stateful_set_template: Option<WorkloadTemplate>,
    /// Each subset is a CloneSet, see `kubectl explain cloneset.spec`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clone_set_template: Option<WorkloadTemplate>,
    /// Each subset is a Deployment, see `kubectl explain deployment.spec`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deployment_template: Option<WorkloadTemplate>,
}

/// A workload of any kind. Unknown fields survive; nothing is defaulted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = workload)]
pub struct WorkloadTemplate {
    /// Labels and annotations of the workload. The labels must match the selector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub metadata: Option<Value>,
    /// The workload's spec. Its replicas, selector and partition do not count, because each subset
    /// has its own.
    #[schemars(schema_with = "any_object")]
    pub spec: Map<String, Value>,
}

/// The subsets, and how the replicas are divided among them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = checks([one_way(), unbounded()]))]
pub struct Topology {
    /// The subsets; at most 200. Where replicas are scarce, the first ones come first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_SUBSETS), transform = list_by(["name"]))]
    pub subsets: Vec<Subset>,
    /// What happens when the nodes of a subset have no room for its pods.
    #[serde(default)]
    pub schedule_strategy: ScheduleStrategy,
}

/// One domain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = checks([tolerations_stay(), share("replicas"), share("minReplicas"), share("maxReplicas")]))]
pub struct Subset {
    /// The subset's name, unique among the subsets. The names of its workload and pods contain it.
    #[schemars(length(min = 1, max = LABEL_VALUE), transform = checks([is_subset_name()]))]
    pub name: String,
    /// Which nodes belong to the subset. It is added to what the template requires, and cannot be
    /// changed later.
    #[serde(default)]
    #[schemars(transform = defaults_to(json!({})), transform = node_term)]
    pub node_selector_term: NodeSelectorTerm,
    /// Taints that the subset's pods tolerate, beside those that the template tolerates. They
    /// cannot be changed later.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = tolerations)]
    pub tolerations: Vec<Toleration>,
    /// How many pods the subset gets, a number or a percentage of the replicas. Subsets without
    /// share the rest evenly. It cannot be used where any subset has minReplicas or maxReplicas.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0, "maximum" = i32::MAX))]
    pub replicas: Option<IntOrString>,
    /// How many pods the subset gets before others get more than theirs, a number or a percentage
    /// of the replicas. Defaults to 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0, "maximum" = i32::MAX))]
    pub min_replicas: Option<IntOrString>,
    /// How many pods the subset gets at most, a number or a percentage of the replicas. At least
    /// one subset has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0, "maximum" = i32::MAX))]
    pub max_replicas: Option<IntOrString>,
    /// What the subset's pods have otherwise: a strategic merge patch of the pod template. It takes
    /// precedence over nodeSelectorTerm and tolerations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub patch: Option<Value>,
}

/// What happens when the nodes of a subset have no room for its pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleStrategy {
    /// Fixed keeps to the division, even if pods wait for a node. Adaptive gives the replicas of an
    /// unschedulable subset to others. Defaults to Fixed.
    #[serde(default, rename = "type")]
    pub type_: ScheduleStrategyType,
    /// Details of Adaptive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adaptive: Option<AdaptiveStrategy>,
}

/// Whether the replicas of an unschedulable subset go to others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ScheduleStrategyType {
    /// They stay.
    #[default]
    #[serde(alias = "")]
    Fixed,
    /// They go to others.
    Adaptive,
}

/// Details of Adaptive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdaptiveStrategy {
    /// Seconds that a pod waits for a node before its subset counts as unschedulable. Defaults to
    /// 30.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = i32::MAX))]
    pub reschedule_critical_seconds: Option<i32>,
    /// Seconds for which a subset stays unschedulable. Defaults to 300.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = i32::MAX))]
    pub unschedulable_duration: Option<i32>,
    /// Whether pods that wait for a node stay, and other subsets run substitutes until they are
    /// ready. Only with cloneSetTemplate and deploymentTemplate. Defaults to false.
    #[serde(default, skip_serializing_if = "is_false")]
    pub reserve_unschedulable_pods: bool,
}

impl ScheduleStrategy {
    /// Whether the replicas of an unschedulable subset go to others.
    pub fn is_adaptive(&self) -> bool {
        self.type_ == ScheduleStrategyType::Adaptive
    }

    /// Whether pods that wait for a node stay beside their substitutes.
    pub fn reserves(&self) -> bool {
        self.is_adaptive()
            && self
                .adaptive
                .as_ref()
                .is_some_and(|adaptive| adaptive.reserve_unschedulable_pods)
    }

    /// Seconds that a pod waits for a node before its subset counts as unschedulable.
    pub fn reschedule_critical_seconds(&self) -> i32 {
        let said = self
            .adaptive
            .as_ref()
            .and_then(|adaptive| adaptive.reschedule_critical_seconds);
        said.unwrap_or(DEFAULT_RESCHEDULE_CRITICAL_SECONDS)
    }

    /// Seconds for which a subset stays unschedulable.
    pub fn unschedulable_duration(&self) -> i32 {
        let said = self
            .adaptive
            .as_ref()
            .and_then(|adaptive| adaptive.unschedulable_duration);
        said.unwrap_or(DEFAULT_UNSCHEDULABLE_DURATION)
    }
}

/// How a change of the template reaches the subsets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateStrategy {
    /// Manual: each subset is updated as far as its partition allows. There is no other.
    #[serde(default, rename = "type")]
    #[schemars(transform = defaults_to("Manual"))]
    pub type_: UpdateStrategyType,
    /// Details of Manual.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manual_update: Option<ManualUpdate>,
}

/// How a change of the template reaches the subsets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum UpdateStrategyType {
    /// As far as the partitions allow.
    #[default]
    #[serde(alias = "")]
    Manual,
}

/// Details of Manual.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManualUpdate {
    /// How many pods stay at the old revision, by name of the subset. Subsets that are missing are
    /// updated as a whole.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(transform = with(partitions()))]
    pub partitions: BTreeMap<String, i32>,
}

impl UpdateStrategy {
    /// How many pods of a subset stay at the old revision.
    pub fn partition(&self, subset: &str) -> i32 {
        let partitions = self.manual_update.as_ref().map(|manual| &manual.partitions);
        partitions
            .and_then(|partitions| partitions.get(subset))
            .copied()
            .unwrap_or_default()
    }
}

fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}
