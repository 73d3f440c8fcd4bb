//! ContainerRecreateRequest: restart containers of a pod in place. Two parts of the status are annotations here, see
//! `conversion/containerrecreaterequest.rs`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::schema::field::{conditions, defaults_to, list_by};
use crate::schema::rules::DNS_SUBDOMAIN;
use crate::v1beta1::containerrecreaterequest::{
    CONDITIONS, MAX_RECREATED_CONTAINERS, MIN_ACTIVE_DEADLINE_SECONDS,
};
pub use crate::v1beta1::containerrecreaterequest::{
    ContainerRecreateState, ContainerStatusSnapshot, PreStopHandler, RecreateFailurePolicy,
    RecreatePhase, RecreateStrategy, RecreatedContainer, StatusContext,
};

/// Which containers of which pod, and how.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "apps.kruise.io",
    version = "v1alpha1",
    kind = "ContainerRecreateRequest",
    namespaced,
    shortname = "crr",
    storage = false,
    status = "ContainerRecreateRequestStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "ContainerRecreateRequest restarts containers of a pod in place: the pod stays, with its node, its address and its volumes."
)]
#[serde(rename_all = "camelCase")]
pub struct ContainerRecreateRequestSpec {
    /// The pod, in the same namespace.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub pod_name: String,
    /// The containers, in the order in which they are stopped; at most 64, none twice.
    #[schemars(length(min = 1, max = MAX_RECREATED_CONTAINERS), transform = list_by(["name"]))]
    pub containers: Vec<RecreatedContainer>,
    /// How they are restarted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = defaults_to(json!({})))]
    pub strategy: Option<RecreateStrategy>,
    /// Seconds after the creation after which the request is given up; at least 3. Without it there is no such limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = MIN_ACTIVE_DEADLINE_SECONDS, max = i32::MAX))]
    pub active_deadline_seconds: Option<i64>,
    /// Seconds after which a completed request is deleted. Without it the request stays.
    #[serde(
        rename = "ttlSecondsAfterFinished",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(range(min = 0, max = i32::MAX))]
    pub ttl_seconds_after_finished: Option<i32>,
}

/// How far the request is. What v1beta1 has in containerStatusSnapshot is the annotation
/// crr.apps.kruise.io/sync-container-statuses, and the time of its condition PreRecreateGrace the annotation
/// crr.apps.kruise.io/unready-acquired.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["phase"]))]
pub struct ContainerRecreateRequestStatus {
    /// Pending, Recreating or Completed.
    #[serde(default)]
    pub phase: RecreatePhase,
    /// When it was completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// Why it was completed, where that is not because all containers were restarted.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// How far each container is, in the order of the spec.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_RECREATED_CONTAINERS))]
    pub container_recreate_states: Vec<ContainerRecreateState>,
    /// Berth: MinStartedPending says since when a container is ready that has yet to run for minStartedSeconds, where that takes long,
    /// Blocked what holds the request back, and DeadlineExceeded which containers the deadline left as they were.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = conditions(CONDITIONS))]
    pub conditions: Vec<Condition>,
}
