//! ContainerRecreateRequest: restart containers of a pod in place.

use k8s_openapi::api::core::v1::{
    ContainerPort, ExecAction, HTTPGetAction, SleepAction, TCPSocketAction,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use schemars::transform::Transform;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::schema::absent::{is_false, is_zero_i32};
use crate::schema::field::{conditions, defaults_to, described, list_by, patched};
use crate::schema::patch::at;
use crate::schema::rules::{DNS_LABEL, DNS_SUBDOMAIN};

/// Most containers that one request can name.
pub const MAX_RECREATED_CONTAINERS: usize = 64;
/// The longest id of a container, its runtime's scheme included: what a NodeImage asks about, its
/// daemon can answer.
pub const MAX_CONTAINER_ID: usize = 253;
/// The fewest seconds that a request can be given as a whole.
pub const MIN_ACTIVE_DEADLINE_SECONDS: i32 = 3;
/// The longest grace period, in seconds: a stop holds a slot of its node for as long. A stored
/// request with more has this.
pub const MAX_GRACE_SECONDS: i64 = 3_600;

/// Which containers of which pod, and how.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "apps.kruise.io",
    version = "v1beta1",
    kind = "ContainerRecreateRequest",
    namespaced,
    shortname = "crr",
    status = "ContainerRecreateRequestStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "ContainerRecreateRequest restarts containers of a pod in place: the pod stays, with its node, its address and its volumes.",
    printcolumn = r#"{"name": "PHASE", "type": "string", "jsonPath": ".status.phase", "description": "How far it is."}"#,
    printcolumn = r#"{"name": "POD", "type": "string", "jsonPath": ".spec.podName", "description": "The pod."}"#,
    printcolumn = r#"{"name": "NODE", "type": "string", "jsonPath": ".metadata.labels.crr\\.apps\\.kruise\\.io/node-name", "description": "The pod's node."}"#,
    printcolumn = r#"{"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp", "description": "Time since the creation."}"#
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
    /// Seconds after the creation after which the request is given up; at least 3. Without it there
    /// is no such limit.
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

/// A container to restart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecreatedContainer {
    /// Its name.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub name: String,
    /// Read-only: the container's preStop hook, filled in when the request is created. What is run
    /// is what the kubelet wrote to the running container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pre_stop: Option<PreStopHandler>,
    /// Read-only: the container's ports, where its preStop hook is an HTTP request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = copied("[]", &PORT))]
    pub ports: Vec<ContainerPort>,
    /// Read-only: which container it was when the request was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_context: Option<StatusContext>,
}

/// What is done before a container is stopped.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct PreStopHandler {
    /// A command in the container.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = copied("", &[("command", "The command and its arguments.")]))]
    pub exec: Option<ExecAction>,
    /// An HTTP request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = copied("", &HTTP_GET))]
    #[schemars(transform = copied("httpHeaders[]", &HTTP_HEADER))]
    pub http_get: Option<HTTPGetAction>,
    /// Berth: a pause.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = copied("", &[("seconds", "Its seconds.")]))]
    pub sleep: Option<SleepAction>,
    /// A connection. Kubernetes runs no such hook any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = copied("", &[("host", "The host."), ("port", "The port.")]))]
    pub tcp_socket: Option<TCPSocketAction>,
}

/// Which container it was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusContext {
    /// Its id, in the form of the pod's status: `containerd://…`.
    #[serde(rename = "containerID")]
    #[schemars(length(max = MAX_CONTAINER_ID))]
    pub container_id: String,
    /// How often it had been restarted.
    pub restart_count: i32,
}

