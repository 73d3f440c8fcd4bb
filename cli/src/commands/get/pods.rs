//! The state of a pod in a word, and what is worth knowing beside it.

use berth_api::names::{annotation, condition, label, lifecycle_state as lifecycle};
use berth_workload::blocked::NO_IMAGE;
use berth_workload::update::revision;
use serde_json::Value;

use super::tone::Tone;
use crate::objects::{condition as condition_of, items, number, text};

/// The state of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodState {
    /// How it is.
    pub tone: Tone,
    /// The word.
    pub word: String,
    /// Why no node has the pod; empty if one has.
    pub reason: String,
    /// Readiness, restarts, and how it came to its revision.
    pub facts: Vec<String>,
}

/// A label of an object, or an empty text.
pub fn label_of<'a>(object: &'a Value, name: &str) -> &'a str {
    object["metadata"]["labels"][name]
        .as_str()
        .unwrap_or_default()
}

/// An annotation of an object, or an empty text.
pub fn annotation_of<'a>(object: &'a Value, name: &str) -> &'a str {
    object["metadata"]["annotations"][name]
        .as_str()
        .unwrap_or_default()
}

/// The state of a pod.
pub fn state(pod: &Value) -> PodState {
    let (tone, word) = word(pod);
    let scheduled = condition_of(pod, "PodScheduled").filter(|_| unscheduled(pod).is_some());
    PodState {
        tone,
        word,
        reason: scheduled.map_or("", |one| text(one, "/message")).to_owned(),
        facts: facts(pod),
    }
}

fn word(pod: &Value) -> (Tone, String) {
    let as_is = |tone, word: &str| (tone, word.to_owned());
    if pod["metadata"]["deletionTimestamp"].is_string() {
        return as_is(Tone::Waiting, "Terminating");
    }
    let phase = text(pod, "/status/phase");
    match phase {
        "Failed" => {
            let reason = text(pod, "/status/reason");
            return as_is(Tone::Bad, if reason.is_empty() { phase } else { reason });
        }
        "Succeeded" => return as_is(Tone::Good, "Completed"),
        _ => {}
    }
    if let Some(reason) = unscheduled(pod) {
        return as_is(Tone::Warning, reason);
    }
    if let Some((tone, reason)) = stopped(pod) {
        return as_is(tone, reason);
    }
    let of_lifecycle = label_of(pod, label::LIFECYCLE_STATE);
    let at_work = [
        lifecycle::PREPARING_NORMAL,
        lifecycle::PREPARING_UPDATE,
        lifecycle::UPDATING,
        lifecycle::UPDATED,
        lifecycle::PREPARING_DELETE,
    ];
    let is_ready = is_true(pod, "Ready");
    // A pod that no hook holds may have kept the state that it was created with.
    let is_at_work = at_work.contains(&of_lifecycle)
        && !(is_ready && of_lifecycle == lifecycle::PREPARING_NORMAL);
    match phase {
        _ if is_at_work => as_is(Tone::Waiting, of_lifecycle),
        _ if is_false(pod, condition::INPLACE_UPDATE_READY) => {
            as_is(Tone::Waiting, lifecycle::UPDATING)
        }
        "Running" if is_ready => as_is(Tone::Good, phase),
        "Running" => as_is(Tone::Waiting, "NotReady"),
        "" => as_is(Tone::Waiting, "Pending"),
        _ => as_is(Tone::Waiting, phase),
    }
}

fn is_true(pod: &Value, name: &str) -> bool {
    condition_of(pod, name).is_some_and(|one| one["status"] == "True")
}

fn is_false(pod: &Value, name: &str) -> bool {
    condition_of(pod, name).is_some_and(|one| one["status"] == "False")
}

/// The reason why no node has the pod.
fn unscheduled(pod: &Value) -> Option<&str> {
    let scheduled = condition_of(pod, "PodScheduled").filter(|one| one["status"] == "False")?;
    let reason = text(scheduled, "/reason");
    Some(if reason.is_empty() {
        "Unschedulable"
    } else {
        reason
    })
}

/// The reason why a container does not run. A missing image comes first, because no restart helps.
fn stopped(pod: &Value) -> Option<(Tone, &str)> {
    let init = items(pod, "/status/initContainerStatuses");
    let waiting = init.chain(items(pod, "/status/containerStatuses"));
    let reasons = waiting.map(|one| text(one, "/state/waiting/reason"));
    let mut reasons = reasons
        .filter(|reason| !reason.is_empty())
        .collect::<Vec<_>>();
    let starts = |reason: &str| matches!(reason, "ContainerCreating" | "PodInitializing");
    reasons.sort_by_key(|reason| (starts(reason), !NO_IMAGE.contains(reason)));
    let reason = reasons.first().copied()?;
    Some((
        if starts(reason) {
            Tone::Waiting
        } else {
            Tone::Bad
        },
        reason,
    ))
}

fn facts(pod: &Value) -> Vec<String> {
    let mut facts = Vec::new();
    let statuses = || items(pod, "/status/containerStatuses");
    let containers = items(pod, "/spec/containers")
        .count()
        .max(statuses().count());
    let ready = statuses().filter(|one| one["ready"] == true).count();
    let has_ended = matches!(text(pod, "/status/phase"), "Succeeded" | "Failed");
    if containers > 0 && !has_ended {
        facts.push(format!("ready {ready}/{containers}"));
    }
    let restarts: i64 = statuses().map(|one| number(one, "/restartCount")).sum();
    if restarts > 0 {
        facts.push(format!("restarts {restarts}"));
    }
    if is_in_place(pod) {
        facts.push("in place".to_owned());
    }
    if !label_of(pod, label::SPECIFIED_DELETE).is_empty() {
        facts.push("to be deleted".to_owned());
    }
    facts
}

/// Whether the pod came to its revision in place.
fn is_in_place(pod: &Value) -> bool {
    let state = annotation_of(pod, annotation::INPLACE_UPDATE_STATE);
    let state: Value = serde_json::from_str(state).unwrap_or_default();
    let of_pod = label_of(pod, label::CONTROLLER_REVISION_HASH);
    revision::same(text(&state, "/revision"), of_pod)
}

#[cfg(test)]
mod tests;
