//! A pod as decisions see it: only what they read, in as little memory as that takes.
//!
//! The feed decodes watch events straight into these types, so that nothing else of a pod is ever held.

mod availability;
mod bounds;
mod env;
pub mod gates;
mod native;
pub mod order;
pub mod pinned;
pub mod priority;
pub mod resources;
pub mod spread;
pub mod unready;
mod volumes;
mod word;

pub use availability::{Availability, availability};
pub use bounds::slim;
pub use env::Env;
pub use word::Word;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Deserializer, Serialize};

use resources::Resources;

/// A pod, stripped to what decisions read. One that goes beyond a bound cannot be decoded.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(remote = "Self")]
pub struct Pod {
    /// Names, labels, owner.
    pub metadata: Metadata,
    /// Node, containers, gates.
    #[serde(default)]
    pub spec: Spec,
    /// What the kubelet and the controller report.
    #[serde(default)]
    pub status: Status,
}

/// Object metadata that decisions read. Some that goes beyond a bound cannot be decoded.
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
    /// Annotations that decisions read, sorted by key: of the `kruise.io` domain and its subdomains nearly all, and a few others.
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
    /// The one node that it may be scheduled to, where its affinity names one, as that of a DaemonSet's pod does.
    #[serde(rename = "affinity", deserialize_with = "pinned::to_node")]
    pub pinned_to: Option<Box<str>>,
    /// Containers, without init containers.
    pub containers: Box<[Container]>,
    /// Init containers that restart, and so run beside the containers.
    #[serde(rename = "initContainers", deserialize_with = "native::sidecars")]
    pub native_sidecars: Box<[Container]>,
    /// Readiness gates.
    pub readiness_gates: Box<[ReadinessGate]>,
    /// When its kubelet starts a container again that has ended.
    pub restart_policy: RestartPolicy,
    /// The names of its volumes that are claims. No volume of a pod ever changes.
    #[serde(rename = "volumes", deserialize_with = "volumes::of_claims")]
    pub claim_volumes: Box<[Box<str>]>,
    /// How many seconds its containers have to stop.
    pub termination_grace_period_seconds: i64,
}

/// When a container that has ended is started again. Native sidecars always are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub enum RestartPolicy {
    /// Always.
    #[default]
    Always,
    /// Unless it has ended well.
    OnFailure,
    /// Never.
    Never,
}

/// A container's name, wanted image and wanted resources.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Container {
    /// Name.
    pub name: Box<str>,
    /// Image reference as written.
    pub image: Box<str>,
    /// Cpu and memory, where the container names any.
    #[serde(deserialize_with = "resources::where_given")]
    pub resources: Option<Box<Resources>>,
    /// What its variables say.
    #[serde(deserialize_with = "env::read")]
    pub env: Env,
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
    /// The node's words for that.
    pub message: Box<str>,
    /// When its kubelet took it.
    #[serde(deserialize_with = "bounds::time")]
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
        deserialize_with = "bounds::time"
    )]
    pub last_transition_time: Option<Timestamp>,
    /// CamelCase reason. Written even when it is empty: the reason of another's False is none for our True.
    pub reason: Word,
    /// For people. Written even when it is empty.
    pub message: Box<str>,
}

/// The state of a container as the kubelet reports it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    /// Name.
    pub name: Box<str>,
    /// Image name as the runtime reports it, which may be another name of the same image.
    pub image: Box<str>,
    /// Image id as the runtime reports it.
    #[serde(rename = "imageID")]
    pub image_id: Box<str>,
    /// Runtime and id, e.g. `containerd://…`.
    #[serde(rename = "containerID")]
    pub container_id: Box<str>,
    /// Passed its readiness probe.
    pub ready: bool,
    /// Restarts.
    pub restart_count: i32,
    /// What it is doing.
    pub state: ContainerState,
    /// How it ended the last time.
    pub last_state: ContainerState,
    /// Cpu and memory that it has, where it has any.
    #[serde(deserialize_with = "resources::where_given")]
    pub resources: Option<Box<Resources>>,
}

/// What a container is doing, as far as decisions ask: why it does not run. Neither is set while it runs.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ContainerState {
    /// Set while it waits to run.
    pub waiting: Option<Box<ContainerWaiting>>,
    /// Set once it has ended.
    #[serde(deserialize_with = "ended")]
    pub terminated: Option<Box<ContainerTerminated>>,
}

/// Drops the message of a container that has run, because its own process may have written the message.
fn ended<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Box<ContainerTerminated>>, D::Error> {
    let mut read = Option::<Box<ContainerTerminated>>::deserialize(deserializer)?;
    if let Some(ended) = read.as_mut().filter(|ended| !ended.has_never_run()) {
        ended.message = Box::default();
    }
    Ok(read)
}

/// Why a container waits.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ContainerWaiting {
    /// CamelCase, e.g. `ImagePullBackOff`.
    pub reason: Box<str>,
    /// The runtime's words.
    pub message: Box<str>,
}

