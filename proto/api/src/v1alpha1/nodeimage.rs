//! NodeImage: what images a node shall have, and which it has.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::absent::is_false;
use crate::schema::field::{list_by, rules};
use crate::v1beta1::nodeimage::rules::{have_names, tag_count};
pub use crate::v1beta1::nodeimage::{
    ImageFact, ImagePullPhase, ImagePullPolicy, ImageStatus, ImageTagPullPolicy, ImageTagSpec,
    ImageTagStatus, InspectPod, InspectedContainer, InspectedPod, NodeImageCondition,
    NodeImageStatus, SandboxConfig, StopContainer, StoppedContainer, SyncStatus, SyncStatusPhase,
};
use crate::v1beta1::nodeimage::{MAX_IMAGES, MAX_INSPECTED_PODS, MAX_STOPPED_CONTAINERS};

/// What the node's daemon shall do. Written by the controller.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "apps.kruise.io",
    version = "v1alpha1",
    kind = "NodeImage",
    storage = false,
    status = "NodeImageStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "NodeImage has the name of a node, and says which images that node shall pull and how far it is with them."
)]
#[serde(rename_all = "camelCase")]
pub struct NodeImageSpec {
    /// Images to pull, by name without tag. At most 256.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = MAX_IMAGES), transform = rules([have_names()]))]
    pub images: BTreeMap<String, ImageSpec>,
    /// Berth: pods of the node whose in-place update cannot be judged by their own status. The daemon answers in
    /// status.inspectedPods what their containers were created from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_INSPECTED_PODS), transform = list_by(["uid"]))]
    pub inspect_pods: Vec<InspectPod>,
    /// Berth: containers of the node's pods to stop, as ContainerRecreateRequests ask for it. The daemon answers in
    /// status.stoppedContainers. At most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_STOPPED_CONTAINERS), transform = list_by(["request", "container"]))]
    pub stop_containers: Vec<StopContainer>,
    /// Berth: all that a node pulls which joins is listed in images. The daemon tells status.firstSyncStatus only then.
    #[serde(default, skip_serializing_if = "is_false")]
    pub first_pulls_listed: bool,
}

/// One image and the tags of it to pull.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["tags"]))]
pub struct ImageSpec {
    /// Secrets to try for the registry, of type kubernetes.io/dockerconfigjson or kubernetes.io/dockercfg.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pull_secrets: Vec<ReferenceObject>,
    /// The tags, or digests, to pull. At most 64.
    #[serde(default)]
    #[schemars(transform = list_by(["tag"]), transform = rules([tag_count()]))]
    pub tags: Vec<ImageTagSpec>,
    /// What is handed to the runtime along with pulls of tags that say nothing themselves. Read, and kept where it is; what
    /// jobs ask for is the tag's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox_config: Option<SandboxConfig>,
}

/// A secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReferenceObject {
    /// The secret's namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The secret's name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
}
