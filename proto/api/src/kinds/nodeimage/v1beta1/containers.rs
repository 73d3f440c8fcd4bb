//! Fields of a NodeImage about the containers of pods: the controller's requests to the node's
//! daemon in the spec, and the daemon's answers in the status. Only Berth has these fields.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rules::{NAME, REFERENCE};
use crate::kinds::containerrecreaterequest::v1beta1::{MAX_CONTAINER_ID, MAX_GRACE_SECONDS};
use crate::schema::absent::{is_false, is_zero_i32};
use crate::schema::field::list_by;

/// Berth: a pod whose containers the daemon reports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InspectPod {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The pod's uid.
    pub uid: String,
    /// The containers that an update in place restarts, or whose variables it changes. Empty while
    /// no update needs a report.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = list_by(["container"]))]
    pub env: Vec<InspectEnv>,
}

/// Berth: the variables with which an update in place wants a container to run. The daemon reports
/// the variables that the container was created with. It stops the container if these differ, or if
/// the container has the id `containerID`, so that the kubelet creates the container anew.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InspectEnv {
    /// The container's name.
    pub container: String,
    /// The image in the pod's spec. The daemon does not stop a container with another image,
    /// because the kubelet stops it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub image: String,
    /// The identity of the update. The report repeats it, so that no report about an older update
    /// counts.
    pub update: String,
    /// The hash of the wanted value, by name of the variable; empty if any value will do. The
    /// variables come from the pod's labels and annotations.
    #[serde(default)]
    pub values: BTreeMap<String, String>,
    /// The runtime's id, without its scheme, of the container that the daemon stops if it runs.
    /// Empty if the update needs no restart.
    #[serde(
        default,
        rename = "containerID",
        skip_serializing_if = "String::is_empty"
    )]
    pub container_id: String,
}

/// Berth: a container to stop, once. The kubelet then creates another in its place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StopContainer {
    /// The uid of the ContainerRecreateRequest.
    #[schemars(length(max = NAME))]
    pub request: String,
    /// The pod's namespace.
    #[schemars(length(max = NAME))]
    pub namespace: String,
    /// The pod's name.
    #[schemars(length(max = NAME))]
    pub name: String,
    /// The pod's uid.
    #[schemars(length(max = NAME))]
    pub uid: String,
    /// The container's name.
    #[schemars(length(max = NAME))]
    pub container: String,
    /// The id of the container to stop, if it runs. The daemon stops no other container of this
    /// name.
    #[serde(rename = "containerID")]
    #[schemars(length(max = MAX_CONTAINER_ID))]
    pub container_id: String,
    /// Seconds that the container has to end, including its preStop hook; 0 runs no hook. Without
    /// this field, the grace period that the kubelet gives the container.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = MAX_GRACE_SECONDS))]
    pub grace_period_seconds: Option<i64>,
    /// Seconds that the next container of this name must run before the daemon reports it in
    /// `lastingContainerID`.
    #[serde(default, skip_serializing_if = "is_zero_i32")]
    #[schemars(range(min = 0, max = i32::MAX))]
    pub min_started_seconds: i32,
    /// When the controller requested the stop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Time>,
    /// Whether the request is over: a stop that has not begun does not begin.
    #[serde(default, skip_serializing_if = "is_false")]
    pub cancelled: bool,
}

/// Berth: the daemon's report about a pod's containers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InspectedPod {
    /// The pod's uid.
    #[schemars(length(max = NAME))]
    pub uid: String,
    /// The pod's containers, the newest of each name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128), transform = list_by(["name"]))]
    pub containers: Vec<InspectedContainer>,
    /// When the daemon read the containers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_at: Option<Time>,
}

/// Berth: the image and the variables that a container was created with, as the runtime reports
/// them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InspectedContainer {
    /// The container's name in the pod.
    #[schemars(length(max = NAME))]
    pub name: String,
    /// The runtime's id, in the form of the pod's status: `containerd://…`.
    #[serde(
        default,
        rename = "containerID",
        skip_serializing_if = "String::is_empty"
    )]
    #[schemars(length(max = REFERENCE))]
    pub container_id: String,
    /// The image as the pod's spec had it when the container was created.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = REFERENCE))]
    pub image: String,
    /// The id of the image that the container runs.
    #[serde(default, rename = "imageID", skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = REFERENCE))]
    pub image_id: String,
    /// The kubelet's hash of the container's spec, from the container's annotation.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = NAME))]
    pub hash: String,
    /// The number of containers of this name that the pod had before. It is the `restartCount` of
    /// the pod's status, once the status has this container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<i32>,
    /// When the container was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Time>,
    /// The `update` of the entry in spec.inspectPods[].env that `env` and `envHash` answer. Empty
    /// while the container is being stopped.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = NAME))]
    pub update: String,
    /// The hash of the value that the container was created with, by name of each variable that
    /// spec.inspectPods lists for it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 128))]
    pub env: BTreeMap<String, String>,
    /// The hash of all variables in `env` together, in hex, as in the annotation
    /// apps.kruise.io/runtime-containers-meta.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = NAME))]
    pub env_hash: String,
}

/// Berth: the daemon's answer to a [`StopContainer`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoppedContainer {
    /// The uid of the ContainerRecreateRequest.
    #[schemars(length(max = NAME))]
    pub request: String,
    /// The container's name.
    #[schemars(length(max = NAME))]
    pub container: String,
    /// The id of the container to stop, as in the request.
    #[serde(rename = "containerID")]
    #[schemars(length(max = REFERENCE))]
    pub container_id: String,
    /// How far the stop is.
    pub phase: StopPhase,
    /// When the stop began, by the node's clock, while it is under way. A daemon that starts
    /// meanwhile resumes the stop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub begun_at: Option<Time>,
    /// The error if the container could not be stopped.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = REFERENCE))]
    pub message: String,
    /// The error of the container's preStop hook.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = REFERENCE))]
    pub hook_message: String,
    /// The next container of this name that has run for minStartedSeconds, by the node's clock.
    #[serde(
        default,
        rename = "lastingContainerID",
        skip_serializing_if = "String::is_empty"
    )]
    #[schemars(length(max = REFERENCE))]
    pub lasting_container_id: String,
}

/// How far the stop of a container is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum StopPhase {
    /// The preStop hook runs, or the container is about to end. The daemon reports this phase only
    /// of stops that take long.
    #[default]
    Stopping,
    /// The daemon has stopped the container.
    Stopped,
    /// No container with this id runs, because it had ended already.
    Gone,
    /// The container could not be stopped.
    Failed,
    /// The container was not stopped, because the request was over before.
    Cancelled,
}

impl StopPhase {
    /// Whether no other phase follows.
    pub fn is_final(self) -> bool {
        self != Self::Stopping
    }
}

impl StopContainer {
    /// Whether `answer` belongs to this request: same request, container and container id.
    pub fn is_answered_by(&self, answer: &StoppedContainer) -> bool {
        (&self.request, &self.container, &self.container_id)
            == (&answer.request, &answer.container, &answer.container_id)
    }
}

/// Berth: all ids of an image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageFact {
    /// The image as a pod's spec has it.
    #[schemars(length(max = REFERENCE))]
    pub image: String,
    /// All ids by which the node knows the image: of its config, its manifest and its index. Empty
    /// if the node does not have the image.
    #[serde(default, rename = "imageIDs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = REFERENCE)))]
    pub image_ids: Vec<String>,
}
