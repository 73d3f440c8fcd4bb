//! The containers of a pod with a launch order are updated in that order: first the containers of
//! the highest priority and the ones without a priority. The next ones follow when these are proven
//! and ready.
//!
//! The rest is in the record: `nextContainerImages`, as OpenKruise writes it, and the variables
//! with unproven values. So Berth continues an update that OpenKruise left between two batches.
//! Labels and annotations all change with the first batch. A container of a later batch that
//! crashes meanwhile has them earlier, and is not restarted for them before its turn. Resources
//! change with the first batch as well.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::brief::Brief;
use super::env::Env;
use super::exact::UpdateDecision;
use super::phase::{Phase, target};
use super::resize::Resizes;
use super::restart;
use super::state::{self, State};
use crate::objects::node::image::NodeFacts;
use crate::objects::pod::Pod;
use crate::plan::{Action, PodPatch};

pub use super::batch::{Batch, PreCheck};

/// A change to a revision, joined with the rest of an earlier update, because the revision label
/// covers both. It includes unproven variables that are equal in both revisions, which the patch
/// between them does not have.
pub(super) fn with_rest(phase: &Phase, patch: &PodPatch, revision: &Brief<'_>) -> PodPatch {
    let mut whole = patch.clone();
    let Phase::Patched(state, decision) = phase else {
        return whole;
    };
    let proven = matches!(decision, UpdateDecision::Proven { .. });
    let unproven = if proven {
        Env::default()
    } else {
        state.env.clone()
    };
    for (container, image) in &state.next_container_images {
        whole
            .images
            .entry(container.clone())
            .or_insert_with(|| image.clone());
    }
    let mut metadata = PodPatch::default();
    state
        .next_container_ref_metadata
        .values()
        .cloned()
        .for_each(|of| of.add_to(&mut metadata));
    metadata
        .labels
        .retain(|key, _| !patch.labels.contains_key(key));
    metadata
        .annotations
        .retain(|key, _| !patch.annotations.contains_key(key));
    let readers = readers(&metadata, Some(revision));
    whole.restarted.extend(state.next_restarts.iter().cloned());
    whole.env = unproven
        .overlaid(&state.next_env)
        .overlaid(&readers)
        .overlaid(&patch.env);
    whole.labels.append(&mut metadata.labels);
    whole.annotations.append(&mut metadata.annotations);
    whole
}

/// The variables that read changed labels or annotations. None if nothing changes, or if the
/// template is unknown.
fn readers(patch: &PodPatch, revision: Option<&Brief<'_>>) -> Env {
    let changes = !patch.labels.is_empty() || !patch.annotations.is_empty();
    revision
        .filter(|_| changes)
        .map(|revision| revision.read_by(patch))
        .unwrap_or_default()
}

/// The containers that an earlier update patched last, and others of it that may not be ready yet.
pub(super) fn busy(phase: &Phase) -> Vec<String> {
    let Phase::Patched(state, _) = phase else {
        return Vec::new();
    };
    let last = state
        .container_batches_record
        .last()
        .map(|batch| &batch.containers);
    last.into_iter()
        .flatten()
        .chain(required(state))
        .cloned()
        .collect()
}

/// The containers that must be ready before those of a lower priority are updated.
fn required(state: &State) -> impl Iterator<Item = &String> {
    state
        .pre_check_before_next
        .iter()
        .flat_map(|check| &check.containers_required_ready)
}

fn priority(pod: &Pod, name: &str) -> Option<i32> {
    pod.spec
        .containers
        .iter()
        .find(|container| *container.name == *name)?
        .env
        .priority()
}

