//! Containers that restart because the template's annotation `apps.kruise.io/restarted-at` changed.
//!
//! No kubelet restarts a container for an annotation. So the record names each container that runs
//! when the update begins. The NodeImage asks the node's daemon, as for variables, to stop exactly
//! the container with that id. The pod's own status is the proof: another container runs. The
//! kubelet restarts a container whose image changes as well. The record names this container
//! nevertheless, because a rollback may revert the image before the kubelet has seen it.

use std::collections::BTreeSet;

use berth_api::names::annotation::RESTARTED_AT;
use serde_json::Value;

use super::decision::{ValuesDecision, without_scheme};
use super::state::State;
use crate::objects::pod::{ContainerStatus, Pod};
use crate::plan::PodPatch;

pub use super::state::Restarts;

/// The most containers of one pod that a template may restart. With more, the pod's entries would
/// fill the NodeImage.
pub const MAX_RESTARTED: usize = 64;

/// The containers of the new template that the patch restarts. Reasons against restarting in place
/// go into `fields`.
///
/// The annotation's value has no meaning: every change of it, also its removal, restarts the
/// containers.
pub(super) fn restarted_containers(
    new: &Value,
    patch: &PodPatch,
    fields: &mut Vec<String>,
) -> BTreeSet<String> {
    if !patch.annotations.contains_key(RESTARTED_AT) {
        return BTreeSet::new();
    }
    let containers = new["spec"]["containers"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let name = |container: &Value| container["name"].as_str().unwrap_or_default().to_owned();
    let stays_ended = |container: &&Value| {
        container["restartPolicy"]
            .as_str()
            .is_some_and(|policy| policy != "Always")
    };
    if let Some(container) = containers.iter().find(stays_ended) {
        fields.push(field(&format!(
            "container {} has a restartPolicy, and may not start again",
            name(container)
        )));
    }
    if containers.len() > MAX_RESTARTED {
        fields.push(field(&format!("more than {MAX_RESTARTED} containers")));
    }
    containers.iter().map(name).collect()
}

pub(super) fn field(why: &str) -> String {
    format!("template.metadata.annotations[{RESTARTED_AT}] ({why})")
}

/// The record of the containers that restart from now on. Containers of an unproven earlier update
/// are included, except the ones that belong to a later batch.
pub(super) fn record(
    pod: &Pod,
    restarted: &BTreeSet<String>,
    unproven: Option<&State>,
    later: &BTreeSet<String>,
) -> Restarts {
    let before = unproven
        .map(|state| state.restarts.clone())
        .unwrap_or_default();
    let mut restarts: Restarts = before
        .into_iter()
        .filter(|(name, _)| !later.contains(name))
        .collect();
    let id = |name: &String| {
        pod.container_status(name)
            .map_or("", |status| without_scheme(&status.container_id))
            .to_owned()
    };
    restarts.extend(restarted.iter().map(|name| (name.clone(), id(name))));
    restarts
}

/// Checks by the pod's status whether another container runs in place of each recorded one. If so,
/// nothing is left to prove.
pub(super) fn judge(pod: &Pod, state: &State) -> ValuesDecision {
    let mut decision = ValuesDecision::NotNeeded;
    for (name, old) in &state.restarts {
        if !pod
            .spec
            .containers
            .iter()
            .any(|container| *container.name == **name)
        {
            continue;
        }
        let Some(status) = pod.container_status(name) else {
            return ValuesDecision::Wait(format!("container {name} has no status yet"));
        };
        match container(pod, state, status, old) {
            ValuesDecision::NeedsDaemon(why) => return ValuesDecision::NeedsDaemon(why),
            ValuesDecision::Wait(why) => decision = ValuesDecision::Wait(why),
            ValuesDecision::NotNeeded | ValuesDecision::Proven => {}
        }
    }
    decision
}

fn container(pod: &Pod, state: &State, status: &ContainerStatus, old: &str) -> ValuesDecision {
    let name = &status.name;
    let id = without_scheme(&status.container_id);
    let runs = status.state.waiting.is_none() && status.state.terminated.is_none();
    match (!id.is_empty() && id != old, runs) {
        (true, true) => ValuesDecision::NotNeeded,
        (true, false) => {
            ValuesDecision::Wait(format!("container {name} was restarted, and does not run"))
        }
        (false, _) if id.is_empty() => {
            ValuesDecision::Wait(format!("container {name} has not been created yet"))
        }
        (false, false) => ValuesDecision::Wait(format!(
            "container {name} has ended, and is not started again yet"
        )),
        (false, true) if is_kubelets(pod, state, name) => ValuesDecision::Wait(format!(
            "the kubelet has not restarted container {name} for its new image yet"
        )),
        (false, true) => ValuesDecision::NeedsDaemon(format!(
            "container {name} is still the one of before, and is to be restarted"
        )),
    }
}

/// Whether the kubelet restarts the container by itself, because the container was created from
/// another image.
fn is_kubelets(pod: &Pod, state: &State, name: &str) -> bool {
    let before = state
        .last_container_statuses
        .get(name)
        .filter(|before| before.is_known());
    before
        .zip(pod.container(name))
        .is_some_and(|(before, wanted)| *before.image != *wanted.image)
}

#[cfg(test)]
mod tests;
