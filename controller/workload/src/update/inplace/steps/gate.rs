//! The readiness gate of a pod whose in-place update is not proven yet.

use jiff::Timestamp;

use super::{closed, is_in_service, is_marked, target, target_as_seen};
use crate::objects::pod::{Pod, gates};
use crate::plan::{Action, PodPatch};
use crate::update::inplace::state::{self, Before, State};
use crate::update::inplace::{batches, exact};

/// Whether the gate may open before the new containers are proven. It may if only images change, as
/// soon as the kubelet has seen them. The kubelet reports this at the start of the sync that ends
/// the old containers, while the gate is closed. At the start of the next sync it computes `Ready`
/// again, by the containers that run then. A gate that opens later than that waits for another look
/// of the kubelet at the runtime, a second or two. The record must know each container of before,
/// so that [`ready_too_early`] would notice a container that stays. Other changes wait for the
/// proof: variables, for which a daemon restarts containers, are not in the pod's generation; a
/// kubelet may defer resources; and the next batch comes later.
pub fn opens_early(pod: &Pod, state: &State) -> bool {
    is_marked(pod)
        && closed(pod).is_some()
        && is_seen(pod)
        && state.changes_images_alone()
        && state.last_container_statuses.values().all(Before::is_known)
        && !batches::has_next(state)
        && !state.gate_waits
}

/// Whether the kubelet has seen the pod's present spec.
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

/// A container in the pod's status that is the one from before the update, although the pod is
/// Ready with an open gate. Then the kubelet ended between seeing the new image and ending the old
/// container, or could not end it.
pub fn ready_too_early<'a>(pod: &Pod, state: &'a State) -> Option<&'a str> {
    let opened = is_in_service(pod) && is_seen(pod) && pod.is_true("Ready");
    opened
        .then(|| exact::unchanged_container(pod, state))
        .flatten()
}

/// Whether the pod is Ready with a closed gate. Every ten seconds a kubelet repeats its last status
/// if the server has another one. Until it syncs the pod again, this is the Ready condition from
/// before the update.
pub fn is_ready_of_before(pod: &Pod) -> bool {
    closed(pod).is_some() && !is_seen(pod) && pod.is_true("Ready")
}

/// Sets Ready to False again, unless the kubelet has written a new status meanwhile.
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
