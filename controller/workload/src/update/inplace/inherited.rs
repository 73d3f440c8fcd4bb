//! Updates that OpenKruise began and left in their grace period. The ones between two batches of
//! containers are like Berth's.
//!
//! OpenKruise writes the new revision's label and record when the grace period begins, and the
//! remaining changes into an annotation. So the label names a revision that the pod does not run
//! yet. Berth finishes such an update as it was begun, because the old label is lost. Only then is
//! the pod like any other, and can be updated again or rolled back.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use berth_api::names::annotation::{
    INPLACE_UPDATE_GRACE, INPLACE_UPDATE_GRACE_OLD, INPLACE_UPDATE_STATE_OLD,
};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::batch::RefMetadata;
use super::batches;
use super::brief::Brief;
use super::phase::target;
use super::state::{self, State};
use crate::objects::pod::Pod;
use crate::plan::{Action, PodPatch};
use crate::update::revision::REVISION_LABEL;

/// The content of the annotation.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Left {
    container_images: Map<String, Value>,
    container_ref_metadata: BTreeMap<String, RefMetadata>,
    /// Base64 of a strategic merge patch of the pod's metadata.
    meta_data_patch: String,
    grace_seconds: i64,
}

/// Whether the pod is in a grace period that OpenKruise began.
pub fn is_in_grace(pod: &Pod) -> bool {
    annotation(pod).is_some()
}

fn annotation(pod: &Pod) -> Option<&str> {
    let found = [INPLACE_UPDATE_GRACE, INPLACE_UPDATE_GRACE_OLD]
        .into_iter()
        .find_map(|key| pod.metadata.annotation(key));
    found.filter(|text| !text.is_empty())
}

/// The rest of the grace period; zero when it is over.
pub fn rest_of_grace(pod: &Pod, now: Timestamp) -> SignedDuration {
    let left = left(pod).unwrap_or_default();
    let since = State::of(pod)
        .and_then(|state| state.update_timestamp)
        .unwrap_or(Timestamp::UNIX_EPOCH);
    let passed = now.duration_since(since);
    // A clock that was set back must not keep the pod out of service for that long.
    if passed.is_negative() {
        return SignedDuration::ZERO;
    }
    SignedDuration::from_secs(left.grace_seconds)
        .saturating_sub(passed)
        .max(SignedDuration::ZERO)
}

/// The patch that ends the grace period: the remaining changes, or their first batch, and the
/// record of the containers that run before it. `revision` is the revision in the pod's label. If
/// the annotation is unreadable, the images are those of its template.
pub fn end_of_grace(pod: &Pod, revision: Option<&Brief<'_>>, now: Timestamp) -> Action {
    let mut patch = match left(pod) {
        Some(left) => patch_of(&left),
        None => PodPatch {
            images: revision.map(|r| images_of(pod, r)).unwrap_or_default(),
            ..PodPatch::default()
        },
    };
    let name = revision
        .map(Brief::name)
        .or_else(|| pod.metadata.label(REVISION_LABEL));
    if let Some(revision) = revision {
        patch.env = revision.read_by(&patch);
    }
    let mut rest = State::default();
    batches::split(pod, &mut patch, &[], &mut rest, now);
    // The creation data of the containers are unknown, so that the node's daemon must report them.
    let state = State::begin(
        pod,
        name.unwrap_or_default(),
        patch.images.keys(),
        false,
        now,
    );
    let mut state = batches::joined(state, rest);
    state.env = patch.env.clone();
    state.update_env_from_metadata = state.env.changes();
    for key in [
        INPLACE_UPDATE_GRACE,
        INPLACE_UPDATE_GRACE_OLD,
        INPLACE_UPDATE_STATE_OLD,
    ] {
        if pod.metadata.annotation(key).is_some() {
            patch.annotations.insert(key.into(), None);
        }
    }
    patch
        .annotations
        .insert(state::ANNOTATION.into(), Some(state.to_annotation()));
    Action::PatchPod {
        target: target(pod),
        patch,
    }
}

fn left(pod: &Pod) -> Option<Left> {
    serde_json::from_str(annotation(pod)?).ok()
}

fn patch_of(left: &Left) -> PodPatch {
    let mut patch = PodPatch::default();
    let own = BASE64
        .decode(&left.meta_data_patch)
        .ok()
        .and_then(|json| serde_json::from_slice::<Value>(&json).ok());
    let own = own.and_then(|patch| RefMetadata::deserialize(patch.get("metadata")?).ok());
    own.into_iter()
        .chain(left.container_ref_metadata.values().cloned())
        .for_each(|of| of.add_to(&mut patch));
    let images = left.container_images.iter();
    patch.images.extend(
        images.filter_map(|(name, image)| Some((name.clone(), image.as_str()?.to_owned()))),
    );
    patch
}

fn images_of(pod: &Pod, revision: &Brief<'_>) -> BTreeMap<String, String> {
    let differs = |(name, image): &(&str, &str)| {
        pod.spec
            .containers
            .iter()
            .any(|own| *own.name == **name && *own.image != **image)
    };
    revision
        .images()
        .filter(differs)
        .map(|(name, image)| (name.to_owned(), image.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests;
