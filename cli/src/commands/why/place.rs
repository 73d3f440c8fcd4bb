//! Where a pod is, or why no node has it.

use berth_api::names::annotation;
use serde_json::Value;

use crate::objects::{condition, controller, text};

/// Why the pod is where it is.
pub(super) fn place(pod: &Value) -> String {
    let node = text(pod, "/spec/nodeName");
    let annotations = &pod["metadata"]["annotations"];
    if node.is_empty() {
        let unscheduled = condition(pod, "PodScheduled");
        let message = unscheduled.map_or("", |one| text(one, "/message"));
        return match message {
            "" => "Place: no node yet".to_owned(),
            message => format!("Place: no node yet: {message}"),
        };
    }
    if let Some(state) = annotations[annotation::INJECTED_PERSISTENT_POD_STATE].as_str() {
        return format!("Place: node {node}, because PersistentPodState {state} keeps its place");
    }
    let kind = controller(pod).map_or("", |owner| text(owner, "/kind"));
    match kind {
        "DaemonSet" | "BroadcastJob" => {
            format!("Place: node {node}, because its {kind} has a pod for each node")
        }
        _ => format!("Place: node {node}, chosen by the scheduler"),
    }
}

/// How many nodes a pod's `nodeSelector` matches, and the remedy if none; `None` without a
/// selector. `field` is the path to it.
pub(super) fn node_selector(
    spec: &Value,
    field: &str,
    nodes: &Result<Vec<Value>, String>,
) -> Option<String> {
    let selector = spec["nodeSelector"].as_object()?;
    let labels: Vec<_> = selector
        .iter()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    if labels.is_empty() {
        return None;
    }
    let named = format!("Node selector: {field} {}", labels.join(","));
    let nodes = match nodes {
        Ok(nodes) => nodes,
        Err(why) => return Some(format!("{named}; which nodes match is not known: {why}")),
    };
    let has_all = |node: &&Value| {
        let of_node = &node["metadata"]["labels"];
        selector.iter().all(|(key, value)| of_node[key] == *value)
    };
    let matching = nodes.iter().filter(has_all).count();
    let counted = format!("{named} matches {matching} of {} nodes", nodes.len());
    Some(match matching {
        0 => format!(
            "{counted}; correct it, or add the labels by `kubectl label node NAME {}`",
            labels.join(" ")
        ),
        _ => counted,
    })
}

#[cfg(test)]
mod tests;
