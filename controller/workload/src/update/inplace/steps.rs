//! The writes of an in-place update: out of service, the patch, back into service.
//!
//! Three patches per pod, each leaving a state that says by itself what is next. `Updating`, or just a closed gate, with
//! the record of another revision than the pod's label: out of service, the images not changed yet, to be resumed or
//! undone. `Updating` with the record of the label's revision: the images are changed, to be proven.
//!
//! The kubelet syncs a pod for every change of its metadata, and looks at the runtime, at most once a second, between two
//! syncs. So with no grace period the first patch has no metadata: the kubelet then gets to the new image at once.

mod gate;

use jiff::{SignedDuration, Timestamp};

use super::batches;
use super::brief::Brief;
use super::exact::{self, Verdict};
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

/// An update to begin or to go on with.
#[derive(Debug, Clone, Copy)]
pub struct Update<'a> {
    /// The revision.
    pub revision: &'a Brief<'a>,
    /// How the pod's labels name it.
    pub labels: PodLabels,
    /// What changes against the pod's present revision.
    pub patch: &'a PodPatch,
    /// Time out of service before the images change.
    pub grace: SignedDuration,
    /// Somebody follows the lifecycle state: it tells of every update, even of one that leaves the pod in service.
    pub announce: bool,
}

/// What an update writes now.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// These, in order.
    Write(Vec<Action>),
    /// Nothing before this time has passed.
    Wait(SignedDuration),
}

/// Whether an update in place has begun and is not settled.
pub fn is_under_way(pod: &Pod) -> bool {
    is_marked(pod) || closed(pod).is_some() || inherited::is_in_grace(pod)
}

fn is_marked(pod: &Pod) -> bool {
    lifecycle::state(pod) == lifecycle::UPDATING
}

/// The gate's condition, if the gate is closed. Nobody else closes it.
fn closed(pod: &Pod) -> Option<&Condition> {
    let gated = gates::has_gate(pod, gates::IN_PLACE_UPDATE_READY);
    pod.condition(gates::IN_PLACE_UPDATE_READY)
        .filter(|gate| gated && &*gate.status == "False")
}

/// Is an update announced that leaves the pod in service? It is over as soon as the pod is patched, and the next one begins
/// from the start.
pub fn is_in_service(pod: &Pod) -> bool {
    is_marked(pod) && gates::has_gate(pod, gates::IN_PLACE_UPDATE_READY) && closed(pod).is_none()
}

/// Reads the phase off the pod.
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
            let verdict = exact::judge(pod, &state, node);
            Phase::Patched(state, verdict)
        }
        _ => Phase::Draining,
    }
}

/// The writes that bring the pod to the revision.
pub fn advance(pod: &Pod, phase: &Phase, update: &Update<'_>, now: Timestamp) -> Next {
    let gated = gates::has_gate(pod, gates::IN_PLACE_UPDATE_READY);
    let serves =
        *phase == Phase::Idle || (gated && *phase != Phase::Draining && closed(pod).is_none());
    // What restarts nothing leaves the pod in service. Resources are marked all the same: they are to be proven.
    if serves && !update.patch.restarts() {
        let mark = (update.announce || !update.patch.resources.is_empty()) && !is_marked(pod);
        return Next::Write(patch_spec(pod, phase, update, mark, now));
    }
    match phase {
        // Announced only, resized in service, or its gate was opened by somebody else.
        Phase::Idle | Phase::Draining | Phase::Patched(..) if gated && closed(pod).is_none() => {
            // One that is out of service after all, behind an open gate, has had its time.
            let is_out = matches!(phase, Phase::Patched(..)) && !pod.is_true("Ready");
            let at_once = update.grace.is_zero() || is_out;
            // From the first write on its hook's owner is told.
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
        // A pod that was resized in service leaves it with the same time of grace.
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
            // A clock that was set back must not hold the pod out of service for as long as it was wrong.
            if drained.is_negative() || drained >= update.grace {
                Next::Write(patch_spec(pod, phase, update, !is_marked(pod), now))
            } else {
                Next::Wait(update.grace - drained)
            }
        }
        _ => Next::Write(patch_spec(pod, phase, update, !is_marked(pod), now)),
    }
}

/// Puts the pod back into service: its update is exact, or is not wanted any more before anything changed. It goes to
/// the lifecycle state `to`, or stays in its own.
pub fn finish(
    pod: &Pod,
    settled: Option<&State>,
    verdict: Option<&Verdict>,
    to: Option<&str>,
    now: Timestamp,
) -> Action {
    let mut patch = PodPatch::default();
    if let Some(state) = to {
        lifecycle::set(&mut patch, state, now);
    }
    if let (
        Some(state),
        Some(Verdict::Exact {
            verified_by,
            moved_tags,
        }),
    ) = (settled, verdict)
    {
        let (verified_by, moved_tags) = ((*verified_by).into(), moved_tags.clone());
        // What is proven is of no more use.
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

/// Is an update in place not proven yet that restarts containers?
pub fn awaits_proof(pod: &Pod) -> bool {
    is_marked(pod)
        && State::of(pod).is_some_and(|state| !state.is_settled() && state.restarts_containers())
}

/// Whether the pod lacks resources that its update is to give it, and no kubelet is about to give them. The pod then counts as updated
/// nowhere, because the revision label comes one write before the resources.
pub fn lacks_resources(pod: &Pod) -> bool {
    let is_to_resize = |state: &State| state.update_resources && !state.is_settled();
    let state = if is_under_way(pod) {
        State::of(pod).filter(is_to_resize)
    } else {
        None
    };
    state.is_some_and(|state| resize::is_out_of_reach(pod, &state.resources))
}

/// `mark` sets the lifecycle state as well: the update goes on later.
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

/// The one patch with images, revision, template metadata and the record, and then the resize. `mark` sets the lifecycle
/// state as well, where the pod does not have it yet.
fn patch_spec(
    pod: &Pod,
    phase: &Phase,
    update: &Update<'_>,
    mark: bool,
    now: Timestamp,
) -> Vec<Action> {
    // An update that restarted nothing leaves no image to prove.
    let settled = match phase {
        Phase::Idle | Phase::Draining => true,
        Phase::Patched(state, verdict) => {
            !state.restarts_containers() || matches!(verdict, Verdict::Exact { .. })
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
    // Without another image the kubelet begins no other sync.
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
    // Without a gate it was not taken out of service first.
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

/// The write of what a pod's spec lacks of its resources.
pub fn resize(pod: &Pod, resources: Resizes) -> Action {
    Action::ResizePod {
        target: target(pod),
        resources,
    }
}

/// The record of the update before, as long as it is not proven.
fn unproven(phase: &Phase) -> Option<&State> {
    match phase {
        Phase::Patched(_, Verdict::Exact { .. }) | Phase::Idle | Phase::Draining => None,
        Phase::Patched(state, _) => Some(state),
    }
}

/// Containers to prove: those whose image changes now, and those of an unsettled update before, which go on restarting.
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
