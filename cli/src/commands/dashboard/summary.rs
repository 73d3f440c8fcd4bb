//! A workload in a line: its numbers, its state and what blocks it.

use berth_workload::objects::resource::{Resource, SIDECAR_SETS, STATEFUL_SETS};
use serde_json::{Value, json};

use crate::commands::get::health;
use crate::commands::rollout::kind::RolloutKind;
use crate::objects::{self, items, number, text};

use super::actions::rollout;

/// The summary of a workload.
pub(super) fn of(resource: Resource, object: &Value) -> Value {
    let state = health::state(resource.plural, object);
    let counts = state.counts;
    let is_deleted = object.pointer("/metadata/deletionTimestamp").is_some();
    let word = if is_deleted {
        "Deleting"
    } else {
        state.health.word()
    };
    let field = |at: fn(RolloutKind) -> Option<&'static str>| {
        let at = rollout(resource).and_then(at)?;
        object.pointer(at)
    };
    json!({
        "kind": resource.kind,
        "plural": resource.plural,
        "namespace": objects::namespace(object),
        "name": objects::name(object),
        "created": text(object, "/metadata/creationTimestamp"),
        "deleting": is_deleted,
        "generation": number(object, "/metadata/generation"),
        "state": word,
        "desired": counts.desired,
        "updated": counts.updated,
        "target": counts.goal,
        "ready": counts.ready,
        "paused": health::is_paused(resource.plural, object),
        "partition": field(RolloutKind::partition),
        "images": images(object),
        "blocked": state.reason.map(|reason| json!({"reason": reason, "message": state.sentence})),
    })
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
