//! The writes of an in-place update: out of service, the patch, back into service.
//!
//! Three patches per pod, and after each of them the pod itself shows the next step. In state
//! `Updating`, or with just a closed readiness gate, and with the record of another revision than
//! the pod's label: the pod is out of service with its old images, and the update can be resumed or
//! reverted. In state `Updating` with the record of the label's revision: the images are changed
//! and must be proven.
//!
//! The kubelet syncs a pod after every change of its metadata. Between two syncs it looks at the
//! runtime, at most once a second. So without a grace period the first patch has no metadata, and
//! the kubelet starts the new image at once.

mod gate;

use jiff::{SignedDuration, Timestamp};

use super::batches;
use super::brief::Brief;
use super::exact::{self, UpdateDecision};
use super::inherited;
use super::resize::{self, Resizes};
use super::restart::{self, Restarts};
use super::state::{self, State};
use crate::objects::node::image::NodeFacts;
use crate::objects::pod::lifecycle;
use crate::objects::pod::{Condition, Pod, gates};
use crate::plan::{Action, PodPatch};
use crate::update::revision::{self, PodLabels, REVISION_LABEL};

pub use super::phase::{Phase, target, target_as_seen, target_unless_it_serves};
pub use gate::{
    close_again, is_ready_of_before, not_ready_again, open_early, opens_early, ready_too_early,
};

/// An update to begin or to continue.
#[derive(Debug, Clone, Copy)]
pub struct Update<'a> {
    /// The revision.
    pub revision: &'a Brief<'a>,
    /// The form of the revision in the pod's labels.
    pub labels: PodLabels,
    /// The changes from the pod's present revision.
    pub patch: &'a PodPatch,
    /// Time out of service before the images change.
    pub grace: SignedDuration,
    /// Whether a hook or a user follows the lifecycle state. Then the state shows every update,
    /// also one that leaves the pod in service.
    pub announce: bool,
}

/// The next writes of an update.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Write these, in order.
    Write(Vec<Action>),
    /// Write nothing before this time has passed.
    Wait(SignedDuration),
}

/// Whether an in-place update has begun and is not settled.
pub fn is_under_way(pod: &Pod) -> bool {
    is_marked(pod) || closed(pod).is_some() || inherited::is_in_grace(pod)
}

fn is_marked(pod: &Pod) -> bool {
    lifecycle::state(pod) == lifecycle::UPDATING
}

/// The gate's condition, if the gate is closed. Only Berth closes it.
fn closed(pod: &Pod) -> Option<&Condition> {
    let gated = gates::has_gate(pod, gates::IN_PLACE_UPDATE_READY);
    pod.condition(gates::IN_PLACE_UPDATE_READY)
        .filter(|gate| gated && &*gate.status == "False")
}

/// Whether an announced update leaves the pod in service. It is over as soon as the pod is patched,
/// and the next update begins from the start.
pub fn is_in_service(pod: &Pod) -> bool {
    is_marked(pod) && gates::has_gate(pod, gates::IN_PLACE_UPDATE_READY) && closed(pod).is_none()
}

/// The phase of the pod's update, from the pod itself.
pub fn phase(pod: &Pod, node: &NodeFacts) -> Phase {
    if !is_under_way(pod) {
        return Phase::Idle;
    }
    if inherited::is_in_grace(pod) {
        return Phase::Draining;
    }
    let label = pod.metadata.label(REVISION_LABEL).unwrap_or_default();
    match State::of(pod).filter(|state| revision::same(&state.revision, label)) {
        Some(state) if !state.is_settled() => {
            let decision = exact::judge(pod, &state, node);
            Phase::Patched(state, decision)
        }
        _ => Phase::Draining,
    }
}

