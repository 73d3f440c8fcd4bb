//! What is known of a SidecarSet's pods.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::absent::{is_false, is_zero_i32, is_zero_i64};
use crate::schema::field::list_by;

/// The longest message of a condition, as Kubernetes' own conditions have it.
const CONDITION_MESSAGE: u32 = 32_768;

/// How far it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["matchedPods", "readyPods", "updatedPods"]))]
pub struct SidecarSetStatus {
    /// The metadata.generation that this status speaks of.
    #[serde(default, skip_serializing_if = "is_zero_i64")]
    pub observed_generation: i64,
    /// Pods that the selectors match and that have the containers.
    #[serde(default)]
    pub matched_pods: i32,
    /// Of those, pods that have the latest containers.
    #[serde(default)]
    pub updated_pods: i32,
    /// Of the matched pods, those that are ready.
    #[serde(default)]
    pub ready_pods: i32,
    /// Of the updated pods, those that are ready.
    #[serde(default, skip_serializing_if = "is_zero_i32")]
    pub updated_ready_pods: i32,
    /// The ControllerRevision of the latest containers.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub latest_revision: String,
    /// How often the name of a new revision was taken by another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// InjectionReady: the apiserver asks for pods that are created. Repairing: pods without the
    /// containers are replaced. Blocked: what holds an update back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), transform = list_by(["type"]))]
    pub conditions: Vec<SidecarSetCondition>,
    /// The selected pods, counted by what they have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub injection: Option<SidecarSetInjection>,
    /// The pod that is replaced last, as the annotation apps.kruise.io/sidecarset-repair asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repair: Option<SidecarSetRepair>,
}

/// A condition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SidecarSetCondition {
    /// Which.
    #[serde(rename = "type")]
    #[schemars(length(max = 253))]
    pub type_: String,
    /// True, False or Unknown.
    #[schemars(length(max = 253))]
    pub status: String,
    /// When that changed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// Why, in a word.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub reason: String,
    /// Why, in a sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = CONDITION_MESSAGE))]
    pub message: String,
}

/// The selected pods, counted by what they have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SidecarSetInjection {
    /// Pods that the selectors match.
    #[serde(default)]
    pub selected: i32,
    /// Pods that have the containers.
    #[serde(default)]
    pub injected: i32,
    /// Pods that were created while the selectors were in force, and do not have them.
    #[serde(default)]
    pub missed: i32,
    /// Pods that it did not select when they were created, and that do not have them.
    #[serde(default)]
    pub older: i32,
    /// Pods that could not get them.
    #[serde(default)]
    pub refused: i32,
    /// Pods whose containers are not those that their record names.
    #[serde(default)]
    pub drifted: i32,
    /// Pods that differ from the latest containers in more than images.
    #[serde(default)]
    pub not_upgradable: i32,
    /// Pods with containers of it in place of their own of the same names.
    #[serde(default, skip_serializing_if = "is_zero_i32")]
    pub replaced: i32,
    /// Of which selector and namespaceSelector the numbers are.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub selector_hash: String,
    /// Since when these are in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
}

/// A pod that is replaced, for it lacks the containers. Written before anything is done to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SidecarSetRepair {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub pod: String,
    /// Its uid.
    pub uid: String,
    /// The uid of the workload that makes another.
    pub owner: String,
    /// When the newest pod of that workload was created by then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newest: Option<Time>,
    /// Since when it is its turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// The apiserver did not let it go, for a PodDisruptionBudget as a rule.
    #[serde(default, skip_serializing_if = "is_false")]
    pub refused: bool,
    /// Its turn is over: another one is next.
    #[serde(default, skip_serializing_if = "is_false")]
    pub over: bool,
    /// Since when its workload is to make another that is ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<Time>,
    /// Pods in whose place their workloads made no other, or one that lacks the containers, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<SidecarSetLostPod>,
}

/// A pod in whose place its workload made no other, or one that lacks the containers, too: no more
/// pods of that are taken.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SidecarSetLostPod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub pod: String,
    /// The uid of its workload.
    pub owner: String,
    /// When the newest pod of that workload was created by then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newest: Option<Time>,
    /// When the successor was seen to lack the containers; absent where none came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Time>,
    /// How often in a row successors of this workload's pods lacked the containers.
    #[serde(default, skip_serializing_if = "is_zero_i32")]
    pub stops: i32,
}
