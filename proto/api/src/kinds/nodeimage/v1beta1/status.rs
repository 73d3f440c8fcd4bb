//! What a node's daemon reports.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::containers::{ImageFact, InspectedPod, StoppedContainer};
use super::rules::{
    CONDITION_MESSAGE, MAX_IMAGES, MAX_INSPECTED_PODS, MAX_STOPPED_CONTAINERS, MAX_TAGS, MESSAGE,
    NAME, REFERENCE, short_names,
};
use crate::schema::absent::{is_zero_i32, is_zero_i64};
use crate::schema::field::{checks, list_by};

/// What the node's daemon found and did. Written by the daemon of that node alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["desired"]))]
pub struct NodeImageStatus {
    /// Pulls that the spec asks for.
    #[serde(default)]
    pub desired: i32,
    /// Pulls that succeeded.
    #[serde(default)]
    pub succeeded: i32,
    /// Pulls that failed and are not tried again.
    #[serde(default)]
    pub failed: i32,
    /// Pulls that are going on.
    #[serde(default)]
    pub pulling: i32,
    /// Pulls that have not begun.
    #[serde(default)]
    pub waiting: i32,
    /// By image name as in the spec.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = MAX_IMAGES), transform = checks([short_names()]))]
    pub image_statuses: BTreeMap<String, ImageStatus>,
    /// How the first pulls of this node ended: for systems that wait for a new node to have its
    /// images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_sync_status: Option<SyncStatus>,
    /// Berth: RuntimeReady says whether the daemon can talk to the node's container runtime.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), transform = list_by(["type"]))]
    pub conditions: Vec<NodeImageCondition>,
    /// Berth: the answers to spec.inspectPods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_INSPECTED_PODS), transform = list_by(["uid"]))]
    pub inspected_pods: Vec<InspectedPod>,
    /// Berth: the images that inspected pods refer to, and all ids that the node knows them by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4 * MAX_INSPECTED_PODS), transform = list_by(["image"]))]
    pub image_facts: Vec<ImageFact>,
    /// Berth: the answers to spec.stopContainers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    // The last answers stay until the next write.
    #[schemars(length(max = 2 * MAX_STOPPED_CONTAINERS))]
    #[schemars(transform = list_by(["request", "container"]))]
    pub stopped_containers: Vec<StoppedContainer>,
}

/// The pulls of one image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["tags"]))]
pub struct ImageStatus {
    /// By tag as in the spec.
    #[serde(default)]
    // Four times what a spec may ask for, for nodes that were taken over with more.
    #[schemars(length(max = 4 * MAX_TAGS))]
    pub tags: Vec<ImageTagStatus>,
}

/// The pull of one tag.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageTagStatus {
    /// The tag, or a digest.
    #[schemars(length(max = REFERENCE))]
    pub tag: String,
    /// Waiting, Pulling, Succeeded or Failed.
    pub phase: ImagePullPhase,
    /// Percent of the bytes that are here. May go back when a pull is tried again.
    #[serde(default, skip_serializing_if = "is_zero_i32")]
    pub progress: i32,
    /// When the pull began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When the pull ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// The version in the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "is_zero_i64")]
    pub version: i64,
    /// The id that the runtime gave for the pull.
    #[serde(default, rename = "imageID", skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = REFERENCE))]
    pub image_id: String,
    /// What went wrong, or what is going on.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = MESSAGE))]
    pub message: String,
    /// Berth: all ids that the node knows the image by: of its config, its manifest and its index.
    #[serde(default, rename = "imageIDs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = REFERENCE)))]
    pub image_ids: Vec<String>,
    /// Berth: bytes of the image that are here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_done: Option<i64>,
    /// Berth: bytes of the image, as its manifest says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_total: Option<i64>,
}

/// How far a pull is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ImagePullPhase {
    /// Not begun.
    #[default]
    Waiting,
    /// Begun.
    Pulling,
    /// The node has the image.
    Succeeded,
    /// Given up.
    Failed,
}

/// How the first pulls of a node ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SyncStatus {
    /// When.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync_at: Option<Time>,
    /// Succeeded, or Failed when any of them failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<SyncStatusPhase>,
    /// Which failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = MESSAGE))]
    pub message: String,
}

/// How pulls ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum SyncStatusPhase {
    /// All succeeded.
    Succeeded,
    /// At least one failed.
    Failed,
}

/// Berth: one aspect of a node's state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeImageCondition {
    /// RuntimeReady.
    #[serde(rename = "type")]
    #[schemars(length(max = NAME))]
    pub type_: String,
    /// True, False or Unknown.
    #[schemars(length(max = NAME))]
    pub status: String,
    /// Why, in one word.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = NAME))]
    pub reason: String,
    /// Why, in a sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = CONDITION_MESSAGE))]
    pub message: String,
    /// When the status last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
}
