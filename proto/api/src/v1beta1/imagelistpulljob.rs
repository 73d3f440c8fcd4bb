//! ImageListPullJob: pull several images on many nodes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::imagepulljob::ImagePullJobTemplate;

/// Most images that one job can list.
pub const MAX_LISTED_IMAGES: usize = 255;

/// What to pull and where.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "apps.kruise.io",
    version = "v1beta1",
    kind = "ImageListPullJob",
    namespaced,
    status = "ImageListPullJobStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "ImageListPullJob pulls several images on many nodes, by one ImagePullJob for each image."
)]
#[serde(rename_all = "camelCase")]
pub struct ImageListPullJobSpec {
    /// The images, with tag or digest; at most 255, none twice.
    pub images: Vec<String>,
    /// The rest of the job, the same for every image.
    #[serde(flatten)]
    pub template: ImagePullJobTemplate,
}

/// How far the job is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageListPullJobStatus {
    /// When the controller began with the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When the ImagePullJobs of all images were done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// ImagePullJobs that there shall be: one for each image.
    #[serde(default)]
    pub desired: i32,
    /// ImagePullJobs of which nodes are pulling.
    #[serde(default)]
    pub active: i32,
    /// ImagePullJobs that are done, whether or not all of their nodes have the image.
    #[serde(default)]
    pub completed: i32,
    /// ImagePullJobs that are done, and all of whose nodes have the image.
    #[serde(default)]
    pub succeeded: i32,
    /// Images that some nodes could not pull.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_image_statuses: Vec<FailedImageStatus>,
}

/// An image that some nodes could not pull.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailedImageStatus {
    /// The name of the image's ImagePullJob.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub image_pull_job: String,
    /// The image.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// How many nodes, and where to see which and why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}
