//! Questions and requests to a node's daemon about the containers of pods, and its answers. Only
//! Berth has these fields.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rules::{NAME, REFERENCE};
use crate::kinds::containerrecreaterequest::v1beta1::{MAX_CONTAINER_ID, MAX_GRACE_SECONDS};
use crate::schema::absent::{is_false, is_zero_i32};
use crate::schema::field::list_by;

/// Berth: a pod to look at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InspectPod {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The pod's uid.
    pub uid: String,
    /// The containers that an update is to have created anew, and the variables that containers
    /// take from the pod's labels and annotations, while an update changes any of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = list_by(["container"]))]
    pub env: Vec<InspectEnv>,
}

/// Berth: the variables that a container takes from its pod's labels and annotations, and which
/// container of this name is to run no more. The daemon tells what the container was created with,
/// and stops it where that is not what is wanted, or where it is that one: the kubelet creates it
/// anew.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InspectEnv {
    /// The container's name.
    pub container: String,
    /// The image in the pod's spec. A container of another one is not stopped: the kubelet does
    /// that by itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub image: String,
    /// Names the update. The answer has it, too: only then does the daemon know what it is to stop.
    pub update: String,
    /// By variable: the hash of the value that is wanted; empty where any will do.
    #[serde(default)]
    pub values: BTreeMap<String, String>,
    /// The runtime's id, without its scheme, of the container that is stopped if it runs; without
    /// it, none is for its id.
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
    /// The one that is stopped, if it runs: no other of this name ever is.
    #[serde(rename = "containerID")]
    #[schemars(length(max = MAX_CONTAINER_ID))]
    pub container_id: String,
    /// Seconds that it has to end, its preStop hook included; 0 runs no hook. Without it, what its
    /// kubelet says.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = MAX_GRACE_SECONDS))]
    pub grace_period_seconds: Option<i64>,
    /// Seconds after which the daemon says of the next container of this name that it has lasted.
    #[serde(default, skip_serializing_if = "is_zero_i32")]
    #[schemars(range(min = 0, max = i32::MAX))]
    pub min_started_seconds: i32,
    /// When it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Time>,
    /// The request is over: what has not begun does not begin.
    #[serde(default, skip_serializing_if = "is_false")]
    pub cancelled: bool,
}

/// Berth: what a pod's containers were created from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InspectedPod {
    /// The pod's uid.
    #[schemars(length(max = NAME))]
    pub uid: String,
    /// Its containers, the newest of each name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128), transform = list_by(["name"]))]
    pub containers: Vec<InspectedContainer>,
    /// When the daemon looked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_at: Option<Time>,
}

/// Berth: what a container was created from, as the runtime tells.
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
    /// The id of the image that it runs.
    #[serde(default, rename = "imageID", skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = REFERENCE))]
    pub image_id: String,
    /// The kubelet's hash of the container's spec, from the container's annotation.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = NAME))]
    pub hash: String,
    /// How many containers of this name the pod had before: the `restartCount` of the pod's status,
    /// once it knows this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<i32>,
    /// When it was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Time>,
    /// The update of spec.inspectPods[].env that the next two answer; empty while the container is
    /// being stopped.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = NAME))]
    pub update: String,
    /// By variable that spec.inspectPods names for the container: the hash of the value that it was
    /// created with.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 128))]
    pub env: BTreeMap<String, String>,
    /// The hash of those variables together, in hex, as in the annotation
    /// apps.kruise.io/runtime-containers-meta.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = NAME))]
    pub env_hash: String,
}

/// Berth: what became of a container that was to be stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoppedContainer {
    /// The uid of the ContainerRecreateRequest.
    #[schemars(length(max = NAME))]
    pub request: String,
    /// The container's name.
    #[schemars(length(max = NAME))]
    pub container: String,
    /// The one that was to be stopped.
    #[serde(rename = "containerID")]
    #[schemars(length(max = REFERENCE))]
    pub container_id: String,
    /// What became of it.
    pub phase: StopPhase,
    /// When its stop began, by the node's clock, while that is under way for this request. A daemon
    /// that is started meanwhile ends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub begun_at: Option<Time>,
    /// Why it could not be stopped.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = REFERENCE))]
    pub message: String,
    /// What went wrong with its preStop hook.
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

/// What became of a container that was to be stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum StopPhase {
    /// Its preStop hook runs, or it is about to end. Said of what takes its time.
    #[default]
    Stopping,
    /// The daemon has stopped it.
    Stopped,
    /// No such container runs: it had ended already.
    Gone,
    /// It could not be stopped.
    Failed,
    /// It was not stopped, for the request was over before.
    Cancelled,
}

impl StopPhase {
    /// Is there more to come?
    pub fn is_final(self) -> bool {
        self != Self::Stopping
    }
}

impl StopContainer {
    /// Is this the answer to it?
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
    /// All ids that the node knows it by: of its config, its manifest and its index. Empty: the
    /// node does not have it.
    #[serde(default, rename = "imageIDs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = REFERENCE)))]
    pub image_ids: Vec<String>,
}
