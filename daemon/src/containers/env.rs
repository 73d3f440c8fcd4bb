//! The environment that containers were created with, and the containers to stop because of it.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use berth_api::env_hash;
use berth_api::v1beta1::nodeimage::{InspectEnv, InspectPod, InspectedContainer, InspectedPod};
use k8s_cri::v1::{Container, ContainerState};
use serde::Deserialize;

use crate::containers::pre_stop::{self, Hook};
use crate::runtime::container_hash::container_hash;

/// By container id without its scheme: the variables that it was created with.
pub type Environments = HashMap<String, BTreeMap<String, String>>;

/// Reads a container's variables from the runtime's verbose status: both containerd and CRI-O
/// include the OCI spec of the container there.
pub fn environment(info: &str) -> Option<BTreeMap<String, String>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Info {
        runtime_spec: Spec,
    }
    #[derive(Deserialize)]
    struct Spec {
        process: Process,
    }
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Process {
        env: Vec<String>,
    }
    let info: Info = serde_json::from_str(info).ok()?;
    let pairs = info.runtime_spec.process.env.into_iter();
    Some(
        pairs
            .filter_map(|pair| {
                pair.split_once('=')
                    .map(|(k, v)| (k.to_owned(), v.to_owned()))
            })
            .collect(),
    )
}

/// The NodeImage's entry about the container of this name.
fn question<'a>(pods: &'a [InspectPod], uid: &str, name: &str) -> Option<&'a InspectEnv> {
    pods.iter()
        .find(|pod| pod.uid == uid)?
        .env
        .iter()
        .find(|env| env.container == name)
}

/// The ids, without their scheme, of the containers whose variables the NodeImage wants.
pub fn requested_ids<'a>(
    pods: &'a [InspectPod],
    answers: &'a [InspectedPod],
) -> impl Iterator<Item = &'a str> {
    let containers = answers
        .iter()
        .flat_map(|pod| pod.containers.iter().map(move |container| (pod, container)));
    containers
        .filter(|(pod, container)| {
            question(pods, &pod.uid, &container.name)
                .is_some_and(|question| !question.values.is_empty())
        })
        .map(|(_, container)| id(container))
}

/// Adds the variables to the reports. It reports nothing of a container that is being stopped,
/// because that is as good as gone.
pub fn answer(
    pods: &[InspectPod],
    answers: &mut [InspectedPod],
    known: &Environments,
    stopping: impl Fn(&str) -> bool,
) {
    for pod in answers {
        for container in &mut pod.containers {
            let Some(question) = question(pods, &pod.uid, &container.name) else {
                continue;
            };
            let Some(env) = known
                .get(id(container))
                .filter(|_| !stopping(id(container)))
            else {
                continue;
            };
            let value = |name: &str| env.get(name).map_or("", String::as_str);
            let values: BTreeMap<&str, &str> = question
                .values
                .keys()
                .map(|name| (name.as_str(), value(name)))
                .collect();
            container.update.clone_from(&question.update);
            container.env = values
                .iter()
                .map(|(name, value)| ((*name).to_owned(), env_hash::of_value(value)))
                .collect();
            container.env_hash = format!("{:x}", env_hash::of_all(&values));
        }
    }
}

/// A container to stop, so that its kubelet creates it anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stop {
    /// The runtime's id.
    pub id: String,
    /// The runtime's id of its sandbox.
    pub sandbox: String,
    /// The pod's uid.
    pub uid: String,
    /// The entry of the NodeImage because of which the container is stopped.
    pub question: InspectEnv,
    /// The pod's namespace and name, and the container's name, for logs.
    pub what: String,
    /// The grace period.
    pub grace: Duration,
    /// The hook that runs before the stop.
    pub hook: Hook,
}

impl Stop {
    /// Must the next container have other variables? Then its kubelet must have seen the labels and
    /// annotations first.
    pub fn is_for_variables(&self) -> bool {
        self.question.values.values().any(|hash| !hash.is_empty())
    }
}

/// The containers to stop: those created with other variables than the NodeImage wants, and those
/// that it names by id. A container whose image differs from the wanted one is left alone, because
/// the kubelet is about to restart it and runs all of its hooks.
pub fn to_stop(
    pods: &[InspectPod],
    answers: &[InspectedPod],
    containers: &[Container],
) -> Vec<Stop> {
    let mut stops = Vec::new();
    for pod in answers {
        let requested = pods.iter().find(|requested| requested.uid == pod.uid);
        for container in &pod.containers {
            let Some((requested, question)) =
                requested.zip(question(pods, &pod.uid, &container.name))
            else {
                continue;
            };
            let differs = |(name, wanted): (&String, &String)| {
                !wanted.is_empty() && container.env.get(name).is_some_and(|hash| hash != wanted)
            };
            let other_image = !question.image.is_empty()
                && container.hash != container_hash(&container.name, &question.image);
            let has_others =
                container.update == question.update && question.values.iter().any(differs);
            let is_named =
                !question.container_id.is_empty() && question.container_id == id(container);
            if other_image || !(has_others || is_named) {
                continue;
            }
            let running = ContainerState::ContainerRunning as i32;
            let found = containers
                .iter()
                .find(|c| c.id == id(container) && c.state == running);
            stops.extend(found.map(|found| stop(requested, question, found)));
        }
    }
    stops
}

/// Does the NodeImage still want the container stopped? Its entry may have changed or gone since.
pub fn is_still_requested(pods: &[InspectPod], stop: &Stop) -> bool {
    question(pods, &stop.uid, &stop.question.container) == Some(&stop.question)
}

fn stop(pod: &InspectPod, question: &InspectEnv, found: &Container) -> Stop {
    Stop {
        id: found.id.clone(),
        sandbox: found.pod_sandbox_id.clone(),
        uid: pod.uid.clone(),
        question: question.clone(),
        what: format!("{}/{} {}", pod.namespace, pod.name, question.container),
        grace: pre_stop::grace(found),
        hook: pre_stop::hook(found),
    }
}

/// The runtime's own id: `containerd://abc` is `abc`.
pub fn id(container: &InspectedContainer) -> &str {
    container
        .container_id
        .rsplit_once("://")
        .map_or(&*container.container_id, |(_, id)| id)
}

#[cfg(test)]
mod tests;
