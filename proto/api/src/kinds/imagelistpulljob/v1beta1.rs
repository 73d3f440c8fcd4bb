//! ImageListPullJob: pull several images on many nodes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::transform::Transform;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::kinds::imagepulljob::v1beta1::ImagePullJobTemplate;
use crate::kinds::imagepulljob::v1beta1::rules::{
    HAS_COMPLETED, is_image, limits_of_completed, pulled,
};
use crate::schema::field::patched;
use crate::schema::patch::{Patch, at};
use crate::schema::rules::{reported_at, rule};
use crate::version::Version;

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
    doc = "ImageListPullJob pulls several images on many nodes, by one ImagePullJob for each image.",
    printcolumn = r#"{"name": "TOTAL", "type": "integer", "jsonPath": ".status.desired", "description": "Images to pull."}"#,
    printcolumn = r#"{"name": "SUCCEEDED", "type": "integer", "jsonPath": ".status.succeeded", "description": "Images that all nodes have."}"#,
    printcolumn = r#"{"name": "COMPLETED", "type": "integer", "jsonPath": ".status.completed", "description": "Images that all nodes have or gave up."}"#,
    printcolumn = r#"{"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp", "description": "Time since the creation."}"#
)]
#[serde(rename_all = "camelCase")]
pub struct ImageListPullJobSpec {
    /// The images, with tag or digest; at most 255, none twice.
    #[schemars(length(min = 1, max = MAX_LISTED_IMAGES), inner(length(min = 1, max = 1024)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"), transform = are_images)]
    pub images: Vec<String>,
    /// The rest of the job, the same for every image.
    #[serde(flatten)]
    pub template: ImagePullJobTemplate,
}

/// How far the job is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["desired"]))]
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

fn are_images(schema: &mut Schema) {
    patched(vec![at(
        "[]",
        json!({"x-kubernetes-validations": [is_image()]}),
    )])
    .transform(schema);
}

/// Rules of a list that has completed. They look at the status, and so stand at the root.
pub(crate) fn patches(_: Version) -> Vec<Patch> {
    let images =
        format!("!({HAS_COMPLETED}) || sets.contains(oldSelf.spec.images, self.spec.images)");
    let why = "but the list has completed and pulls nothing more: create another list";
    let added = format!(
        "'has %s besides, {why}'.format([self.spec.images.filter(image, !(image in oldSelf.spec.images))])"
    );
    let mut rules = vec![reported_at(".spec.images", rule(images, added))];
    rules.extend(pulled("spec.", HAS_COMPLETED, why));
    rules.extend(limits_of_completed("list"));
    vec![at("", json!({"x-kubernetes-validations": rules}))]
}
