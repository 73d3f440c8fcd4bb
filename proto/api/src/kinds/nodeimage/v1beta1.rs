//! NodeImage: what images a node shall have, and which it has.
//!
//! The controller writes the spec, the node's daemon the status. The parts that only Berth has are
//! the same in every version, so that no conversion loses them.

mod containers;
pub(crate) mod rules;
mod status;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

pub use containers::{
    ImageFact, InspectEnv, InspectPod, InspectedContainer, InspectedPod, StopContainer, StopPhase,
    StoppedContainer,
};
pub use rules::{
    DEFAULT_BACKOFF_LIMIT, DEFAULT_TIMEOUT_SECONDS, MAX_BACKOFF_LIMIT, MAX_IMAGES,
    MAX_INSPECTED_PODS, MAX_SANDBOX_BYTES, MAX_SANDBOX_PAIRS, MAX_STOPPED_CONTAINERS, MAX_TAGS,
    MAX_TIMEOUT_SECONDS,
};
pub use status::{
    ImagePullPhase, ImageStatus, ImageTagStatus, NodeImageCondition, NodeImageStatus, SyncStatus,
    SyncStatusPhase,
};

use self::rules::{have_names, owners, tag_count};
use crate::schema::absent::{is_false, is_zero_i64};
use crate::schema::field::{checks, defaults_to, list_by};

/// The only value that [`ReferenceObject::mode`] has.
pub const REFERENCE_MODE_BATCH: &str = "batch";

/// What the node's daemon shall do. Written by the controller.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "apps.kruise.io",
    version = "v1beta1",
    kind = "NodeImage",
    status = "NodeImageStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "NodeImage has the name of a node, and says which images that node shall pull and how far it is with them.",
    printcolumn = r#"{"name": "DESIRED", "type": "integer", "jsonPath": ".status.desired", "description": "Pulls that are wanted."}"#,
    printcolumn = r#"{"name": "PULLING", "type": "integer", "jsonPath": ".status.pulling", "description": "Pulls that are going on."}"#,
    printcolumn = r#"{"name": "SUCCEED", "type": "integer", "jsonPath": ".status.succeeded", "description": "Pulls that succeeded."}"#,
    printcolumn = r#"{"name": "FAILED", "type": "integer", "jsonPath": ".status.failed", "description": "Pulls that failed."}"#,
    printcolumn = r#"{"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp", "description": "Time since the creation."}"#
)]
#[serde(rename_all = "camelCase")]
pub struct NodeImageSpec {
    /// Images to pull, by name without tag. At most 256.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = MAX_IMAGES), transform = checks([have_names()]))]
    pub images: BTreeMap<String, ImageSpec>,
    /// Berth: pods of the node whose in-place update cannot be judged by their own status. The
    /// daemon answers in status.inspectedPods what their containers were created from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_INSPECTED_PODS), transform = list_by(["uid"]))]
    pub inspect_pods: Vec<InspectPod>,
    /// Berth: containers of the node's pods to stop, as ContainerRecreateRequests ask for it. The
    /// daemon answers in status.stoppedContainers. At most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_STOPPED_CONTAINERS), transform = list_by(["request", "container"]))]
    pub stop_containers: Vec<StopContainer>,
    /// Berth: all that a node pulls which joins is listed in images. The daemon tells
    /// status.firstSyncStatus only then.
    #[serde(default, skip_serializing_if = "is_false")]
    pub first_pulls_listed: bool,
}

/// One image and the tags of it to pull.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["tags"]))]
pub struct ImageSpec {
    /// Secrets to try for the registry, of type kubernetes.io/dockerconfigjson or
    /// kubernetes.io/dockercfg.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pull_secrets: Vec<ReferenceObject>,
    /// The tags, or digests, to pull. At most 64.
    #[serde(default)]
    #[schemars(transform = list_by(["tag"]), transform = checks([tag_count()]))]
    pub tags: Vec<ImageTagSpec>,
    /// What is handed to the runtime along with pulls of tags that say nothing themselves. Read,
    /// and kept where it is; what jobs ask for is the tag's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox_config: Option<SandboxConfig>,
}

impl ImageSpec {
    /// What is handed to the runtime along with the pull of one tag.
    pub fn sandbox_of(&self, tag: &str) -> Option<&SandboxConfig> {
        let own = self
            .tags
            .iter()
            .find(|entry| entry.tag == tag)
            .and_then(|entry| entry.sandbox_config.as_ref());
        own.or(self.sandbox_config.as_ref())
    }