/// How containers are restarted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecreateStrategy {
    /// Fail ends the request at the first container that cannot be restarted. Ignore goes on with
    /// the others. Defaults to Fail.
    #[serde(default)]
    #[schemars(transform = defaults_to("Fail"))]
    pub failure_policy: RecreateFailurePolicy,
    /// Stop a container only when the one before it has been restarted.
    #[serde(default, skip_serializing_if = "is_false")]
    pub ordered_recreate: bool,
    /// Stop also a container that was restarted since the request was created.
    #[serde(default, skip_serializing_if = "is_false")]
    pub force_recreate: bool,
    /// Seconds that a container has to end, its preStop hook included. 0 runs no hook. At most
    /// 3600. Defaults to the pod's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = MAX_GRACE_SECONDS))]
    pub termination_grace_period_seconds: Option<i64>,
    /// Seconds for which the pod is not ready before the first container is stopped. It needs the
    /// readiness gate KruisePodReady. At most 3600.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = MAX_GRACE_SECONDS))]
    pub unready_grace_period_seconds: Option<i64>,
    /// Seconds that a restarted container must have run, besides being ready. Defaults to 0.
    #[serde(default, skip_serializing_if = "is_zero_i32")]
    #[schemars(range(min = 0, max = i32::MAX))]
    pub min_started_seconds: i32,
}

/// What becomes of a request when a container cannot be restarted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum RecreateFailurePolicy {
    /// It ends.
    #[default]
    Fail,
    /// It goes on with the others.
    Ignore,
}

/// How far the request is.
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
    /// The containers as the pod's status has them, those that were started since the request was
    /// created.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_RECREATED_CONTAINERS))]
    pub container_status_snapshot: Vec<ContainerStatusSnapshot>,
    /// PreRecreateGrace says since when the pod is not ready for this request. Berth:
    /// MinStartedPending says since when a container is ready that has yet to run for
    /// minStartedSeconds, where that takes long, Blocked what holds the request back, and
    /// DeadlineExceeded which containers the deadline left as they were.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = conditions(CONDITIONS))]
    pub conditions: Vec<Condition>,
}

/// How far a request or one of its containers is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum RecreatePhase {
    /// Not begun.
    #[default]
    Pending,
    /// Begun.
    Recreating,
    /// Of a container: it was restarted.
    Succeeded,
    /// Of a container: it could not be stopped.
    Failed,
    /// Of a request: it is over.
    Completed,
}

/// How far a container is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerRecreateState {
    /// Its name.
    pub name: String,
    /// Pending until it has stopped, Recreating until the next one serves, Succeeded, or Failed.
    pub phase: RecreatePhase,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Whether this request has stopped it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_killed: bool,
}

/// A container as the pod's status has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerStatusSnapshot {
    /// Its name.
    pub name: String,
    /// Whether it is ready.
    pub ready: bool,
    /// How often it was restarted.
    pub restart_count: i32,
    /// Its id.
    #[serde(
        default,
        rename = "containerID",
        skip_serializing_if = "String::is_empty"
    )]
    pub container_id: String,
}

const HTTP_GET: [(&str, &str); 5] = [
    ("host", "The host; the pod's address where there is none."),
    ("httpHeaders", "Headers of the request."),
    ("path", "The path."),
    (
        "port",
        "The port, a number or the name of one of the container's.",
    ),
    ("scheme", "HTTP or HTTPS."),
];
const HTTP_HEADER: [(&str, &str); 2] = [
    ("name", "The header's name."),
    ("value", "The header's value."),
];
const PORT: [(&str, &str); 5] = [
    ("containerPort", "The port of the pod's address."),
    ("hostIP", "The node's address that it is bound to."),
    ("hostPort", "The node's port."),
    ("name", "The port's name."),
    ("protocol", "TCP, UDP or SCTP."),
];
pub(crate) const CONDITIONS: &str =
    "PreRecreateGrace, MinStartedPending, Blocked or DeadlineExceeded.";

/// Describes what is copied from the pod. Fields that newer pods have are copied, too.
fn copied(base: &str, said: &[(&str, &str)]) -> impl Transform {
    let mut patches = described(base, said);
    patches.push(at(
        base,
        json!({"x-kubernetes-preserve-unknown-fields": true}),
    ));
    patched(patches)
}
