//! In-place updates: how they are wished for, and what is recorded on a pod about one.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::absent::{is_false, is_zero_i32};
use crate::schema::field::int_or_percent;

/// How a pod is updated in place, and how images are pulled ahead of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InPlaceUpdateStrategy {
    /// Seconds between taking a pod out of service and changing its images, so that traffic drains
    /// before a container restarts. Defaults to 0.
    #[serde(default, skip_serializing_if = "is_zero_i32")]
    #[schemars(range(min = 0, max = i32::MAX))]
    pub grace_period_seconds: i32,
    /// How many nodes pull the new images at once ahead of the update: a number or a percentage of
    /// the nodes; 1 where nothing is said. 0 pauses pulling ahead. In v1alpha1 this is the
    /// annotation apps.kruise.io/image-predownload-parallelism.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = int_or_percent)]
    pub image_pre_download_parallelism: Option<IntOrString>,
    /// Seconds after which pulling an image ahead counts as failed on a node; 300 where nothing is
    /// said. In v1alpha1 this is the annotation apps.kruise.io/image-predownload-timeout-seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = i32::MAX))]
    pub image_pre_download_timeout_seconds: Option<i32>,
    /// How many pods must be updated and ready before images are pulled ahead for the others. In
    /// v1alpha1 this is the annotation apps.kruise.io/image-predownload-min-updated-ready-pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = i32::MAX))]
    pub image_pre_download_min_updated_ready_pods: Option<i32>,
}

/// Reads the annotation [`crate::names::annotation::INPLACE_UPDATE_WAIT_FOR_IMAGE`]: the longest
/// that a pod's update in place waits for its image.
///
/// # Errors
/// What is wrong with the value, and the remedy.
pub fn wait_for_image(text: &str) -> Result<SignedDuration, &'static str> {
    let time = text
        .parse::<SignedDuration>()
        .ok()
        .filter(SignedDuration::is_positive);
    time.ok_or("is no time above 0: write it like 90s, 5m or 1h30m, or remove the annotation")
}

/// Reads the annotation [`crate::names::annotation::PREPULL_ON_JOIN`]: do nodes that join pull the
/// workload's images?
///
/// # Errors
/// What is wrong with the value, and the remedy.
pub fn prepull_on_join(text: &str) -> Result<bool, &'static str> {
    text.parse()
        .map_err(|_| "is neither \"true\" nor \"false\": write \"true\", or remove the annotation")
}

/// The value of the annotation [`crate::names::annotation::INPLACE_UPDATE_STATE`]: the last
/// in-place update of a pod, as OpenKruise writes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InPlaceUpdateState {
    /// The revision updated to.
    pub revision: String,
    /// When the update began.
    pub update_timestamp: Time,
    /// By container: what ran before.
    #[serde(default)]
    pub last_container_statuses: BTreeMap<String, InPlaceUpdateContainerStatus>,
    /// Environment variables taken from labels or annotations change.
    #[serde(default, skip_serializing_if = "is_false")]
    pub update_env_from_metadata: bool,
    /// Resources change.
    #[serde(default, skip_serializing_if = "is_false")]
    pub update_resources: bool,
    /// Images change.
    #[serde(default, skip_serializing_if = "is_false")]
    pub update_images: bool,
    /// By container: images of later batches.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub next_container_images: BTreeMap<String, String>,
    /// By container: labels and annotations of later batches.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub next_container_ref_metadata: BTreeMap<String, ObjectMeta>,
    /// By container: resources of later batches.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub next_container_resources: BTreeMap<String, ResourceRequirements>,
    /// What must hold before the next batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pre_check_before_next: Option<InPlaceUpdatePreCheckBeforeNext>,
    /// The batches so far.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub container_batches_record: Vec<InPlaceUpdateContainerBatch>,
}

/// What ran in a container before an in-place update.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InPlaceUpdateContainerStatus {
    /// The image id that the container's status reported.
    #[serde(default, rename = "imageID", skip_serializing_if = "String::is_empty")]
    pub image_id: String,
}

/// What must hold before the next batch of containers is updated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InPlaceUpdatePreCheckBeforeNext {
    /// Containers that must be ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub containers_required_ready: Vec<String>,
}

/// One batch of containers that was updated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InPlaceUpdateContainerBatch {
    /// When.
    pub timestamp: Time,
    /// Which containers, by name.
    #[serde(default)]
    pub containers: Vec<String>,
}

/// The value of the annotation [`crate::names::annotation::RUNTIME_CONTAINERS_META`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeContainerMetaSet {
    /// One for each container of the pod.
    #[serde(default)]
    pub containers: Vec<RuntimeContainerMeta>,
}

/// One container as its runtime knows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeContainerMeta {
    /// The container's name in the pod.
    pub name: String,
    /// The runtime's id.
    #[serde(rename = "containerID")]
    pub container_id: String,
    /// How often it was restarted.
    pub restart_count: i32,
    /// What it was created from.
    pub hashes: RuntimeContainerHashes,
}

/// Hashes of the spec that a container was created from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeContainerHashes {
    /// The kubelet's hash of the container's spec.
    pub plain_hash: u64,
    /// The same with variables from labels and annotations replaced by their values.
    #[serde(default)]
    pub extracted_env_from_metadata_hash: u64,
}
