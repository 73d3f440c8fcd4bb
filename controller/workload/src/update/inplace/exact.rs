//! Whether an in-place update is exact: every changed container was created from the wanted spec.
//!
//! The kubelet must have seen the patched spec (`status.observedGeneration`). It publishes that at
//! the start of a sync with the containers that exist then, so that a container in that status with
//! the wanted image stays. Two sources can show that a container was created from the wanted image,
//! and either suffices. *The pod*: the container is recorded as created for this image already, or
//! it runs another image than before and only the wanted one is possible. *The node*: its daemon
//! read from the runtime from which image the container was created. The pod's status may not show
//! this container yet, because it shows a new container up to a second later. A new container id
//! alone proves nothing: an old image that crashes and restarts in between has a new id, too.
//! Resources are exact when the containers' statuses have the resources of the spec, and no resize
//! is pending or in progress.

use berth_api::image;

use super::decision::without_scheme;
use super::env;
use super::resize;
use super::restart;
use super::state::{Before, State};

pub use super::decision::UpdateDecision;
use crate::objects::node::image::NodeFacts;
use crate::objects::pod::{ContainerStatus, Pod, gates};

/// The decision on one container.
enum ContainerDecision {
    Pod,
    Node,
    Wait(String),
    NeedsDaemon(String),
}

/// The decision on the update in the record `state`. `node` is empty if the node's daemon has
/// reported nothing.
pub fn judge(pod: &Pod, state: &State, node: &NodeFacts) -> UpdateDecision {
    let unwritten = resize::unwritten(pod, &state.resources);
    if !unwritten.is_empty() {
        return UpdateDecision::Resize(unwritten);
    }
    let decision = env::joined(images(pod, state, node), env::judge(pod, state, node));
    let decision = env::joined(decision, restart::judge(pod, state));
    let pending = state
        .update_resources
        .then(|| resize::pending(pod))
        .flatten();
    match (decision, pending) {
        (UpdateDecision::Proven { .. }, Some(why)) => UpdateDecision::Wait(why),
        (decision, _) => decision,
    }
}

fn images(pod: &Pod, state: &State, node: &NodeFacts) -> UpdateDecision {
    let observed = pod.status.observed_generation >= pod.metadata.generation;
    // Without a closed gate, `Ready` may be about the old container until the kubelet reports the
    // new one.
    let is_out = gates::has_gate(pod, gates::IN_PLACE_UPDATE_READY) && !pod.is_true("Ready");
    let mut verified_by = "pod";
    let mut moved_tags = Vec::new();
    let mut ask = None;
    for (name, before) in &state.last_container_statuses {
        let Some(wanted) = pod.container(name) else {
            continue;
        };
        let Some(status) = pod.container_status(name) else {
            return UpdateDecision::Wait(format!("container {name} has no status yet"));
        };
        match container(
            &wanted.image,
            status,
            before,
            state.from_settled,
            observed,
            node,
        ) {
            ContainerDecision::Pod => {}
            ContainerDecision::Node if is_out || is_reported(node, status) => verified_by = "node",
            ContainerDecision::Node => {
                return UpdateDecision::Wait(format!(
                    "the kubelet has not reported the new container {name} yet"
                ));
            }
            ContainerDecision::Wait(why) => return UpdateDecision::Wait(why),
            ContainerDecision::NeedsDaemon(why) => ask = Some(why),
        }
        let ids = node.image_ids.get(&image::normalised(&wanted.image));
        let newest = node
            .created
            .get(name)
            .filter(|c| !c.image_id.is_empty() && c.is_present(status));
        let image_id = newest.map_or(&*status.image_id, |created| &created.image_id);
        if ids.is_some_and(|ids| {
            !ids.is_empty() && !ids.iter().any(|id| image::same_id(id, image_id))
        }) {
            moved_tags.push(name.clone());
        }
    }
    match ask {
        Some(why) => UpdateDecision::NeedsDaemon(why),
        None => UpdateDecision::Proven {
            verified_by,
            moved_tags,
        },
    }
}

