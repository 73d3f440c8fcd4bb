//! What is known of a UnitedDeployment's subsets, with bounds of what the controller writes, and of
//! what OpenKruise has written.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    #[schemars(length(max = 253))]
    pub current_revision: String,
    /// The revision of the template.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub updated_revision: String,
    /// Each subset.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024))]
    pub subset_statuses: Vec<SubsetStatus>,
    /// What is done, and what holds it back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
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
    #[schemars(length(max = 253))]
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
    #[schemars(length(max = 16))]
    pub conditions: Vec<UnitedDeploymentCondition>,
}

/// What is done, or what holds it back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnitedDeploymentCondition {
    /// SubsetProvisioned, SubsetUpdated, SubsetFailure, UnitedDeploymentUpdated or Blocked; of a
    /// subset Schedulable.
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
    #[schemars(length(max = 32_768))]
    pub message: String,
}
