//! Updates that OpenKruise began and left in their grace period, or between two batches of containers.
//!
//! OpenKruise writes the new revision's label and record when the grace period begins, and what is still to be changed
//! into an annotation. So the label speaks of a revision that the pod does not run yet. Such an update is finished as it was
//! begun: the label leaves no trace of what it was before. Only then is the pod like any other, and goes on or back.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use berth_api::names::annotation::{INPLACE_UPDATE_GRACE, INPLACE_UPDATE_GRACE_OLD, INPLACE_UPDATE_STATE_OLD};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::env::{self, Env};
use super::state::{self, State};
use super::steps::{self, Phase};
use crate::plan::{Action, PodPatch};
use crate::pod::Pod;
use crate::revision::{REVISION_LABEL, Revision};

/// What the annotation says.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Left {
    container_images: Map<String, Value>,
    container_ref_metadata: Map<String, Value>,
    /// Base64 of a strategic merge patch of the pod's metadata.
    meta_data_patch: String,
    grace_seconds: i64,
}

/// Is the pod in a grace period that OpenKruise began?
pub fn is_in_grace(pod: &Pod) -> bool {
    annotation(pod).is_some()
}

fn annotation(pod: &Pod) -> Option<&str> {
    let found =
        [INPLACE_UPDATE_GRACE, INPLACE_UPDATE_GRACE_OLD].into_iter().find_map(|key| pod.metadata.annotation(key));
    found.filter(|text| !text.is_empty())
}

/// The rest of the grace period; zero when it is over.
pub fn rest_of_grace(pod: &Pod, now: Timestamp) -> SignedDuration {
    let left = left(pod).unwrap_or_default();
    let since = State::of(pod).and_then(|state| state.update_timestamp).unwrap_or(Timestamp::UNIX_EPOCH);
    let passed = now.duration_since(since);
    // A clock that was set back must not hold the pod out of service for as long as it was wrong.
    if passed.is_negative() {
        return SignedDuration::ZERO;
    }
    (SignedDuration::from_secs(left.grace_seconds) - passed).max(SignedDuration::ZERO)
}

/// The patch that ends the grace period: what was left to change, and the record of what runs before it. `revision` is the
/// one that the pod's label names: where the annotation cannot be read, the images are those of its template.
pub fn end_of_grace(pod: &Pod, revision: Option<&Revision>, now: Timestamp) -> Action {
    let mut patch = match left(pod) {
        Some(left) => patch_of(&left),
        None => PodPatch { images: revision.map(|r| images_of(pod, r)).unwrap_or_default(), ..PodPatch::default() },
    };
    let name = revision.map(|revision| &*revision.metadata.name).or_else(|| pod.metadata.label(REVISION_LABEL));
    // Nothing is known of what the containers were created from, so the node is asked.
    let state = record(pod, name.unwrap_or_default(), revision, &mut patch, false, now);
    for key in [INPLACE_UPDATE_GRACE, INPLACE_UPDATE_GRACE_OLD, INPLACE_UPDATE_STATE_OLD] {
        if pod.metadata.annotation(key).is_some() {
            patch.annotations.insert(key.into(), None);
        }
    }
    patch.annotations.insert(state::ANNOTATION.into(), Some(state.to_annotation()));
    Action::PatchPod { target: steps::target(pod), patch }
}

/// What an update whose containers up to now are proven left for later, all of it at once. `None` when that is nothing.
///
/// # Errors
/// What must come before, in words.
pub fn rest(pod: &Pod, state: &State, revision: Option<&Revision>, now: Timestamp) -> Option<Result<Action, String>> {
    let mut patch = patch_of(&later(state)?);
    let required = state.others.get("preCheckBeforeNext").and_then(|check| check["containersRequiredReady"].as_array());
    let mut required = required.into_iter().flatten().filter_map(Value::as_str);
    if let Some(name) = required.find(|name| pod.container_status(name).is_some_and(|status| !status.ready)) {
        return Some(Err(format!("container {name} must be ready before the next containers are updated")));
    }
    let record = record(pod, &state.revision, revision, &mut patch, true, now);
    patch.annotations.insert(state::ANNOTATION.into(), Some(record.to_annotation()));
    Some(Ok(Action::PatchPod { target: steps::target(pod), patch }))
}

/// Adds what an unfinished update left for later to the patch of the update that comes after it: where both revisions have the
/// same image, the patch between them has none.
pub fn add_rest(pod: &Pod, patch: &mut PodPatch) {
    let Some(left) = State::of(pod).as_ref().and_then(later) else { return };
    let rest = patch_of(&left);
    for (ours, theirs) in [(&mut patch.labels, rest.labels), (&mut patch.annotations, rest.annotations)] {
        for (key, value) in theirs {
            ours.entry(key).or_insert(value);
        }
    }
    for (name, image) in rest.images {
        patch.images.entry(name).or_insert(image);
    }
}

/// The record of what the patch changes, the environment that containers take from labels and annotations included.
fn record(
    pod: &Pod,
    name: &str,
    revision: Option<&Revision>,
    patch: &mut PodPatch,
    settled: bool,
    now: Timestamp,
) -> State {
    if let Some(revision) = revision {
        patch.env = Env::read_by(&revision.template(), patch);
    }
    let mut state = State::begin(pod, name, patch.images.keys(), settled, now);
    state.env = env::to_prove(&Phase::Draining, patch);
    state.update_env_from_metadata = state.env.changes();
    state
}

fn later(state: &State) -> Option<Left> {
    let map = |key: &str| state.others.get(key).and_then(Value::as_object).cloned().unwrap_or_default();
    let left = Left {
        container_images: map("nextContainerImages"),
        container_ref_metadata: map("nextContainerRefMetadata"),
        ..Left::default()
    };
    let is_empty = left.container_images.is_empty() && left.container_ref_metadata.is_empty();
    (!is_empty).then_some(left)
}

fn left(pod: &Pod) -> Option<Left> {
    serde_json::from_str(annotation(pod)?).ok()
}

fn patch_of(left: &Left) -> PodPatch {
    let mut patch = PodPatch::default();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let own = BASE64.decode(&left.meta_data_patch).ok().and_then(|json| serde_json::from_slice::<Value>(&json).ok());
    let own = own.as_ref().map(|patch| &patch["metadata"]);
    for metadata in own.into_iter().chain(left.container_ref_metadata.values()) {
        for (key, map) in [("labels", &mut patch.labels), ("annotations", &mut patch.annotations)] {
            let entries = metadata[key].as_object().into_iter().flatten();
            map.extend(entries.map(|(key, value)| (key.clone(), text(value))));
        }
    }
    patch.images.extend(left.container_images.iter().filter_map(|(name, image)| Some((name.clone(), text(image)?))));
    patch
}

fn images_of(pod: &Pod, revision: &Revision) -> BTreeMap<String, String> {
    let template = revision.template();
    let containers = template.pointer("/spec/containers").and_then(Value::as_array).into_iter().flatten();
    let images = containers.filter_map(|c| Some((c["name"].as_str()?, c["image"].as_str()?)));
    let differs = |(name, image): &(&str, &str)| {
        pod.spec.containers.iter().any(|own| *own.name == **name && *own.image != **image)
    };
    images.filter(differs).map(|(name, image)| (name.to_owned(), image.to_owned())).collect()
}
