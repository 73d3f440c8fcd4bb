//! NodeImage: its secrets have no mode. All else is as in v1beta1.

use serde::Deserialize;

pub use crate::kinds::nodeimage::v1beta1::{ImageTagSpec, NodeImage, SandboxConfig};

/// One image and the tags of it to pull.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageSpec {
    /// Secrets to try for the registry, of type kubernetes.io/dockerconfigjson or
    /// kubernetes.io/dockercfg.
    #[serde(default)]
    pub pull_secrets: Vec<ReferenceObject>,
    /// The tags, or digests, to pull. At most 64.
    #[serde(default)]
    pub tags: Vec<ImageTagSpec>,
    /// What is handed to the runtime along with pulls of tags that say nothing themselves. Read,
    /// and kept where it is; what jobs ask for is the tag's.
    pub sandbox_config: Option<SandboxConfig>,
}

/// A secret.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReferenceObject {
    /// The secret's namespace.
    #[serde(default)]
    pub namespace: String,
    /// The secret's name.
    #[serde(default)]
    pub name: String,
}
