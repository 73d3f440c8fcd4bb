//! ImagePullJob: pull an image on many nodes.

pub(crate) mod rules;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::rules::{has_names_or_labels, is_image, of_template, pulled, sandbox, stays};
use crate::kinds::nodeimage::v1beta1::{
    DEFAULT_BACKOFF_LIMIT, DEFAULT_TIMEOUT_SECONDS, MAX_BACKOFF_LIMIT, MAX_TIMEOUT_SECONDS,
};
pub use crate::kinds::nodeimage::v1beta1::{ImagePullPolicy, SandboxConfig};
use crate::schema::field::{checks, defaults_to, int_or_percent, label_selector};
use crate::schema::rules::{DNS_SUBDOMAIN, completes_or_has_no_limits};

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
    doc = "ImagePullJob pulls one image on many nodes, so that pods which need it later start at once.",
    printcolumn = r#"{"name": "TOTAL", "type": "integer", "jsonPath": ".status.desired", "description": "Nodes that shall pull."}"#,
    printcolumn = r#"{"name": "ACTIVE", "type": "integer", "jsonPath": ".status.active", "description": "Nodes that are pulling."}"#,
    printcolumn = r#"{"name": "SUCCEED", "type": "integer", "jsonPath": ".status.succeeded", "description": "Nodes that have the image."}"#,
    printcolumn = r#"{"name": "FAILED", "type": "integer", "jsonPath": ".status.failed", "description": "Nodes that gave up."}"#,
    printcolumn = r#"{"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp", "description": "Time since the creation."}"#,
    printcolumn = r#"{"name": "MESSAGE", "type": "string", "jsonPath": ".status.message", "description": "What is going on."}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = checks(pulled("", "true", "and a job keeps what it was created with: create another job")))]
pub struct ImagePullJobSpec {
    /// The image, with tag or digest. Cannot be changed later.
    #[schemars(length(min = 1, max = 1024), transform = checks([is_image(), stays()]))]
    pub image: String,
    /// The rest of the job.
    #[serde(flatten)]
    pub template: ImagePullJobTemplate,
}

/// All of an ImagePullJob but its image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = checks(of_template()))]
pub struct ImagePullJobTemplate {
    /// Names of secrets for the registry, in the job's namespace. An ImagePullJob keeps them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    #[schemars(inner(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN)))]
    pub pull_secrets: Vec<String>,
    /// Which nodes pull: by name or by labels. Without it, and without podSelector, all nodes. An
    /// ImagePullJob keeps it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<ImagePullJobNodeSelector>,
    /// Pull on the nodes where pods of the job's namespace with these labels are. Not together with
    /// selector. An ImagePullJob keeps it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_selector: Option<ImagePullJobPodSelector>,
    /// How many nodes pull at a time: a number, or a percentage of the nodes. 0 pauses the job. 1
    /// where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = int_or_percent)]
    pub parallelism: Option<IntOrString>,
    /// Limits of the pull on each node. Another value holds for pulls that are under way, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = defaults_to(json!({})))]
    pub pull_policy: Option<PullPolicy>,
    /// When the job is done.
    #[serde(default)]
    #[schemars(transform = defaults_to(json!({})))]
    #[schemars(transform = checks([completes_or_has_no_limits()]))]
    pub completion_policy: CompletionPolicy,
    /// What is handed to the runtime along with the pull. An ImagePullJob keeps it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = sandbox)]
    pub sandbox_config: Option<SandboxConfig>,
    /// Always asks the registry even if a node has the image, IfNotPresent does not. Defaults to
    /// IfNotPresent. An ImagePullJob keeps it.
    #[serde(default)]
    #[schemars(transform = defaults_to("IfNotPresent"))]
    pub image_pull_policy: ImagePullPolicy,
}

/// Which nodes pull. Names and labels exclude each other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = label_selector, transform = checks([has_names_or_labels()]))]
pub struct ImagePullJobNodeSelector {
    /// Names of nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub names: Vec<String>,
    /// Labels of nodes.
    #[serde(flatten)]
    pub label_selector: LabelSelector,
}

/// Pods whose nodes pull.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = label_selector)]
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
    #[schemars(range(min = 1, max = MAX_TIMEOUT_SECONDS))]
    #[schemars(transform = defaults_to(DEFAULT_TIMEOUT_SECONDS))]
    pub timeout_seconds: Option<i32>,
    /// How often a failed pull is tried again before the node counts as failed; at most 100.
    /// Defaults to 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = MAX_BACKOFF_LIMIT))]
    #[schemars(transform = defaults_to(DEFAULT_BACKOFF_LIMIT))]
    pub backoff_limit: Option<i32>,
}

/// When a job is done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompletionPolicy {
    /// Always: done when every node has the image or gave up. Never: the job stays, and nodes that
    /// join the cluster pull too. Defaults to Always.
    #[serde(default, rename = "type")]
    #[schemars(transform = defaults_to("Always"))]
    pub type_: CompletionPolicyType,
    /// Seconds after which the job ends, even if nodes are still pulling; at least
    /// pullPolicy.timeoutSeconds. Only with Always.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = i32::MAX))]
    pub active_deadline_seconds: Option<i64>,
    /// Seconds after which the finished job is deleted; 0 deletes it at once. Without it the job
    /// stays. Only with Always.
    #[serde(
        rename = "ttlSecondsAfterFinished",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(range(min = 0, max = i32::MAX))]
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
#[schemars(extend("required" = ["desired"]))]
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
