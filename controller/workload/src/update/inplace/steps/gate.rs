//! The readiness gate of a pod whose update in place is not proven yet.

use jiff::Timestamp;

use super::{closed, is_in_service, is_marked, target, target_as_seen};
use crate::objects::pod::{Pod, gates};
use crate::plan::{Action, PodPatch};
use crate::update::inplace::state::{self, Before, State};
use crate::update::inplace::{batches, exact};

/// May the gate be opened before the new containers are proven? Where images alone change, it may as soon as the kubelet says
/// that it has seen them. It says so at the start of the sync that ends the old containers, while the gate is closed, and
/// judges `Ready` anew at the start of the next sync, by the containers that run then. A gate that opens later than that
/// waits for another look of the kubelet at the runtime, a second or two. Where the record knows each container of before, so
/// that [`ready_too_early`] would notice one that stays. What is not in the pod's generation (variables,
/// which a daemon restarts containers for), or what the kubelet may put off (resources), or what comes later (the next
/// batch) waits for the proof.
pub fn opens_early(pod: &Pod, state: &State) -> bool {
    is_marked(pod)
        && closed(pod).is_some()
        && is_seen(pod)
        && state.changes_images_alone()
        && state.last_container_statuses.values().all(Before::is_known)
        && !batches::has_next(state)
        && !state.gate_waits
}

/// The kubelet has seen the pod's present spec.
fn is_seen(pod: &Pod) -> bool {
    pod.status.observed_generation >= pod.metadata.generation
}

/// Opens the gate; the update stays under way until it is proven.
pub fn open_early(pod: &Pod, now: Timestamp) -> Action {
    let conditions = vec![gates::condition(gates::IN_PLACE_UPDATE_READY, true, now)];
    Action::PatchPodStatus {
        target: target(pod),
        conditions,
        patch: PodPatch::default(),
    }
}

/// A container that the pod's status shows as it was before the update, while the pod is Ready in an open gate: a kubelet that
/// ended between seeing the new image and ending the old container, or could not end it.
pub fn ready_too_early<'a>(pod: &Pod, state: &'a State) -> Option<&'a str> {
    let opened = is_in_service(pod) && is_seen(pod) && pod.is_true("Ready");
    opened
        .then(|| exact::unchanged_container(pod, state))
        .flatten()
}

/// Is the pod Ready behind its closed gate? Every ten seconds a kubelet repeats what it said last, where the server has something
/// else by then: in the moment before it looks at the pod again, that is the Ready of before.
pub fn is_ready_of_before(pod: &Pod) -> bool {
    closed(pod).is_some() && !is_seen(pod) && pod.is_true("Ready")
}

/// Takes the Ready of before back, unless the kubelet has said something new meanwhile.
pub fn not_ready_again(pod: &Pod, now: Timestamp) -> Action {
    let conditions = vec![gates::not_ready(pod, gates::IN_PLACE_UPDATE_READY, now)];
    Action::PatchPodStatus {
        target: target_as_seen(pod),
        conditions,
        patch: PodPatch::default(),
    }
}

/// Closes the gate again until the update is proven.
pub fn close_again(pod: &Pod, state: &State, now: Timestamp) -> Action {
    let state = State {
        gate_waits: true,
        ..state.clone()
    };
    let mut patch = PodPatch::default();
    patch
        .annotations
        .insert(state::ANNOTATION.into(), Some(state.to_annotation()));
    let gate = gates::IN_PLACE_UPDATE_READY;
    let conditions = vec![
        gates::condition(gate, false, now),
        gates::not_ready(pod, gate, now),
    ];
    Action::PatchPodStatus {
        target: target_as_seen(pod),
        conditions,
        patch,
    }
}