/// The writes that bring the pod to the revision.
pub fn advance(pod: &Pod, phase: &Phase, update: &Update<'_>, now: Timestamp) -> Next {
    let gated = gates::has_gate(pod, gates::IN_PLACE_UPDATE_READY);
    let serves =
        *phase == Phase::Idle || (gated && *phase != Phase::Draining && closed(pod).is_none());
    // A change that restarts no container leaves the pod in service. Resources set the lifecycle
    // state nevertheless, because they must be proven.
    if serves && !update.patch.restarts() {
        let mark = (update.announce || !update.patch.resources.is_empty()) && !is_marked(pod);
        return Next::Write(patch_spec(pod, phase, update, mark, now));
    }
    match phase {
        // The update is only announced, the pod was resized in service, or another writer opened
        // its gate.
        Phase::Idle | Phase::Draining | Phase::Patched(..) if gated && closed(pod).is_none() => {
            // A pod that is out of service behind an open gate has had its grace period.
            let is_out = matches!(phase, Phase::Patched(..)) && !pod.is_true("Ready");
            let at_once = update.grace.is_zero() || is_out;
            // The hook's owner learns of the update from the first write on.
            let mark = !at_once || update.announce;
            let mut actions = vec![leave_service(pod, mark, now)];
            if at_once {
                actions.extend(patch_spec(
                    pod,
                    phase,
                    update,
                    !mark && !is_marked(pod),
                    now,
                ));
            }
            Next::Write(actions)
        }
        // A pod that was resized in service leaves service with the same grace period.
        Phase::Draining | Phase::Patched(..) if gated || *phase == Phase::Draining => {
            let marked = if is_marked(pod) {
                lifecycle::since(pod)
            } else {
                None
            };
            let since = marked
                .or_else(|| closed(pod)?.last_transition_time)
                .unwrap_or(Timestamp::UNIX_EPOCH);
            let drained = now.duration_since(since);
            // A clock that was set back must not keep the pod out of service for that long.
            if drained.is_negative() || drained >= update.grace {
                Next::Write(patch_spec(pod, phase, update, !is_marked(pod), now))
            } else {
                Next::Wait(update.grace - drained)
            }
        }
        _ => Next::Write(patch_spec(pod, phase, update, !is_marked(pod), now)),
    }
}

/// Puts the pod back into service: its update is exact, or was cancelled before anything changed.
/// The pod gets the lifecycle state `to`, or keeps its own.
pub fn finish(
    pod: &Pod,
    settled: Option<&State>,
    decision: Option<&UpdateDecision>,
    to: Option<&str>,
    now: Timestamp,
) -> Action {
    let mut patch = PodPatch::default();
    if let Some(state) = to {
        lifecycle::set(&mut patch, state, now);
    }
    if let (
        Some(state),
        Some(UpdateDecision::Proven {
            verified_by,
            moved_tags,
        }),
    ) = (settled, decision)
    {
        let (verified_by, moved_tags) = ((*verified_by).into(), moved_tags.clone());
        // Proven resources and restarts are no longer needed.
        let (resources, restarts) = (Resizes::new(), Restarts::new());
        let state = State {
            verified_by,
            moved_tags,
            resources,
            restarts,
            gate_waits: false,
            ..state.clone()
        };
        patch
            .annotations
            .insert(state::ANNOTATION.into(), Some(state.to_annotation()));
    }
    if !gates::has_gate(pod, gates::IN_PLACE_UPDATE_READY) {
        return Action::PatchPod {
            target: target(pod),
            patch,
        };
    }
    let opened = closed(pod).map(|_| gates::condition(gates::IN_PLACE_UPDATE_READY, true, now));
    let conditions = opened.into_iter().collect();
    Action::PatchPodStatus {
        target: target(pod),
        conditions,
        patch,
    }
}

/// Whether an unproven in-place update restarts containers.
pub fn awaits_proof(pod: &Pod) -> bool {
    is_marked(pod)
        && State::of(pod).is_some_and(|state| !state.is_settled() && state.restarts_containers())
}

/// Whether the pod lacks resources of its update that no kubelet is about to apply. Such a pod
/// never counts as updated, because the revision label comes one write before the resources.
pub fn lacks_resources(pod: &Pod) -> bool {
    let is_to_resize = |state: &State| state.update_resources && !state.is_settled();
    let state = if is_under_way(pod) {
        State::of(pod).filter(is_to_resize)
    } else {
        None
    };
    state.is_some_and(|state| resize::is_out_of_reach(pod, &state.resources))
}

