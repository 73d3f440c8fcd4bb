//! ImagePullJob: pull an image on many nodes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use super::nodeimage::{ImagePullPolicy, SandboxConfig};

/// What to pull and where.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "apps.kruise.io",
    version = "v1beta1",
    kind = "ImagePullJob",
    namespaced,
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

/// All of an ImagePullJob but its image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImagePullJobTemplate {
    /// Names of secrets for the registry, in the job's namespace. An ImagePullJob keeps them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pull_secrets: Vec<String>,
    /// Which nodes pull: by name or by labels. Without it, and without podSelector, all nodes. An ImagePullJob keeps it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<ImagePullJobNodeSelector>,
    /// Pull on the nodes where pods of the job's namespace with these labels are. Not together with selector. An ImagePullJob
    /// keeps it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_selector: Option<ImagePullJobPodSelector>,
    /// How many nodes pull at a time: a number, or a percentage of the nodes. 0 pauses the job. 1 where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallelism: Option<IntOrString>,
    /// Limits of the pull on each node. Another value holds for pulls that are under way, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pull_policy: Option<PullPolicy>,
    /// When the job is done.
    #[serde(default)]
    pub completion_policy: CompletionPolicy,
    /// What is handed to the runtime along with the pull. An ImagePullJob keeps it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox_config: Option<SandboxConfig>,
    /// Always asks the registry even if a node has the image, IfNotPresent does not. Defaults to IfNotPresent.
    /// An ImagePullJob keeps it.
    #[serde(default)]
    pub image_pull_policy: ImagePullPolicy,
}

/// Which nodes pull. Names and labels exclude each other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImagePullJobNodeSelector {
    /// Names of nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Labels of nodes.
    #[serde(flatten)]
    pub label_selector: LabelSelector,
}

/// Pods whose nodes pull.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImagePullJobPodSelector {
    /// Labels of pods.
    #[serde(flatten)]
    pub label_selector: LabelSelector,
}

/// Limits of the pull on each node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PullPolicy {
    /// Seconds after which one try has failed; at most 3600. Defaults to 600.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i32>,
    /// How often a failed pull is tried again before the node counts as failed; at most 100. Defaults to 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_limit: Option<i32>,
}

/// When a job is done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompletionPolicy {
    /// Always: done when every node has the image or gave up. Never: the job stays, and nodes that join the cluster pull
    /// too. Defaults to Always.
    #[serde(default, rename = "type")]
    pub type_: CompletionPolicyType,
    /// Seconds after which the job ends whatever the nodes do; at least pullPolicy.timeoutSeconds. Only with Always.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_deadline_seconds: Option<i64>,
    /// Seconds after which the finished job is deleted; 0 deletes it at once. Without it the job stays. Only with
    /// Always.
    #[serde(
        rename = "ttlSecondsAfterFinished",
        skip_serializing_if = "Option::is_none"
    )]
    pub ttl_seconds_after_finished: Option<i32>,
}

/// Whether a job ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum CompletionPolicyType {
    /// It ends.
    #[default]
    Always,
    /// It goes on for nodes that join.
    Never,
}

/// How far the job is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImagePullJobStatus {
    /// When the controller began with the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When the job was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// Nodes that shall pull.
    #[serde(default)]
    pub desired: i32,
    /// Nodes that are pulling.
    #[serde(default)]
    pub active: i32,
    /// Nodes that have the image.
    #[serde(default)]
    pub succeeded: i32,
    /// Nodes that gave up.
    #[serde(default)]
    pub failed: i32,
    /// What is going on, in a sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Names of the nodes that gave up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_nodes: Vec<String>,
}
