//! A pod as decisions read it: only the needed fields, in little memory.
//!
//! The feed decodes watch events directly into these types, so that other fields of a pod are never
//! in memory.

mod availability;
mod bounds;
mod container;
mod env;
pub mod gates;
pub mod lifecycle;
mod pairs;
pub mod pinned;
pub mod priority;
pub mod resources;
mod time;
pub mod unready;
mod volumes;
mod word;

pub use availability::{Availability, availability};
pub use bounds::slim;
pub use container::{
    Container, ContainerState, ContainerStatus, ContainerTerminated, ContainerWaiting,
};
pub use env::Env;
pub use word::Word;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A pod, with the fields that decisions read. A pod that exceeds a size limit is unreadable.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(remote = "Self")]
pub struct Pod {
    /// Names, labels, owner.
    pub metadata: Metadata,
    /// Node, containers, gates.
    #[serde(default)]
    pub spec: Spec,
    /// The kubelet's and the controller's reports.
    #[serde(default)]
    pub status: Status,
}

/// Object metadata that decisions read. Metadata that exceeds a size limit is unreadable.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(remote = "Self", rename_all = "camelCase", default)]
pub struct Metadata {
    /// Namespace.
    pub namespace: Box<str>,
    /// Name.
    pub name: Box<str>,
    /// Uid.
    pub uid: Box<str>,
    /// Version for preconditions.
    pub resource_version: Box<str>,
    /// Raised by the server with every change of the spec.
    pub generation: i64,
    /// When it was created.
    pub creation_timestamp: Option<Timestamp>,
    /// Set once it is being deleted.
    pub deletion_timestamp: Option<Timestamp>,
    /// All labels, sorted by key.
    #[serde(deserialize_with = "pairs::all")]
    pub labels: Box<[(Word, Word)]>,
    /// Annotations that decisions read, sorted by key: nearly all of the `kruise.io` domain and its
    /// subdomains, and a few others.
    #[serde(deserialize_with = "pairs::known_annotations")]
    pub annotations: Box<[(Word, Box<str>)]>,
    /// Owners.
    pub owner_references: Box<[Owner]>,
    /// Finalizers.
    pub finalizers: Box<[Box<str>]>,
}

/// An owner reference.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Owner {
    /// Group and version.
    pub api_version: Word,
    /// Kind.
    pub kind: Word,
    /// Name.
    pub name: Box<str>,
    /// Uid.
    pub uid: Box<str>,
    /// True for the one owner that manages the object.
    pub controller: bool,
}

/// The part of `pod.spec` that decisions read.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    /// Empty until scheduled.
    pub node_name: Box<str>,
    /// The one node that the pod may be scheduled to, if its affinity names one, as a DaemonSet's
    /// pod does.
    #[serde(rename = "affinity", deserialize_with = "pinned::to_node")]
    pub pinned_to: Option<Box<str>>,
    /// Containers, without init containers.
    pub containers: Box<[Container]>,
    /// Init containers that restart, and so run next to the containers.
    #[serde(
        rename = "initContainers",
        deserialize_with = "container::native_sidecars"
    )]
    pub native_sidecars: Box<[Container]>,
    /// Readiness gates.
    pub readiness_gates: Box<[ReadinessGate]>,
    /// When its kubelet restarts an ended container.
    pub restart_policy: RestartPolicy,
    /// The names of its volumes that are claims. A pod's volumes never change.
    #[serde(rename = "volumes", deserialize_with = "volumes::of_claims")]
    pub claim_volumes: Box<[Box<str>]>,
    /// How many seconds its containers have to stop.
    pub termination_grace_period_seconds: i64,
}

/// When an ended container is restarted. Native sidecars always are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub enum RestartPolicy {
    /// Always.
    #[default]
    Always,
    /// Unless it ended successfully.
    OnFailure,
    /// Never.
    Never,
}

/// A readiness gate.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReadinessGate {
    /// The condition that must be True.
    pub condition_type: Word,
}

/// The part of `pod.status` that decisions read.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// Pending, Running, Succeeded, Failed or Unknown.
    pub phase: Word,
    /// Why the node refused or evicted it, in CamelCase; mostly empty.
    pub reason: Word,
    /// The node's message for that.
    pub message: Box<str>,
    /// When its kubelet accepted it.
    #[serde(deserialize_with = "time::read")]
    pub start_time: Option<Timestamp>,
    /// The generation that the kubelet has seen (Kubernetes 1.34 and later; 0 before).
    pub observed_generation: i64,
    /// Conditions.
    pub conditions: Box<[Condition]>,
    /// States of the containers, without init containers.
    pub container_statuses: Box<[ContainerStatus]>,
    /// States of the init containers.
    pub init_container_statuses: Box<[ContainerStatus]>,
}

/// A pod condition, read and written.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// Type.
    #[serde(rename = "type")]
    pub type_: Word,
    /// True, False or Unknown.
    pub status: Word,
    /// When the status last changed.
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "time::read"
    )]
    pub last_transition_time: Option<Timestamp>,
    /// CamelCase reason. Written even if it is empty, because another writer's reason for False
    /// must not stay with True.
    pub reason: Word,
    /// The message for people. Written even if it is empty.
    pub message: Box<str>,
}

impl Metadata {
    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        pairs::get(&self.labels, key)
    }

    /// The value of an annotation that the feed keeps.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        pairs::get(&self.annotations, key)
    }

    /// Whether the feed keeps annotations of this key.
    pub fn keeps_annotation(key: &str) -> bool {
        pairs::is_known(key)
    }

    /// The owner that controls the object.
    pub fn controller(&self) -> Option<&Owner> {
        self.owner_references.iter().find(|owner| owner.controller)
    }
}

impl Pod {
    /// The condition of this type.
    pub fn condition(&self, type_: &str) -> Option<&Condition> {
        self.status.conditions.iter().find(|c| &*c.type_ == type_)
    }

    /// All containers that run at the same time: the containers, and the native sidecars.
    pub fn containers(&self) -> impl Iterator<Item = &Container> {
        self.spec
            .containers
            .iter()
            .chain(&self.spec.native_sidecars)
    }

    /// The running container of this name, which no two containers of a pod share.
    pub fn container(&self, name: &str) -> Option<&Container> {
        self.containers().find(|c| &*c.name == name)
    }

    /// The status of the container or init container of this name.
    pub fn container_status(&self, name: &str) -> Option<&ContainerStatus> {
        let mut all = self
            .status
            .container_statuses
            .iter()
            .chain(&self.status.init_container_statuses);
        all.find(|c| &*c.name == name)
    }
}
