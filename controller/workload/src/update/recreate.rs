//! Containers that ContainerRecreateRequests restart in place: the progress of a request, and the
//! container to stop next.
//!
//! A request's own controller decides on it, and the stops in its node's NodeImage follow from the
//! same functions.

mod course;
pub mod stop;

#[cfg(test)]
mod tests;

use berth_api::names::condition::{PRE_RECREATE_GRACE, SIDECAR_TERMINATED};
use berth_api::names::label::{NODE_TYPE, RECREATE_POD_UID, VIRTUAL_KUBELET};
use berth_api::v1beta1::ContainerRecreateRequest as Request;
use berth_api::v1beta1::containerrecreaterequest::{
    ContainerRecreateState, MAX_GRACE_SECONDS, RecreatePhase, RecreateStrategy,
};
use berth_api::v1beta1::nodeimage::{StopContainer, StoppedContainer};
use jiff::{SignedDuration, Timestamp};

use crate::objects::node::image::NodeImage;
use crate::objects::pod::{ContainerStatus, Pod};

pub use course::{Course, Next};

/// Whether the request is over or being deleted.
pub fn is_over(request: &Request) -> bool {
    let is_completed = request
        .status
        .as_ref()
        .is_some_and(|status| status.completion_time.is_some());
    is_completed || request.metadata.deletion_timestamp.is_some()
}

/// The uid of its pod; `None` until the request was filled in.
pub fn pod_uid(request: &Request) -> Option<&str> {
    label(request, RECREATE_POD_UID)
}

/// Whether another service restarts the containers, because their node has neither a kubelet nor a
/// daemon.
pub fn is_virtual(request: &Request) -> bool {
    label(request, NODE_TYPE) == Some(VIRTUAL_KUBELET)
}

fn label<'a>(request: &'a Request, key: &str) -> Option<&'a str> {
    request
        .metadata
        .labels
        .as_ref()?
        .get(key)
        .map(String::as_str)
}

/// How the containers are restarted.
pub fn strategy(request: &Request) -> RecreateStrategy {
    request.spec.strategy.clone().unwrap_or_default()
}

/// The request's phase.
pub fn phase(request: &Request) -> RecreatePhase {
    request
        .status
        .as_ref()
        .map(|status| status.phase)
        .unwrap_or_default()
}

/// The active request of a pod; the others wait. A request that has begun stays active, then the
/// oldest is next. Two requests of the same second may both have begun, each before the other was
/// seen. Then the active one is the one with a stop in the NodeImage, which has only one stop for
/// each container.
pub fn current<'a>(
    requests: impl Iterator<Item = &'a Request>,
    pod: &Pod,
    image: Option<&NodeImage>,
) -> Option<&'a Request> {
    let is_of_pod =
        |request: &&Request| pod_uid(request) == Some(&*pod.metadata.uid) && !is_over(request);
    let is_requested = |request: &Request| {
        let mut stops = image.iter().flat_map(|image| &image.spec.stop_containers);
        stops.any(|stop| request.metadata.uid.as_deref() == Some(&*stop.request))
    };
    requests
        .filter(is_of_pod)
        .min_by_key(|request: &&'a Request| {
            let metadata = &request.metadata;
            let (created, name) = (
                metadata.creation_timestamp.as_ref().map(|time| time.0),
                metadata.name.as_deref(),
            );
            (
                !is_requested(request),
                phase(request) != RecreatePhase::Recreating,
                created,
                name,
            )
        })
}

/// Whether the pod has ended for the request. SidecarTerminator ends the sidecars of pods that have
/// ended already.
pub fn has_ended(pod: &Pod) -> bool {
    pod.has_finished() && pod.condition(SIDECAR_TERMINATED).is_none()
}

/// The age of the request.
pub fn age(request: &Request, now: Timestamp) -> SignedDuration {
    request
        .metadata
        .creation_timestamp
        .as_ref()
        .map_or(SignedDuration::ZERO, |created| {
            now.duration_since(created.0)
        })
}

/// The time until the request's deadline; `None` if it has none. Nothing new begins afterwards,
/// even if the request's status does not say yet that it is over.
pub fn time_left(request: &Request, now: Timestamp) -> Option<SignedDuration> {
    Some(
        SignedDuration::from_secs(request.spec.active_deadline_seconds?)
            .saturating_sub(age(request, now)),
    )
}

/// How long the first stop still waits for the unready grace period. `None` until this period has
/// begun.
pub fn grace_left(request: &Request, now: Timestamp) -> Option<SignedDuration> {
    let Some(seconds) = strategy(request).unready_grace_period_seconds else {
        return Some(SignedDuration::ZERO);
    };
    let seconds = seconds.min(MAX_GRACE_SECONDS);
    let conditions = request.status.iter().flat_map(|status| &status.conditions);
    let since = conditions
        .into_iter()
        .find(|condition| condition.type_ == PRE_RECREATE_GRACE)?
        .last_transition_time
        .0;
    // The API cuts off fractions of a second.
    Some(
        SignedDuration::from_secs(seconds.saturating_add(1))
            .saturating_sub(now.duration_since(since)),
    )
}

/// The grace period of the container: of its stop, otherwise of its pod.
pub fn grace(stop: &StopContainer, pod: Option<&Pod>) -> SignedDuration {
    let of_pod = pod.map_or(0, |pod| pod.spec.termination_grace_period_seconds);
    SignedDuration::from_secs(
        stop.grace_period_seconds
            .unwrap_or(of_pod)
            .clamp(0, MAX_GRACE_SECONDS),
    )
}

/// The daemon's answer to a stop.
pub fn answer<'a>(image: &'a NodeImage, stop: &StopContainer) -> Option<&'a StoppedContainer> {
    image
        .status
        .as_ref()?
        .stopped_containers
        .iter()
        .find(|answer| stop.is_answered_by(answer))
}

/// Whether the state of the container is final.
pub fn is_final(state: &ContainerRecreateState) -> bool {
    matches!(
        state.phase,
        RecreatePhase::Succeeded | RecreatePhase::Failed
    )
}

/// Whether the container runs, by the kubelet's status.
pub fn is_running(status: &ContainerStatus) -> bool {
    !status.container_id.is_empty()
        && status.state.waiting.is_none()
        && status.state.terminated.is_none()
}