/// The write that takes the pod out of service. `mark` sets the lifecycle state as well, because
/// the update continues later.
fn leave_service(pod: &Pod, mark: bool, now: Timestamp) -> Action {
    let mut patch = PodPatch::default();
    if mark {
        lifecycle::set(&mut patch, lifecycle::UPDATING, now);
    }
    let mut conditions: Vec<Condition> =
        vec![gates::condition(gates::IN_PLACE_UPDATE_READY, false, now)];
    if pod.is_true("Ready") {
        conditions.push(gates::not_ready(pod, gates::IN_PLACE_UPDATE_READY, now));
    }
    Action::PatchPodStatus {
        target: target_unless_it_serves(pod),
        conditions,
        patch,
    }
}

/// The one patch with images, revision, template metadata and the record, and then the resize.
/// `mark` sets the lifecycle state as well, if the pod does not have it yet.
fn patch_spec(
    pod: &Pod,
    phase: &Phase,
    update: &Update<'_>,
    mark: bool,
    now: Timestamp,
) -> Vec<Action> {
    // An update without restarts leaves no image to prove.
    let settled = match phase {
        Phase::Idle | Phase::Draining => true,
        Phase::Patched(state, decision) => {
            !state.restarts_containers() || matches!(decision, UpdateDecision::Proven { .. })
        }
    };
    let resources = resize::joined(
        unproven(phase).map(|state| &state.resources),
        &update.patch.resources,
    );
    let mut patch = PodPatch {
        resources: Resizes::new(),
        ..batches::with_rest(phase, update.patch, update.revision)
    };
    let (name, mut rest) = (update.revision.name(), State::default());
    batches::split(pod, &mut patch, &batches::busy(phase), &mut rest, now);
    let state = State::begin(pod, name, changed(pod, phase, &patch), settled, now);
    let mut state = batches::joined(state, rest);
    state.env = patch.env.clone();
    state.update_env_from_metadata = state.env.changes();
    state.restarts = restart::record(pod, &patch.restarted, unproven(phase), &state.next_restarts);
    state.update_resources =
        !resources.is_empty() || unproven(phase).is_some_and(|state| state.update_resources);
    state.resources.clone_from(&resources);
    // Without a new image the kubelet starts no other sync.
    state.gate_waits =
        patch.images.is_empty() && unproven(phase).is_some_and(|state| state.gate_waits);
    patch
        .annotations
        .insert(state::ANNOTATION.into(), Some(state.to_annotation()));
    patch.labels.extend(
        update
            .labels
            .of(name)
            .map(|(key, value)| (key.to_owned(), Some(value.to_owned()))),
    );
    if mark {
        lifecycle::set(&mut patch, lifecycle::UPDATING, now);
    }
    let missing = resize::unwritten(pod, &resources);
    // A pod without the gate was not taken out of service first.
    let is_out = gates::has_gate(pod, gates::IN_PLACE_UPDATE_READY);
    let target = if is_out {
        target(pod)
    } else {
        target_unless_it_serves(pod)
    };
    let mut actions = vec![Action::PatchPod { target, patch }];
    actions.extend((!missing.is_empty()).then(|| resize(pod, missing)));
    actions
}

/// The write of the resources that a pod's spec lacks.
pub fn resize(pod: &Pod, resources: Resizes) -> Action {
    Action::ResizePod {
        target: target(pod),
        resources,
    }
}

/// The record of the update before, until it is proven.
fn unproven(phase: &Phase) -> Option<&State> {
    match phase {
        Phase::Patched(_, UpdateDecision::Proven { .. }) | Phase::Idle | Phase::Draining => None,
        Phase::Patched(state, _) => Some(state),
    }
}

/// Containers to prove: the ones whose image changes now, and the ones of an unsettled earlier
/// update, which still restart.
fn changed<'a>(
    pod: &'a Pod,
    phase: &'a Phase,
    patch: &'a PodPatch,
) -> impl Iterator<Item = &'a String> {
    let unproven = match phase {
        Phase::Patched(state, _) => Some(state.last_container_statuses.keys()),
        _ => None,
    };
    let known = |name: &&String| {
        pod.spec
            .containers
            .iter()
            .any(|c| c.name.as_ref() == name.as_str())
    };
    patch
        .images
        .keys()
        .chain(unproven.into_iter().flatten())
        .filter(known)
}

#[cfg(test)]
mod tests;
