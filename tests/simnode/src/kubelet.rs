//! Decides a simulated kubelet's next action for a pod.

use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::nodes;
use crate::pod::{Container, ContainerStatus, Pod, Running, State, Waiting};

/// How quick a node is, and which images fail on it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Habits {
    /// How long a container takes to start.
    pub start_delay: Duration,
    /// How long a pod takes to end.
    pub stop_delay: Duration,
    /// Images that no registry has.
    pub missing_images: Vec<String>,
    /// Images whose containers crash-loop.
    pub crashing_images: Vec<String>,
}

/// The next action for a pod.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Nothing, until the pod changes.
    Rest,
    /// The pod gets a node.
    Bind,
    /// The pod's status is patched, by a strategic merge patch.
    Report(Value),
    /// The pod has ended, and is removed.
    Remove,
    /// Look again after this time.
    Wait(Duration),
}

/// The scheduler of pods that name none.
const DEFAULT_SCHEDULER: &str = "default-scheduler";
const READY: &str = "Ready";
const CONTAINERS_READY: &str = "ContainersReady";
/// Conditions that are True as soon as the pod has begun.
const BEGUN: [&str; 2] = ["PodReadyToStartContainers", "Initialized"];

/// The next action for a pod, `seen` after its present generation, or its deletion, was first seen.
/// `now` is RFC 3339.
pub fn next(pod: &Pod, seen: Duration, habits: &Habits, now: &str) -> Action {
    if matches!(&*pod.status.phase, "Succeeded" | "Failed")
        && pod.metadata.deletion_timestamp.is_none()
    {
        return Action::Rest;
    }
    if pod.spec.node_name.is_empty() {
        let ours = matches!(&*pod.spec.scheduler_name, "" | DEFAULT_SCHEDULER)
            && pod.spec.pinned_to.as_deref().is_none_or(nodes::is_ours);
        return if ours && pod.metadata.deletion_timestamp.is_none() {
            Action::Bind
        } else {
            Action::Rest
        };
    }
    if !nodes::is_ours(&pod.spec.node_name) {
        return Action::Rest;
    }
    let manner = &pod.metadata.annotations;
    if pod.metadata.deletion_timestamp.is_some() {
        let delay = manner.stop_delay.unwrap_or(habits.stop_delay);
        return match pod.metadata.deletion_grace_period_seconds {
            // The pod was removed already, and finalizers hold it.
            Some(0) => Action::Rest,
            _ if seen < delay => Action::Wait(delay - seen),
            _ => Action::Remove,
        };
    }
    let look = |wanted| container(pod, wanted, habits, now);
    let (native, containers): (Vec<_>, Vec<_>) = (
        pod.spec.native_sidecars().map(look).collect(),
        pod.spec.containers.iter().map(look).collect(),
    );
    let starts = native
        .iter()
        .chain(&containers)
        .any(|(_, changed)| *changed);
    let delay = manner.start_delay.unwrap_or(habits.start_delay);
    if starts && seen < delay {
        return Action::Wait(delay - seen);
    }
    let statuses = |all: Vec<(ContainerStatus, bool)>| {
        all.into_iter()
            .map(|(status, _)| status)
            .collect::<Vec<_>>()
    };
    report(pod, &statuses(native), &statuses(containers), now)
}

/// The status of a container, and whether it is a new container.
fn container(pod: &Pod, wanted: &Container, habits: &Habits, now: &str) -> (ContainerStatus, bool) {
    let mut known = pod
        .status
        .init_container_statuses
        .iter()
        .chain(&pod.status.container_statuses);
    let before = known.find(|status| status.name == wanted.name);
    let outcome = ContainerOutcome::of(pod, &wanted.image, habits);
    if let Some(before) = before.filter(|before| outcome.is_met(before, &wanted.image)) {
        // Resources change without a restart.
        return (
            ContainerStatus {
                resources: wanted.resources.clone(),
                ..before.clone()
            },
            false,
        );
    }
    let restart_count = before.map_or(0, |before| before.restart_count + 1);
    let made = ContainerStatus {
        name: wanted.name.clone(),
        image: wanted.image.clone(),
        restart_count,
        resources: wanted.resources.clone(),
        ..ContainerStatus::default()
    };
    let (image_id, container_id) = (
        image_id(&wanted.image).into(),
        container_id(pod, wanted, restart_count),
    );
    let status = match outcome {
        ContainerOutcome::NoImage => ContainerStatus {
            state: waiting("ImagePullBackOff"),
            ..made
        },
        ContainerOutcome::Crashes => ContainerStatus {
            image_id,
            container_id,
            state: waiting("CrashLoopBackOff"),
            ..made
        },
        ContainerOutcome::Runs => {
            let state = State {
                running: Some(Running {
                    started_at: now.into(),
                }),
                waiting: None,
            };
            ContainerStatus {
                image_id,
                container_id,
                state,
                ready: true,
                started: true,
                ..made
            }
        }
    };
    (status, true)
}

