//! Containers that are restarted because their template says so: its annotation `apps.kruise.io/restarted-at` is another.
//!
//! No kubelet restarts a container for that. So the record names each container that runs when the update begins, and the
//! node's daemon, asked in its NodeImage as about variables, stops the one of that id, and no other. The pod's own status is
//! the proof: another container runs. One whose image changes as well is the kubelet's to restart, and is named all the
//! same: the image may be taken back before the kubelet has seen it.

use std::collections::BTreeSet;

use berth_api::names::annotation::RESTARTED_AT;
use serde_json::Value;

use super::state::State;
use super::verdict::{Judged, without_scheme};
use crate::objects::pod::{ContainerStatus, Pod};
use crate::plan::PodPatch;

pub use super::state::Restarts;

/// Containers of one pod that a template may have restarted: with more, what the pod's node is asked would fill its NodeImage.
pub const MAX_RESTARTED: usize = 64;

/// The containers of the new template that the patch restarts. What keeps them from being restarted in place is added to `fields`.
///
/// The value itself means nothing here: any other restarts them, and so does one that goes.
pub(super) fn asked(new: &Value, patch: &PodPatch, fields: &mut Vec<String>) -> BTreeSet<String> {
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

/// What is recorded of the containers that are restarted from now on. Those of an update before, as long as it is not proven, go
/// on; but not those whose turn comes with a later batch.
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

/// Judges by the pod's status: does another container run in place of each that was recorded? Nothing is left to prove then.
pub(super) fn judge(pod: &Pod, state: &State) -> Judged {
    let mut judged = Judged::Nothing;
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
            return Judged::Wait(format!("container {name} has no status yet"));
        };
        match container(pod, state, status, old) {
            Judged::Ask(why) => return Judged::Ask(why),
            Judged::Wait(why) => judged = Judged::Wait(why),
            Judged::Nothing | Judged::Proven => {}
        }
    }
    judged
}

fn container(pod: &Pod, state: &State, status: &ContainerStatus, old: &str) -> Judged {
    let name = &status.name;
    let id = without_scheme(&status.container_id);
    let runs = status.state.waiting.is_none() && status.state.terminated.is_none();
    match (!id.is_empty() && id != old, runs) {
        (true, true) => Judged::Nothing,
        (true, false) => Judged::Wait(format!("container {name} was restarted, and does not run")),
        (false, _) if id.is_empty() => {
            Judged::Wait(format!("container {name} has not been created yet"))
        }
        (false, false) => Judged::Wait(format!(
            "container {name} has ended, and is not started again yet"
        )),
        (false, true) if is_kubelets(pod, state, name) => Judged::Wait(format!(
            "the kubelet has not restarted container {name} for its new image yet"
        )),
        (false, true) => Judged::Ask(format!(
            "container {name} is still the one of before, and is to be restarted"
        )),
    }
}

/// Does the kubelet restart the container by itself, because of another image than it was created from?
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
