//! The progress of a resize in a pod's status: pending, refused, or over.

use super::{RESOURCES, Resizes, unwritten};
use crate::objects::patch::pod::KINDS;
use crate::objects::pod::resources::{Resources, thousandths};
use crate::objects::pod::{Condition, Pod};

/// The reason of a resize that its node can never do.
pub const INFEASIBLE: &str = "ResizeInfeasible";

/// Why the containers do not have the resources of the pod's spec yet. `None` if they have.
pub(in crate::update::inplace) fn pending(pod: &Pod) -> Option<String> {
    if pod.status.observed_generation < pod.metadata.generation {
        return Some("the kubelet has not seen its new resources yet".to_owned());
    }
    if let Some((_, why)) = refused(pod) {
        return Some(why);
    }
    if let Some(progress) = condition(pod, "PodResizeInProgress") {
        let problem = if progress.message.is_empty() {
            String::new()
        } else {
            format!(": {}", progress.message)
        };
        return Some(format!(
            "is being resized on node {}{problem}",
            pod.spec.node_name
        ));
    }
    let behind = pod.containers().find(|container| {
        let Some(wanted) = container.resources.as_deref() else {
            return false;
        };
        let status = pod.container_status(&container.name);
        !status
            .and_then(|status| status.resources.as_deref())
            .is_some_and(|given| wanted.are_in(given))
    })?;
    Some(format!(
        "container {} does not have its new resources yet",
        behind.name
    ))
}

/// Why the kubelet does not resize the pod: not now (`ResizeDeferred`), or never on this node
/// (`ResizeInfeasible`). Returns the reason for conditions and events, and a sentence that
/// continues after the pod's name.
pub fn refused(pod: &Pod) -> Option<(&'static str, String)> {
    if pod.status.observed_generation < pod.metadata.generation {
        return None;
    }
    let pending = condition(pod, "PodResizePending")?;
    let (node, said) = (&pod.spec.node_name, pending.message.trim());
    let behind = behind(pod);
    Some(match &*pending.reason {
        "Infeasible" => (
            INFEASIBLE,
            infeasible(pod, &behind, &format!("the kubelet says: {said}")),
        ),
        _ => (
            "ResizeDeferred",
            format!(
                "waits to be resized until node {node} has room ({behind}): {said}; the kubelet goes on trying"
            ),
        ),
    })
}

/// The sentence about a resize that the apiserver refuses because it cannot succeed on the pod's
/// node. It continues after the pod's name.
pub fn refused_by_server(pod: &Pod, wanted: &Resizes, said: &str) -> String {
    let none = Resources::default();
    let mut texts = Vec::new();
    for (name, resize) in wanted {
        let has = pod
            .container(name)
            .and_then(|container| container.resources.as_deref())
            .unwrap_or(&none);
        texts.extend(resize.amounts().map(|(kind, resource, quantity)| {
            let wanted = thousandths(quantity).unwrap_or_default();
            from_to(name, (kind, resource), has.amount(kind, resource), wanted)
        }));
    }
    infeasible(
        pod,
        &texts.join("; "),
        &format!("the apiserver says: {said}"),
    )
}

fn infeasible(pod: &Pod, amounts: &str, said: &str) -> String {
    format!(
        "cannot be resized on node {} ({amounts}); {said}; ask for less in spec.template, undo its change, or \
         delete the pod if a node has as much for its successor",
        pod.spec.node_name
    )
}

/// Whether the pod lacks, and will always lack on this node, resources of its latest update: the
/// spec lacks them, as after a refusal by the apiserver, or the kubelet calls them infeasible.
pub(in crate::update::inplace) fn is_out_of_reach(pod: &Pod, wanted: &Resizes) -> bool {
    let is_infeasible = || refused(pod).is_some_and(|(reason, _)| reason == INFEASIBLE);
    !unwritten(pod, wanted).is_empty() || is_infeasible()
}

/// Whether the kubelet is about to resize the pod, or has deferred it. It may restart a container
/// for this at any time.
pub fn is_awaited(pod: &Pod) -> bool {
    let is_put_off = refused(pod).is_some_and(|(reason, _)| reason != INFEASIBLE);
    is_put_off || condition(pod, "PodResizeInProgress").is_some()
}

/// Whether the containers have the resources of the pod's spec, or never will on this node.
pub fn is_over(pod: &Pod) -> bool {
    pending(pod).is_none() || refused(pod).is_some_and(|(reason, _)| reason == INFEASIBLE)
}

/// A message with the amounts in the spec that the containers do not have.
fn behind(pod: &Pod) -> String {
    let none = Resources::default();
    let mut texts = Vec::new();
    for container in pod.containers() {
        let wanted = container.resources.as_deref().unwrap_or(&none);
        let status = pod.container_status(&container.name);
        let given = status
            .and_then(|status| status.resources.as_deref())
            .unwrap_or(&none);
        for (kind, resource) in KINDS
            .iter()
            .flat_map(|kind| RESOURCES.iter().map(move |resource| (kind, resource)))
        {
            let (wanted, given) = (wanted.amount(kind, resource), given.amount(kind, resource));
            if wanted != 0 && wanted != given {
                texts.push(from_to(&container.name, (kind, resource), given, wanted));
            }
        }
    }
    texts.join("; ")
}

fn from_to(container: &str, (kind, resource): (&str, &str), from: i64, to: i64) -> String {
    format!(
        "container {container}, {kind}.{resource} from {} to {}",
        in_words(resource, from),
        in_words(resource, to)
    )
}

pub(super) fn in_words(resource: &str, thousandths: i64) -> String {
    match resource {
        _ if thousandths == 0 => "none".to_owned(),
        "cpu" if thousandths % 1000 != 0 => format!("{thousandths}m"),
        "memory" if thousandths % (1000 << 20) == 0 => format!("{}Mi", thousandths / (1000 << 20)),
        _ => (thousandths / 1000).to_string(),
    }
}

fn condition<'a>(pod: &'a Pod, type_: &str) -> Option<&'a Condition> {
    pod.condition(type_)
        .filter(|condition| &*condition.status == "True")
}
