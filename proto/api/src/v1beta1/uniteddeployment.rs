//! UnitedDeployment: one workload for each domain, among which the replicas of one application are divided.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeSelectorTerm, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::absent::is_false;

/// Most subsets of one UnitedDeployment.
pub const MAX_SUBSETS: usize = 200;
/// Most bytes of JSON that the template of one UnitedDeployment comes to in all of its subsets.
/// Otherwise one object of 256 KiB would fill etcd and the controller's memory with 50 MiB.
pub const MAX_RENDERED: usize = 4 << 20;
/// The longest name: a label has the name of a revision, which is this name, a dash and a hash of up to ten digits.
pub const MAX_NAME: usize = 52;
/// Old revisions that are kept, unless the spec says otherwise.
pub const DEFAULT_REVISION_HISTORY_LIMIT: i32 = 10;
/// Seconds that a pod waits for a node before its subset counts as unschedulable, unless the spec says otherwise.
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
    )
)]
#[serde(rename_all = "camelCase")]
pub struct UnitedDeploymentSpec {
    /// How many pods are wanted in all subsets together. Defaults to the sum of the subsets' replicas if each of them has
    /// a number, otherwise to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Which pods belong to the UnitedDeployment, by their labels. It must match the labels of the template and of its
    /// pods, and cannot be changed later.
    pub selector: LabelSelector,
    /// The workload that each subset gets. Exactly one of its fields must be set.
    #[serde(default)]
    pub template: SubsetTemplate,
    /// The subsets, and how the replicas are divided among them.
    #[serde(default)]
    pub topology: Topology,
    /// How a change of the template reaches the subsets.
    #[serde(default)]
    pub update_strategy: UpdateStrategy,
    /// How many old revisions of the template are kept to roll back to. Defaults to 10.
    #[serde(skip_serializing_if = "Option::is_none")]
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
pub struct SubsetTemplate {
    /// Each subset is a StatefulSet of Kubernetes, see `kubectl explain statefulset.spec --api-version=apps/v1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stateful_set_template: Option<WorkloadTemplate>,
    /// Each subset is an Advanced StatefulSet, see `kubectl explain statefulset.spec --api-version=apps.kruise.io/v1beta1`.
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
pub struct WorkloadTemplate {
    /// Labels and annotations of the workload. The labels must match the selector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub metadata: Option<Value>,
    /// The workload's spec. Its replicas, selector and partition do not count, because each subset has its own.
    #[schemars(schema_with = "any_object")]
    pub spec: Map<String, Value>,
}

/// The subsets, and how the replicas are divided among them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Topology {
    /// The subsets; at most 200. Where replicas are scarce, the first ones come first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subsets: Vec<Subset>,
    /// What happens when the nodes of a subset have no room for its pods.
    #[serde(default)]
    pub schedule_strategy: ScheduleStrategy,
}

/// One domain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Subset {
    /// The subset's name, unique among the subsets. The names of its workload and pods contain it.
    pub name: String,
    /// Which nodes belong to the subset. It is added to what the template requires, and cannot be changed later.
    #[serde(default)]
    pub node_selector_term: NodeSelectorTerm,
    /// Taints that the subset's pods tolerate, beside those that the template tolerates. They cannot be changed later.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// How many pods the subset gets, a number or a percentage of the replicas. Subsets without share the rest evenly.
    /// It cannot be used where any subset has minReplicas or maxReplicas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<IntOrString>,
    /// How many pods the subset gets before others get more than theirs, a number or a percentage of the replicas.
    /// Defaults to 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_replicas: Option<IntOrString>,
    /// How many pods the subset gets at most, a number or a percentage of the replicas. At least one subset has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_replicas: Option<IntOrString>,
    /// What the subset's pods have otherwise: a strategic merge patch of the pod template. It takes precedence over
    /// nodeSelectorTerm and tolerations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub patch: Option<Value>,
}

/// What happens when the nodes of a subset have no room for its pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleStrategy {
    /// Fixed keeps to the division, even if pods wait for a node. Adaptive gives the replicas of an unschedulable subset
    /// to others. Defaults to Fixed.
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
    /// Seconds that a pod waits for a node before its subset counts as unschedulable. Defaults to 30.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reschedule_critical_seconds: Option<i32>,
    /// Seconds for which a subset stays unschedulable. Defaults to 300.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unschedulable_duration: Option<i32>,
    /// Whether pods that wait for a node stay, and other subsets run substitutes until they are ready. Only with
    /// cloneSetTemplate and deploymentTemplate. Defaults to false.
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
    /// How many pods stay at the old revision, by name of the subset. Subsets that are missing are updated as a whole.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
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

/// What is there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnitedDeploymentStatus {
    /// The generation of the spec that the status speaks of.
    #[serde(default)]
    pub observed_generation: i64,
    /// Pods that exist, without reserved ones.
    #[serde(default)]
    pub replicas: i32,
    /// Pods that are ready.
    #[serde(default)]
    pub ready_replicas: i32,
    /// Pods that are available.
    #[serde(default)]
    pub available_replicas: i32,
    /// Pods of the updated revision, without reserved ones.
    #[serde(default)]
    pub updated_replicas: i32,
    /// Pods of the updated revision that are ready.
    #[serde(default)]
    pub updated_ready_replicas: i32,
    /// Pods that wait for a node while other subsets run substitutes.
    #[serde(default)]
    pub reserved_pods: i32,
    /// How often the name of a revision was taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// The revision that all subsets had last.
    #[serde(default)]
    pub current_revision: String,
    /// The revision of the template.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub updated_revision: String,
    /// Each subset.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subset_statuses: Vec<SubsetStatus>,
    /// What is done, and what holds it back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<UnitedDeploymentCondition>,
    /// The selector of the pods that `replicas` counts, as text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label_selector: String,
}

/// A subset, as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubsetStatus {
    /// The subset's name.
    #[serde(default)]
    pub name: String,
    /// Pods that the division gives to it.
    #[serde(default)]
    pub replicas: i32,
    /// Pods that are ready.
    #[serde(default)]
    pub ready_replicas: i32,
    /// Pods that stay at the old revision.
    #[serde(default)]
    pub partition: i32,
    /// Pods that wait for a node while other subsets run substitutes.
    #[serde(default)]
    pub reserved_pods: i32,
    /// Whether its nodes have room.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<UnitedDeploymentCondition>,
}

/// What is done, or what holds it back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnitedDeploymentCondition {
    /// SubsetProvisioned, SubsetUpdated, SubsetFailure, UnitedDeploymentUpdated or Blocked; of a subset Schedulable.
    #[serde(default, rename = "type")]
    pub type_: String,
    /// True, False or Unknown.
    #[serde(default)]
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

fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}