    /// The secrets for the pull of one tag: those from the namespaces of the tag's own owners. The
    /// list belongs to the image, but another tag of it may be another tenant's, whose passwords
    /// are not this tag's to use. A tag that was put in by hand, with no owner that has a
    /// namespace, gets those from namespaces that own no tag of the image. `None` when the tag is
    /// not listed.
    pub fn secrets_of(&self, tag: &str) -> Option<Vec<&ReferenceObject>> {
        let entry = self.tags.iter().find(|entry| entry.tag == tag)?;
        let by_hand = entry.namespaces().next().is_none();
        let applies = |secret: &&ReferenceObject| {
            let owns = |entry: &ImageTagSpec| {
                entry
                    .namespaces()
                    .any(|namespace| namespace == secret.namespace)
            };
            if by_hand {
                !self.tags.iter().any(owns)
            } else {
                owns(entry)
            }
        };
        Some(self.pull_secrets.iter().filter(applies).collect())
    }
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
    /// How OpenKruise copied the secret. Berth copies none and ignores it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mode: String,
}

/// One tag to pull.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageTagSpec {
    /// The tag, or a digest.
    #[schemars(length(min = 1))]
    pub tag: String,
    /// When the pull was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Time>,
    /// Limits of the pull.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = defaults_to(json!({})))]
    pub pull_policy: Option<ImageTagPullPolicy>,
    /// Who asked for the pull. When all of them are gone, the entry is dropped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = owners)]
    pub owner_references: Vec<ObjectReference>,
    /// Counts the times that the pull was asked for. A status with another version speaks of an
    /// earlier one.
    #[serde(default, skip_serializing_if = "is_zero_i64")]
    #[schemars(range(min = 0))]
    pub version: i64,
    /// Always asks the registry even if the node has the image, IfNotPresent does not. Empty means
    /// IfNotPresent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<ImagePullPolicy>,
    /// Berth: what is handed to the runtime along with this pull. Without it, what the image says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox_config: Option<SandboxConfig>,
}

impl ImageTagSpec {
    /// The namespaces of the owners, each as often as it has one. Owners that have none are left
    /// out.
    pub fn namespaces(&self) -> impl Iterator<Item = &str> {
        let namespaces = self
            .owner_references
            .iter()
            .filter_map(|owner| owner.namespace.as_deref());
        namespaces.filter(|namespace| !namespace.is_empty())
    }
}

/// When the daemon queries the registry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ImagePullPolicy {
    /// Every time.
    Always,
    /// When the node has no such image.
    #[default]
    IfNotPresent,
}

/// Limits of one pull.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageTagPullPolicy {
    /// Seconds after which one try has failed; at most 3600. Defaults to 600.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_TIMEOUT_SECONDS))]
    #[schemars(transform = defaults_to(DEFAULT_TIMEOUT_SECONDS))]
    pub timeout_seconds: Option<i32>,
    /// How often a failed pull is tried again before it is given up; at most 100. Defaults to 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = MAX_BACKOFF_LIMIT))]
    #[schemars(transform = defaults_to(DEFAULT_BACKOFF_LIMIT))]
    pub backoff_limit: Option<i32>,
    /// Seconds after which a finished pull is dropped from the spec. Without it the entry stays.
    #[serde(
        rename = "ttlSecondsAfterFinished",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(range(min = 0, max = i32::MAX))]
    pub ttl_seconds_after_finished: Option<i32>,
    /// Seconds after which the pull is given up, all tries together. Without it there is no such
    /// limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = i32::MAX))]
    pub active_deadline_seconds: Option<i64>,
}

/// What is handed to the runtime along with a pull, for runtimes and snapshotters that look at it.
/// At most 16 KiB.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SandboxConfig {
    /// Labels of the sandbox config in CRI's PullImage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations of the sandbox config in CRI's PullImage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
}

impl SandboxConfig {
    /// Is it small enough to be copied into the NodeImage of every node, and handed to a runtime?
    ///
    /// # Errors
    /// In words that follow on the field's name: how large it is, the limit, and the remedy.
    pub fn check(&self) -> Result<(), String> {
        let pairs = self.labels.iter().chain(&self.annotations).flatten();
        match pairs.map(|(key, value)| key.len() + value.len()).sum() {
            0..=MAX_SANDBOX_BYTES => Ok(()),
            bytes => Err(format!(
                "has labels and annotations of {bytes} bytes, but can have {MAX_SANDBOX_BYTES} in all; remove or shorten \
                 some"
            )),
        }
    }
}

/// How long one try of a pull may take, in seconds, if its entry requests `asked`. An entry may be
/// older than the bounds of the CRD.
pub fn timeout_seconds(asked: Option<i32>) -> i32 {
    asked
        .filter(|seconds| *seconds > 0)
        .unwrap_or(DEFAULT_TIMEOUT_SECONDS)
        .min(MAX_TIMEOUT_SECONDS)
}

/// How often a pull is tried again, if its entry requests `asked`, as for [`timeout_seconds`].
pub fn backoff_limit(asked: Option<i32>) -> i32 {
    asked
        .filter(|times| *times >= 0)
        .unwrap_or(DEFAULT_BACKOFF_LIMIT)
        .min(MAX_BACKOFF_LIMIT)
}

#[cfg(test)]
mod tests;