fn container(
    wanted: &str,
    status: &ContainerStatus,
    before: &Before,
    from_settled: bool,
    observed: bool,
    node: &NodeFacts,
) -> ContainerDecision {
    let name = &status.name;
    let id = without_scheme(&status.container_id);
    if id.is_empty() {
        return ContainerDecision::Wait(format!("container {name} has not been created yet"));
    }
    if !observed {
        return ContainerDecision::Wait(format!(
            "the kubelet has not seen the new image {wanted} of container {name} yet"
        ));
    }
    // The image that a container was created from never changes, so that an old report is still
    // valid.
    let created = node
        .created
        .get(&**name)
        .filter(|created| created.is_present(status));
    if let Some(created) = created {
        return if created.is_from(name, wanted) {
            ContainerDecision::Node
        } else {
            ContainerDecision::Wait(not_yet(status, wanted, "another image"))
        };
    }
    if is_of_before(status, before) {
        return if before.image == wanted {
            ContainerDecision::Pod
        } else if before.container_id.is_empty() || before.image.is_empty() {
            ContainerDecision::NeedsDaemon(format!(
                "container {name} may or may not have been created from {wanted}"
            ))
        } else {
            ContainerDecision::Wait(not_yet(status, wanted, &before.image))
        };
    }
    let named = image::normalised(&status.image) == image::normalised(wanted)
        || image::pins(wanted, &status.image_id);
    let listed = node.image_ids.get(&image::normalised(wanted));
    let known =
        named || listed.is_some_and(|ids| ids.iter().any(|i| image::same_id(i, &status.image_id)));
    if from_settled
        && known
        && !image::same_id(&before.image_id, &status.image_id)
        && !status.image_id.is_empty()
    {
        return ContainerDecision::Pod;
    }
    ContainerDecision::NeedsDaemon(format!(
        "container {name} restarted, and its status does not tell {wanted} from the image before"
    ))
}

/// A container that is still the one from before the update, by the pod's status, although its
/// image must change.
pub(super) fn unchanged_container<'a>(pod: &Pod, state: &'a State) -> Option<&'a str> {
    let is_unchanged = |(name, before): &(&String, &Before)| {
        let wanted = pod.container(name);
        let status = pod.container_status(name);
        before.is_known()
            && wanted.is_some_and(|wanted| *wanted.image != *before.image)
            && status.is_some_and(|status| is_of_before(status, before))
    };
    state
        .last_container_statuses
        .iter()
        .find(is_unchanged)
        .map(|(name, _)| name.as_str())
}

/// Whether the container in the pod's status is the one from before the update.
fn is_of_before(status: &ContainerStatus, before: &Before) -> bool {
    without_scheme(&status.container_id) == without_scheme(&before.container_id)
}

/// Whether the container in the node's report is the one in the pod's status.
fn is_reported(node: &NodeFacts, status: &ContainerStatus) -> bool {
    let created = node.created.get(&*status.name);
    created.is_some_and(|created| {
        without_scheme(&created.container_id) == without_scheme(&status.container_id)
    })
}

/// The message for a container that is still the old one: it runs, or waits to be replaced.
fn not_yet(status: &ContainerStatus, wanted: &str, before: &str) -> String {
    let name = &status.name;
    match &status.state.waiting {
        Some(waiting) if waiting.is_back_off() => {
            let back_off = waiting.message.split(" restarting").next();
            let back_off = back_off.filter(|text| text.starts_with("back-off"));
            format!(
                "container {name} waits to run {wanted}: the kubelet starts it again after its {}",
                back_off.unwrap_or("back-off")
            )
        }
        Some(waiting) => format!("container {name} waits to run {wanted}: {}", waiting.reason),
        None => format!("container {name} still runs {before}, not {wanted}"),
    }
}

#[cfg(test)]
mod tests;
