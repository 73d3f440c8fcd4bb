//! BroadcastJob: one pod on each node, once.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::absent::is_false;
use crate::template::PodTemplate;
pub use crate::v1beta1::broadcastjob::{
    BroadcastJobStatus, CompletionPolicy, CompletionPolicyType, FailurePolicy, FailurePolicyType,
    JobCondition,
};

/// What runs on each node, on how many nodes at a time, and when that is over.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "apps.kruise.io",
    version = "v1alpha1",
    kind = "BroadcastJob",
    namespaced,
    storage = false,
    status = "BroadcastJobStatus",
    derive = "Default",
    derive = "PartialEq",
    shortname = "bcj",
    doc = "BroadcastJob runs a pod to its end on each node, once. A node that joins gets its pod too, as long as the job has not ended."
)]
#[serde(rename_all = "camelCase")]
pub struct BroadcastJobSpec {
    /// On how many nodes a pod runs at a time: a number, or a percentage of the desired nodes, rounded up. With 0 no pod is
    /// created. Defaults to 2147483647, all nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallelism: Option<IntOrString>,
    /// The pods that are made. Its fields are those of a pod, see `kubectl explain pod.spec`; any of them may be used, but
    /// spec.restartPolicy must be Never or OnFailure. Nodes that have not begun get what is changed here later.
    pub template: PodTemplate,
    /// When the job is done.
    #[serde(default)]
    pub completion_policy: CompletionPolicy,
    /// No pod is created as long as this is set; those that run go on. failurePolicy Pause sets it when a pod has failed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub paused: bool,
    /// What a failed pod means for the job.
    #[serde(default)]
    pub failure_policy: FailurePolicy,
}
