//! The end state of SidecarSets and their pods, without the parts that differ from run to run:
//! generated names, times, versions.

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::{Value, json};

use crate::sidecar_laws::{HASH, LIST, STATE, WORKING};

pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

pub(super) fn condition(object: &Value, type_: &str) -> Value {
    let mut all = object["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    all.find(|condition| condition["type"] == type_)
        .cloned()
        .unwrap_or_default()
}

/// A status without times and resource versions.
pub(crate) fn status(object: &Value) -> Value {
    let mut status = object["status"].clone();
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        (condition["lastTransitionTime"], condition["lastUpdateTime"]) = (Value::Null, Value::Null);
        // In a pair only one replica serves the webhook, so if that one is dead no call is
        // answered.
        if condition["type"] == "InjectionReady" {
            *condition = json!({"type": "InjectionReady"});
        }
    }
    // The time since which the selectors are in force, and their hash: they contain the namespace
    // of the run.
    for field in ["since", "selectorHash"] {
        status["injection"]
            .as_object_mut()
            .and_then(|injection| injection.remove(field));
    }
    // Included, so that a status of an older spec is no ending.
    status["observedGeneration"] =
        (status["observedGeneration"] == object["metadata"]["generation"]).into();
    status
}

/// Pods by name, or by number if their names are generated.
pub(super) fn pods(pods: &[Value], names_are_drawn: bool) -> BTreeMap<String, Value> {
    let mut all: Vec<_> = pods
        .iter()
        .map(|it| (text(&it["metadata"]["name"]), pod(it)))
        .collect();
    if names_are_drawn {
        all.sort_by_key(|(_, pod)| pod.to_string());
        all.iter_mut()
            .enumerate()
            .for_each(|(number, (name, _))| *name = number.to_string());
    }
    all.into_iter().collect()
}

/// The namespace of the run has another name in the next run.
pub(super) fn without_namespace(seen: &Value, namespace: &str) -> Result<Value> {
    Ok(serde_json::from_str(
        &seen.to_string().replace(namespace, "NAMESPACE"),
    )?)
}

fn pod(pod: &Value) -> Value {
    let annotations = &pod["metadata"]["annotations"];
    let parsed =
        |key: &str| serde_json::from_str::<Value>(&text(&annotations[key])).unwrap_or_default();
    let mut records = parsed(HASH);
    for (_, record) in records.as_object_mut().into_iter().flatten() {
        record["updateTimestamp"] = Value::Null;
    }
    let states = parsed(STATE);
    let state = |(set, state): (&String, &Value)| {
        let before = state["lastContainerStatuses"]
            .as_object()
            .into_iter()
            .flatten();
        let before: BTreeMap<_, _> = before
            .map(|(name, status)| (name.clone(), status["imageID"].clone()))
            .collect();
        (set.clone(), json!([state["revision"], before]))
    };
    let states: BTreeMap<_, _> = states
        .as_object()
        .into_iter()
        .flatten()
        .map(state)
        .collect();
    let versions = annotations
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, _)| key.starts_with("version"));
    let versions: BTreeMap<_, _> = versions
        .map(|(key, version)| (key.clone(), version != "0"))
        .collect();
    let statuses = pod["status"]["containerStatuses"]
        .as_array()
        .into_iter()
        .flatten();
    let containers: BTreeMap<_, _> = statuses
        .map(|it| {
            (
                text(&it["name"]),
                json!([it["image"], it["restartCount"], it["ready"]]),
            )
        })
        .collect();
    let upgradable = condition(pod, "SidecarSetUpgradable");
    json!({
        "records": records, "states": states, "versions": versions, "working": annotations[WORKING],
        "list": annotations[LIST], "containers": containers, "upgradable": [upgradable["status"], upgradable["message"]],
    })
}