/// How a container ended.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerTerminated {
    /// Its exit code.
    pub exit_code: i32,
    /// CamelCase, e.g. `OOMKilled`.
    pub reason: Box<str>,
    /// The runtime's words, where the runtime could not start the container.
    pub message: Box<str>,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
}

/// A kubelet starts a container without a pause again that has run for this long.
const BACK_OFF_RESET: SignedDuration = SignedDuration::from_mins(10);

impl ContainerTerminated {
    /// Whether the runtime could not start the container.
    pub fn has_never_run(&self) -> bool {
        matches!(&*self.reason, "StartError" | "ContainerCannotRun")
    }

    /// Whether the container ran for less time than resets the kubelet's back-off. True where the times are missing.
    pub fn is_short(&self) -> bool {
        let ran = self
            .finished_at
            .zip(self.started_at)
            .map(|(end, start)| end.duration_since(start));
        ran.is_none_or(|ran| ran < BACK_OFF_RESET)
    }
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

    /// Does the feed keep annotations of this key?
    pub fn keeps_annotation(key: &str) -> bool {
        pairs::is_known(key)
    }

    /// The owner that manages the object.
    pub fn controller(&self) -> Option<&Owner> {
        self.owner_references.iter().find(|owner| owner.controller)
    }
}

impl Pod {
    /// The condition of this type.
    pub fn condition(&self, type_: &str) -> Option<&Condition> {
        self.status.conditions.iter().find(|c| &*c.type_ == type_)
    }

    /// All that run beside each other: the containers, and the native sidecars.
    pub fn containers(&self) -> impl Iterator<Item = &Container> {
        self.spec
            .containers
            .iter()
            .chain(&self.spec.native_sidecars)
    }

    /// The one of those that has this name, which no two containers of a pod share.
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

/// Maps held as sorted slices of pairs: a third of the memory of a tree for the handful of entries that objects have.
mod pairs {
    use std::fmt;
    use std::marker::PhantomData;
    use std::ops::Deref;

    use berth_api::names::annotation::{
        CONVERSION, DAEMONSET_TEMPLATE_GENERATION, INPLACE_UPDATE_GRACE_OLD,
        INPLACE_UPDATE_STATE_OLD, MIRROR_POD, RUNTIME_CONTAINERS_META,
    };
    use serde::Deserialize;
    use serde::de::{Deserializer, MapAccess, Visitor};

    use super::Word;

    type Pairs<V> = Box<[(Word, V)]>;

    pub(super) fn get<'a, V: Deref<Target = str>>(
        pairs: &'a [(Word, V)],
        key: &str,
    ) -> Option<&'a str> {
        // Two texts of different length are told apart at once, so that a handful is looked through sooner than searched.
        pairs
            .iter()
            .find(|(k, _)| **k == *key)
            .map(|(_, value)| &**value)
    }

    pub(super) fn all<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Pairs<Word>, D::Error> {
        deserializer.deserialize_option(Keep(|_| true, PhantomData))
    }

    pub(super) fn known_annotations<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Pairs<Box<str>>, D::Error> {
        deserializer.deserialize_option(Keep(is_known, PhantomData))
    }

    /// Those outside of the domain.
    const KNOWN_ANNOTATIONS: [&str; 5] = [
        "controller.kubernetes.io/pod-deletion-cost",
        INPLACE_UPDATE_STATE_OLD,
        INPLACE_UPDATE_GRACE_OLD,
        MIRROR_POD,
        DAEMONSET_TEMPLATE_GENERATION,
    ];
    /// Those of the domain that are long, and that no decision reads.
    const LEFT_OUT: [&str; 2] = [RUNTIME_CONTAINERS_META, CONVERSION];

    pub(super) fn is_known(key: &str) -> bool {
        let domain = key.split_once('/').map_or("", |(domain, _)| domain);
        let is_ours = domain == "kruise.io" || domain.ends_with(".kruise.io");
        (is_ours && !LEFT_OUT.contains(&key)) || KNOWN_ANNOTATIONS.contains(&key)
    }

    struct Keep<V>(fn(&str) -> bool, PhantomData<V>);

    impl<'de, V: Deserialize<'de> + Ord> Visitor<'de> for Keep<V> {
        type Value = Pairs<V>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map of strings")
        }

        fn visit_none<E>(self) -> Result<Pairs<V>, E> {
            Ok(Box::default())
        }

        fn visit_unit<E>(self) -> Result<Pairs<V>, E> {
            Ok(Box::default())
        }

        fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Pairs<V>, D::Error> {
            deserializer.deserialize_map(self)
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs<V>, A::Error> {
            let mut pairs = Vec::new();
            while let Some((key, value)) = map.next_entry::<Word, V>()? {
                if (self.0)(&key) {
                    pairs.push((key, value));
                }
            }
            pairs.sort();
            Ok(pairs.into_boxed_slice())
        }
    }
}