/// The report of a pod whose running container of this name and id was stopped and replaced; `None`
/// without such a container.
pub fn restarted(pod: &Pod, name: &str, id: &str, now: &str) -> Option<Value> {
    let mut containers = pod.status.container_statuses.clone();
    let status = containers
        .iter_mut()
        .find(|status| *status.name == *name && *status.container_id == *id)?;
    status.state.running.as_ref()?;
    let wanted = pod
        .spec
        .containers
        .iter()
        .find(|wanted| *wanted.name == *name)?;
    status.restart_count += 1;
    status.container_id = container_id(pod, wanted, status.restart_count);
    status.state.running = Some(Running {
        started_at: now.into(),
    });
    Some(
        json!({"metadata": {"uid": pod.metadata.uid}, "status": {"containerStatuses": containers}}),
    )
}

/// The result of starting a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ContainerOutcome {
    Runs,
    NoImage,
    Crashes,
}

impl ContainerOutcome {
    fn of(pod: &Pod, image: &str, habits: &Habits) -> Self {
        let manner = &pod.metadata.annotations;
        let among = |named: &[Box<str>], all: &[String]| {
            named.iter().any(|i| **i == *image) || all.iter().any(|i| i == image)
        };
        if among(&manner.missing_images, &habits.missing_images) {
            Self::NoImage
        } else if among(&manner.crashing_images, &habits.crashing_images) {
            Self::Crashes
        } else {
            Self::Runs
        }
    }

    /// Whether the reported status already shows this result.
    fn is_met(self, status: &ContainerStatus, image: &str) -> bool {
        let made = *status.image_id == *image_id(image);
        match self {
            Self::Runs => made && status.state.running.is_some(),
            Self::NoImage => *status.image == *image && status.state == waiting("ImagePullBackOff"),
            Self::Crashes => made && status.state == waiting("CrashLoopBackOff"),
        }
    }
}

fn waiting(reason: &str) -> State {
    State {
        running: None,
        waiting: Some(Waiting {
            reason: reason.into(),
        }),
    }
}

/// The id by which every simulated node knows an image.
pub fn image_id(image: &str) -> String {
    let repository = image
        .rsplit_once(':')
        .filter(|(_, tag)| !tag.contains('/'))
        .map_or(image, |(name, _)| name);
    format!(
        "simnode/{repository}@sha256:{}",
        hex(&Sha256::digest(image))
    )
}

fn container_id(pod: &Pod, container: &Container, restart_count: i32) -> Box<str> {
    let text = format!("{}/{}/{restart_count}", pod.metadata.uid, container.name);
    format!("containerd://{}", hex(&Sha256::digest(text))).into()
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|digit| char::from(DIGITS[usize::from(digit)]))
        .collect()
}

/// The change of a pod's status, if it needs one.
fn report(
    pod: &Pod,
    native: &[ContainerStatus],
    containers: &[ContainerStatus],
    now: &str,
) -> Action {
    let is_true = |type_: &str| pod.condition(type_) == Some("True");
    let all = || native.iter().chain(containers);
    let containers_ready = all().all(|container| container.ready);
    let ready = containers_ready
        && pod
            .spec
            .readiness_gates
            .iter()
            .all(|gate| is_true(&gate.condition_type));
    let wanted = BEGUN
        .map(|type_| (type_, true))
        .into_iter()
        .chain([(CONTAINERS_READY, containers_ready), (READY, ready)]);
    let word = |yes: bool| if yes { "True" } else { "False" };
    let conditions: Vec<_> = wanted
        .filter(|(type_, yes)| pod.condition(type_) != Some(word(*yes)))
        .map(|(type_, yes)| {
            let mut condition =
                json!({"type": type_, "status": word(yes), "lastTransitionTime": now});
            if !yes {
                let gates = type_ == READY && containers_ready;
                condition["reason"] = json!(if gates {
                    "ReadinessGatesNotReady"
                } else {
                    "ContainersNotReady"
                });
            }
            condition
        })
        .collect();
    let generation = pod.metadata.generation;
    let same_native = *pod.status.init_container_statuses == *native;
    let same_containers = *pod.status.container_statuses == *containers;
    if conditions.is_empty()
        && same_native
        && same_containers
        && pod.status.observed_generation == generation
    {
        return Action::Rest;
    }
    let begun = all().all(|container| !container.container_id.is_empty());
    let mut status = json!({"observedGeneration": generation, "phase": if begun { "Running" } else { "Pending" }});
    if !conditions.is_empty() {
        status["conditions"] = conditions.into();
    }
    for (list, is_same, statuses) in [
        ("initContainerStatuses", same_native, native),
        ("containerStatuses", same_containers, containers),
    ] {
        if !is_same {
            status[list] = json!(statuses);
        }
    }
    if pod.status.observed_generation == 0 {
        let address = address(&pod.metadata.uid);
        (status["podIP"], status["podIPs"], status["startTime"]) =
            (json!(address), json!([{"ip": address}]), json!(now));
    }
    Action::Report(json!({"metadata": {"uid": pod.metadata.uid}, "status": status}))
}

/// An address for a pod. Nothing listens there.
fn address(uid: &str) -> String {
    let digest = Sha256::digest(uid);
    format!("10.{}.{}.{}", digest[0], digest[1], 1 + digest[2] % 250)
}

#[cfg(test)]
mod tests;
