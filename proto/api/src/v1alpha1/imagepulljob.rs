//! ImagePullJob: pull an image on many nodes.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::v1beta1::imagepulljob::{
    CompletionPolicy, CompletionPolicyType, ImagePullJobNodeSelector, ImagePullJobPodSelector,
    ImagePullJobStatus, ImagePullJobTemplate, ImagePullPolicy, PullPolicy, SandboxConfig,
};

/// What to pull and where.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "apps.kruise.io",
    version = "v1alpha1",
    kind = "ImagePullJob",
    namespaced,
    storage = false,
    status = "ImagePullJobStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "ImagePullJob pulls one image on many nodes, so that pods which need it later start at once."
)]
#[serde(rename_all = "camelCase")]
pub struct ImagePullJobSpec {
    /// The image, with tag or digest. Cannot be changed later.
    pub image: String,
    /// The rest of the job.
    #[serde(flatten)]
    pub template: ImagePullJobTemplate,
}