/// Moves everything after the first batch from the patch into the record. The batch may be empty
/// while a container of a higher priority is `busy`.
pub(super) fn split(
    pod: &Pod,
    patch: &mut PodPatch,
    busy: &[String],
    state: &mut State,
    now: Timestamp,
) {
    let changed = patch
        .images
        .keys()
        .chain(patch.env.containers())
        .chain(&patch.restarted);
    let changed: BTreeSet<String> = changed.cloned().collect();
    let priority = |name: &String| priority(pod, name);
    let highest = changed.iter().chain(busy).filter_map(priority).max();
    state.pre_check_before_next = None;
    if changed.is_empty() && busy.is_empty() {
        return;
    }
    let (mut now_due, later): (BTreeSet<_>, BTreeSet<_>) = changed
        .into_iter()
        .partition(|name| priority(name).is_none_or(|of| Some(of) == highest));
    state.next_container_images = patch
        .images
        .iter()
        .filter(|(name, _)| later.contains(*name))
        .map(owned)
        .collect();
    patch.images.retain(|name, _| !later.contains(name));
    state.next_env = patch.env.of(&later);
    patch.env = std::mem::take(&mut patch.env).without(&later);
    state.next_restarts = patch.restarted.intersection(&later).cloned().collect();
    patch.restarted.retain(|name| !later.contains(name));
    if highest.is_none() && state.container_batches_record.is_empty() {
        return;
    }
    now_due.extend(
        busy.iter()
            .filter(|name| priority(name) == highest)
            .cloned(),
    );
    let containers: Vec<String> = now_due.into_iter().collect();
    // Busy containers of a lower priority than this batch must still be ready before the containers
    // below them are updated.
    let lower: Vec<_> = busy
        .iter()
        .filter(|name| !later.contains(*name) && !containers.contains(name))
        .collect();
    if !later.is_empty() || !lower.is_empty() {
        let required: BTreeSet<_> = containers.iter().chain(lower).cloned().collect();
        state.pre_check_before_next = Some(PreCheck {
            containers_required_ready: required.into_iter().collect(),
        });
    }
    state.container_batches_record.push(Batch {
        timestamp: Some(now),
        containers,
    });
}

/// The record of an update with its remaining batches.
pub(super) fn joined(state: State, rest: State) -> State {
    State {
        next_container_images: rest.next_container_images,
        next_env: rest.next_env,
        next_restarts: rest.next_restarts,
        pre_check_before_next: rest.pre_check_before_next,
        container_batches_record: rest.container_batches_record,
        ..state
    }
}

fn owned((name, image): (&String, &String)) -> (String, String) {
    (name.clone(), image.clone())
}

/// Whether batches remain after the patched one.
pub fn has_next(state: &State) -> bool {
    let restarts = state.next_env.changes() || !state.next_restarts.is_empty();
    restarts
        || !state.next_container_images.is_empty()
        || !state.next_container_ref_metadata.is_empty()
}

/// The write of the next batch, once this one is proven. `revision` is the revision in the pod's
/// label, if it is known.
///
/// # Errors
/// The reason to wait: a container that is not ready.
pub fn next(
    pod: &Pod,
    state: &State,
    revision: Option<&Brief<'_>>,
    node: &NodeFacts,
    now: Timestamp,
) -> Result<Action, String> {
    let due = state
        .next_container_images
        .keys()
        .chain(state.next_env.containers())
        .chain(&state.next_restarts);
    let due = due.filter_map(|name| priority(pod, name)).max();
    let is_lower =
        |name: &&String| priority(pod, name).is_some_and(|of| due.is_some_and(|due| of < due));
    let (lower, mut required): (Vec<_>, Vec<_>) = required(state).partition(is_lower);
    required.retain(|name| !is_ready(pod, node, name));
    if let Some(name) = required.first() {
        return Err(format!(
            "container {name} is to be ready before those of a lower priority are updated"
        ));
    }
    let (images, restarted) = (
        state.next_container_images.clone(),
        state.next_restarts.clone(),
    );
    let mut patch = PodPatch {
        images,
        restarted,
        ..PodPatch::default()
    };
    // Proven resources must not be written again if another writer changes them from now on.
    let mut next = State {
        resources: Resizes::new(),
        ..state.clone()
    };
    let metadata = std::mem::take(&mut next.next_container_ref_metadata);
    metadata.into_values().for_each(|of| of.add_to(&mut patch));
    patch.env = state.next_env.clone().overlaid(&readers(&patch, revision));
    split(
        pod,
        &mut patch,
        &lower.into_iter().cloned().collect::<Vec<_>>(),
        &mut next,
        now,
    );
    let fresh = State::begin(pod, &state.revision, patch.images.keys(), true, now);
    next.last_container_statuses
        .extend(fresh.last_container_statuses);
    next.update_images |= fresh.update_images;
    next.from_settled = true;
    next.env = state.env.clone().overlaid(&patch.env);
    next.update_env_from_metadata = next.env.changes();
    next.restarts = restart::record(pod, &patch.restarted, None, &next.next_restarts);
    patch
        .annotations
        .insert(state::ANNOTATION.into(), Some(next.to_annotation()));
    Ok(Action::PatchPod {
        target: target(pod),
        patch,
    })
}

/// Whether the current container is ready. The node may report a container that the pod's status
/// does not show yet.
fn is_ready(pod: &Pod, node: &NodeFacts, name: &str) -> bool {
    let Some(status) = pod.container_status(name) else {
        return false;
    };
    let newer = node.created.get(name).and_then(|created| created.attempt);
    status.ready && newer.is_none_or(|attempt| attempt <= status.restart_count)
}

#[cfg(test)]
mod tests;
