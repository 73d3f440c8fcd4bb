//! A workload in a line: its numbers, its state and what blocks it.

use berth_api::names::condition;
use berth_workload::objects::resource::{DAEMON_SETS, Resource, SIDECAR_SETS, STATEFUL_SETS};
use serde_json::{Value, json};

use crate::commands::rollout::kind::RolloutKind;
use crate::objects::{self, items, number, text};

use super::actions::rollout;
use super::routes::BROADCAST_JOBS;

/// The summary of a workload.
pub(super) fn of(resource: Resource, object: &Value) -> Value {
    let counts = Counts::of(resource, object);
    let blocked =
        objects::condition(object, condition::BLOCKED).filter(|it| it["status"] == "True");
    let field = |at: fn(RolloutKind) -> Option<&'static str>| {
        let at = rollout(resource).and_then(at)?;
        object.pointer(at)
    };
    let paused = field(RolloutKind::paused) == Some(&json!(true));
    json!({
        "kind": resource.kind,
        "plural": resource.plural,
        "namespace": objects::namespace(object),
        "name": objects::name(object),
        "created": text(object, "/metadata/creationTimestamp"),
        "deleting": object.pointer("/metadata/deletionTimestamp").is_some(),
        "generation": number(object, "/metadata/generation"),
        "state": state(resource, object, &counts, paused, blocked.is_some()),
        "desired": counts.desired,
        "updated": counts.updated,
        "target": counts.target,
        "ready": counts.ready,
        "paused": paused,
        "partition": field(RolloutKind::partition),
        "images": images(object),
        "blocked": blocked.map(|it| json!({"reason": it["reason"], "message": it["message"]})),
    })
}

/// Numbers of pods.
#[derive(Debug, PartialEq, Eq)]
struct Counts {
    desired: i64,
    updated: i64,
    /// How many pods the partition lets be updated.
    target: i64,
    ready: i64,
}

impl Counts {
    fn of(resource: Resource, object: &Value) -> Self {
        let status = |field: &str| number(object, &format!("/status/{field}"));
        let (desired, updated, ready) = match resource {
            DAEMON_SETS => (
                status("desiredNumberScheduled"),
                status("updatedNumberScheduled"),
                status("numberReady"),
            ),
            SIDECAR_SETS => (
                status("matchedPods"),
                status("updatedPods"),
                status("readyPods"),
            ),
            BROADCAST_JOBS => {
                let ended = status("succeeded") + status("failed");
                (status("desired"), ended, status("succeeded"))
            }
            _ => (
                // The apiserver writes the default.
                object
                    .pointer("/spec/replicas")
                    .and_then(Value::as_i64)
                    .unwrap_or(1),
                status("updatedReplicas"),
                status("readyReplicas"),
            ),
        };
        let kept = rollout(resource).and_then(|kind| kind.kept_of(object).ok());
        let kept = kept.unwrap_or_default();
        Self {
            desired,
            updated,
            target: (desired - kept).clamp(0, desired.max(0)),
            ready,
        }
    }
}

fn state(
    resource: Resource,
    object: &Value,
    counts: &Counts,
    paused: bool,
    blocked: bool,
) -> &'static str {
    let observed = number(object, "/status/observedGeneration");
    // The status of a BroadcastJob does not say which generation it is of.
    let is_old = resource != BROADCAST_JOBS && observed < number(object, "/metadata/generation");
    let Counts {
        desired,
        updated,
        target,
        ready,
    } = *counts;
    match () {
        () if object.pointer("/metadata/deletionTimestamp").is_some() => "Deleting",
        () if blocked => "Blocked",
        () if resource == BROADCAST_JOBS => match text(object, "/status/phase") {
            "completed" => "Complete",
            "failed" => "Failed",
            "paused" => "Paused",
            _ => "Progressing",
        },
        () if is_old => "Progressing",
        () if paused && updated < target => "Paused",
        () if updated < target || ready < desired => "Progressing",
        () if target < desired && updated < desired => "AtPartition",
        () => "Healthy",
    }
}

/// The images of a workload's template, each once.
fn images(object: &Value) -> Vec<&str> {
    let lists = ["/spec/template/spec/containers", "/spec/containers"];
    let containers = lists.iter().flat_map(|list| items(object, list));
    let subsets = object.pointer("/spec/template").and_then(Value::as_object);
    let of_subsets = subsets
        .into_iter()
        .flatten()
        .filter(|(field, _)| field.ends_with("Template"));
    let of_subsets = of_subsets.flat_map(|(_, of)| items(of, "/spec/template/spec/containers"));
    let mut images = Vec::new();
    for image in containers
        .chain(of_subsets)
        .map(|container| text(container, "/image"))
    {
        if !image.is_empty() && !images.contains(&image) {
            images.push(image);
        }
    }
    images
}

/// The lines that say how a workload is updated.
pub(super) fn strategy(resource: Resource, object: &Value) -> Vec<(String, String)> {
    let at = match resource {
        SIDECAR_SETS => "/spec/updateStrategy",
        _ => "/spec/updateStrategy/rollingUpdate",
    };
    let mut lines = vec![(
        "type".to_owned(),
        text(object, "/spec/updateStrategy/type").to_owned(),
    )];
    let fields = object.pointer(at).and_then(Value::as_object);
    for (field, value) in fields.into_iter().flatten() {
        if !value.is_object() && !value.is_array() && field != "type" {
            let value = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            lines.push((field.clone(), value));
        }
    }
    if resource == STATEFUL_SETS {
        lines.push((
            "podManagementPolicy".to_owned(),
            text(object, "/spec/podManagementPolicy").to_owned(),
        ));
    }
    lines.retain(|(_, value)| !value.is_empty());
    lines
}

#[cfg(test)]
mod tests;
