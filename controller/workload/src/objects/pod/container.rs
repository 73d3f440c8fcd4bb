//! A container of a pod, and its state, as decisions see them.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Deserializer};

use super::env::{self, Env};
use super::resources::{self, Resources};
use super::word::Word;

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
    /// The values of its variables that decisions read.
    #[serde(deserialize_with = "env::read")]
    pub env: Env,
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
    /// Its state.
    pub state: ContainerState,
    /// How it ended the last time.
    pub last_state: ContainerState,
    /// Cpu and memory that it has, where it has any.
    #[serde(deserialize_with = "resources::where_given")]
    pub resources: Option<Box<Resources>>,
}

/// The state of a container, as far as decisions need it: why it does not run. Neither field is set
/// while it runs.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ContainerState {
    /// Set while it waits to run.
    pub waiting: Option<Box<ContainerWaiting>>,
    /// Set once it has ended.
    #[serde(deserialize_with = "ended")]
    pub terminated: Option<Box<ContainerTerminated>>,
}

/// Drops the message of a container that has run, because the container's own process may have
/// written it.
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

impl ContainerWaiting {
    /// Whether its kubelet waits before it starts the container again.
    pub fn is_back_off(&self) -> bool {
        &*self.reason == "CrashLoopBackOff"
    }
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

    /// Whether the container ran for less time than resets the kubelet's back-off. True without
    /// times.
    pub fn is_short(&self) -> bool {
        let ran = self
            .finished_at
            .zip(self.started_at)
            .map(|(end, start)| end.duration_since(start));
        ran.is_none_or(|ran| ran < BACK_OFF_RESET)
    }
}

/// Keeps the init containers that restart, and drops the others, which end before the pod serves
/// and are never updated. An init container never becomes one that restarts.
pub(super) fn native_sidecars<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Box<[Container]>, D::Error> {
    #[derive(Deserialize, Default)]
    #[serde(rename_all = "camelCase", default)]
    struct Init {
        restart_policy: Option<Word>,
        #[serde(flatten)]
        container: Container,
    }
    let all = Option::<Vec<Init>>::deserialize(deserializer)?.unwrap_or_default();
    Ok(all
        .into_iter()
        .filter(|init| init.restart_policy.as_deref() == Some("Always"))
        .map(|init| init.container)
        .collect())
}

#[cfg(test)]
mod tests;
