//! A pod as a simulated kubelet sees it: only the fields that it reads.

use std::borrow::Cow;
use std::time::Duration;

use berth_runtime::object::{Object, PODS, Resource};
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Annotations by which a pod configures its kubelet.
pub mod annotation {
    /// How long a container takes to start, such as `500ms`; overrides its node's setting.
    pub const START_DELAY: &str = "simnode/start-delay";
    /// How long the pod takes to end, such as `2s`; overrides its node's setting.
    pub const STOP_DELAY: &str = "simnode/stop-delay";
    /// Images that no registry has, separated by commas.
    pub const MISSING_IMAGES: &str = "simnode/missing-images";
    /// Images whose containers crash-loop, separated by commas.
    pub const CRASHING_IMAGES: &str = "simnode/crashing-images";
}

/// A pod.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Pod {
    /// Names and versions.
    pub metadata: Metadata,
    /// Node, containers, gates.
    #[serde(default)]
    pub spec: Spec,
    /// The reported status.
    #[serde(default)]
    pub status: Status,
}

/// Names and versions of a pod.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// Namespace.
    pub namespace: Box<str>,
    /// Name.
    pub name: Box<str>,
    /// Uid.
    pub uid: Box<str>,
    /// Version of the object.
    pub resource_version: Box<str>,
    /// Version of the spec.
    pub generation: i64,
    /// Set once it is being deleted.
    pub deletion_timestamp: Option<Box<str>>,
    /// Zero once its kubelet has removed it and only finalizers hold it.
    pub deletion_grace_period_seconds: Option<i64>,
    /// The pod's settings for its kubelet.
    pub annotations: Manner,
}

/// The settings in a pod's annotations for its kubelet.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Manner {
    /// See [`annotation::START_DELAY`].
    pub start_delay: Option<Duration>,
    /// See [`annotation::STOP_DELAY`].
    pub stop_delay: Option<Duration>,
    /// See [`annotation::MISSING_IMAGES`].
    pub missing_images: Box<[Box<str>]>,
    /// See [`annotation::CRASHING_IMAGES`].
    pub crashing_images: Box<[Box<str>]>,
}

/// The spec of a pod.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    /// Its node; empty while it has none.
    pub node_name: Box<str>,
    /// The scheduler that may bind it.
    pub scheduler_name: Box<str>,
    /// The only node that it may be bound to, if its affinity names one.
    #[serde(
        rename = "affinity",
        deserialize_with = "berth_workload::objects::pod::pinned::to_node"
    )]
    pub pinned_to: Option<Box<str>>,
    /// Containers that start before the others. Those that run to completion have ended at once,
    /// and are not reported.
    pub init_containers: Box<[Container]>,
    /// Its containers.
    pub containers: Box<[Container]>,
    /// Conditions that other writers set, and that it needs to be ready.
    pub readiness_gates: Box<[ReadinessGate]>,
}

/// The spec of a container.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// Name.
    pub name: Box<str>,
    /// Image.
    pub image: Box<str>,
    /// Requests and limits, reported unchanged.
    pub resources: Option<Value>,
    /// `Always` for an init container that runs beside the others. Ignored for other containers.
    pub restart_policy: Box<str>,
}

/// A condition that must be True.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadinessGate {
    /// Its type.
    pub condition_type: Box<str>,
}

/// The reported status of a pod.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// `Pending`, `Running`, …
    pub phase: Box<str>,
    /// The generation of the report.
    pub observed_generation: i64,
    /// Conditions of all writers.
    pub conditions: Box<[Condition]>,
    /// Init containers that run beside the others.
    pub init_container_statuses: Box<[ContainerStatus]>,
    /// Containers.
    pub container_statuses: Box<[ContainerStatus]>,
}

/// A condition.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Condition {
    /// Type.
    #[serde(rename = "type")]
    pub type_: Box<str>,
    /// `True`, `False` or `Unknown`.
    pub status: Box<str>,
}

/// The reported status of a container.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    /// Name.
    pub name: Box<str>,
    /// The image that it was created from.
    pub image: Box<str>,
    /// The id of that image.
    #[serde(rename = "imageID")]
    pub image_id: Box<str>,
    /// The id of the container.
    #[serde(rename = "containerID")]
    pub container_id: Box<str>,
    /// How often it was created anew.
    pub restart_count: i32,
    /// It is ready, because it runs.
    pub ready: bool,
    /// It has started, because it runs.
    pub started: bool,
    /// Since when it runs, or why it does not.
    pub state: State,
    /// Requests and limits, as the container has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Value>,
}

/// The state of a container.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    /// Since when it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<Running>,
    /// Why it does not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
}

/// A container runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Running {
    /// Since when, RFC 3339.
    pub started_at: Box<str>,
}

/// A container does not run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    /// Why: `ImagePullBackOff`, `CrashLoopBackOff`.
    pub reason: Box<str>,
}

impl Manner {
    fn set(&mut self, key: &str, value: &str) {
        let images = || value.split(',').map(|image| image.trim().into()).collect();
        match key {
            annotation::START_DELAY => self.start_delay = delay(value),
            annotation::STOP_DELAY => self.stop_delay = delay(value),
            annotation::MISSING_IMAGES => self.missing_images = images(),
            annotation::CRASHING_IMAGES => self.crashing_images = images(),
            _ => {}
        }
    }
}

/// Reads `500ms`, `2s`, `1m30s`. None for anything else.
pub fn delay(text: &str) -> Option<Duration> {
    text.parse::<jiff::SignedDuration>()
        .ok()
        .and_then(|delay| delay.try_into().ok())
}

impl Spec {
    /// Init containers that run beside the others.
    pub fn native_sidecars(&self) -> impl Iterator<Item = &Container> {
        self.init_containers
            .iter()
            .filter(|container| &*container.restart_policy == "Always")
    }
}

impl<'de> Deserialize<'de> for Manner {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Annotations;
        impl<'de> Visitor<'de> for Annotations {
            type Value = Manner;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("annotations")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Manner, A::Error> {
                let mut manner = Manner::default();
                while let Some((key, value)) = map.next_entry::<Cow<'de, str>, Cow<'de, str>>()? {
                    manner.set(&key, &value);
                }
                Ok(manner)
            }
        }
        deserializer.deserialize_map(Annotations)
    }
}

impl Pod {
    /// The reported status of a condition.
    pub fn condition(&self, type_: &str) -> Option<&str> {
        self.status
            .conditions
            .iter()
            .find(|condition| &*condition.type_ == type_)
            .map(|condition| &*condition.status)
    }
}

impl Object for Pod {
    const RESOURCE: Resource = PODS;

    fn namespace(&self) -> &str {
        &self.metadata.namespace
    }
    fn name(&self) -> &str {
        &self.metadata.name
    }
    fn uid(&self) -> &str {
        &self.metadata.uid
    }
    fn resource_version(&self) -> &str {
        &self.metadata.resource_version
    }
    fn terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}
