//! ImageListPullJob: pull several images on many nodes.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::v1beta1::imagelistpulljob::{FailedImageStatus, ImageListPullJobStatus};
use crate::v1beta1::imagepulljob::ImagePullJobTemplate;

/// What to pull and where.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "apps.kruise.io",
    version = "v1alpha1",
    kind = "ImageListPullJob",
    namespaced,
    storage = false,
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
