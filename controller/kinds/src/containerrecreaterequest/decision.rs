//! The decision about a request: what happens to it now.

use std::sync::Arc;

use berth_api::v1beta1::ContainerRecreateRequest;
use berth_api::v1beta1::containerrecreaterequest::{
    MAX_CONTAINER_ID, RecreatePhase, RecreatedContainer,
};
use berth_workload::feature_gates::Gate;
use berth_workload::objects::pod::Pod;
use berth_workload::update::recreate::{
    Course, has_ended, is_over, is_virtual, phase, pod_uid, strategy, time_left,
};
use jiff::Timestamp;
use serde_json::Value;

use super::silence::silence_left;
use super::{Snapshot, pod};

/// Most open requests of a pod: each change of the pod triggers a decision for all of them.
const MAX_OPEN: usize = 64;

/// The decision about a request.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Decision<'a> {
    /// The request is completed or being deleted: the controller releases the pod.
    Over,
    /// The controller writes the values that the request copies from its pod.
    Fill(&'a Value),
    /// The request is completed now.
    Complete {
        /// The cause, unless all containers were restarted.
        message: String,
        /// Whether the deadline has passed.
        deadline: bool,
    },
    /// Another request of the pod comes first.
    Queued(String),
    /// A budget of the pod does not let the request begin.
    Held(&'a str),
    /// Another service does the work. The controller takes the pod out of service and reports its
    /// containers.
    External(&'a Pod),
    /// The controller restarts the containers.
    Restart(&'a Pod),
}

/// Whether the request lacks the values of its pod. A container id that is longer than any
/// runtime's counts as missing, because no node could answer for it.
pub fn needs_filling(request: &ContainerRecreateRequest) -> bool {
    let is_filled = |container: &RecreatedContainer| {
        container
            .status_context
            .as_ref()
            .is_some_and(|then| then.container_id.len() <= MAX_CONTAINER_ID)
    };
    let lacks = pod_uid(request).is_none() || !request.spec.containers.iter().all(is_filled);
    lacks && !is_over(request)
}

/// Whether so many other requests of the pod come before this one that it is refused instead of
/// waiting.
fn is_one_too_many(snapshot: &Snapshot) -> bool {
    let place = |request: &ContainerRecreateRequest| {
        (
            request
                .metadata
                .creation_timestamp
                .as_ref()
                .map(|created| created.0),
            request.metadata.name.clone(),
        )
    };
    if snapshot.of_pod.len() <= MAX_OPEN || phase(&snapshot.request) != RecreatePhase::Pending {
        return false;
    }
    let own = place(&snapshot.request);
    let is_before = |other: &&Arc<ContainerRecreateRequest>| !is_over(other) && place(other) < own;
    snapshot.of_pod.iter().filter(is_before).count() >= MAX_OPEN
}

/// Whether a container is still to be stopped.
fn has_pending(course: &Course<'_>) -> bool {
    let states = course.states();
    states
        .iter()
        .any(|state| state.phase == RecreatePhase::Pending)
}

/// Decides about the request.
pub(super) fn decision(snapshot: &Snapshot, now: Timestamp) -> Decision<'_> {
    let request = &*snapshot.request;
    let complete = |message: &str| Decision::Complete {
        message: message.to_owned(),
        deadline: false,
    };
    if is_over(request) {
        return Decision::Over;
    }
    if needs_filling(request) {
        return match &snapshot.filled {
            Some(Ok(patch)) => Decision::Fill(patch),
            Some(Err(refusal)) => complete(refusal),
            None => Decision::Queued(String::new()),
        };
    }
    if !snapshot.gates.has(Gate::KruiseDaemon) && !is_virtual(request) {
        return complete(
            "feature gate KruiseDaemon is off, so no daemon stops containers: turn it on and create another request",
        );
    }
    let Some(pod) = pod(snapshot) else {
        return complete("pod has gone");
    };
    let course = snapshot.course(pod);
    if has_ended(pod) || pod.has_finished() && !has_pending(&course) {
        return complete("pod has ended");
    }
    let current = snapshot
        .current(pod)
        .filter(|current| current.metadata.uid != request.metadata.uid);
    if current.is_none()
        && phase(request) == RecreatePhase::Recreating
        && !is_virtual(request)
        && course.is_done()
    {
        return complete("");
    }
    if time_left(request, now).is_some_and(|left| !left.is_positive()) {
        return Decision::Complete {
            message: "recreating has exceeded the activeDeadlineSeconds".to_owned(),
            deadline: true,
        };
    }
    if current.is_some() && is_one_too_many(snapshot) {
        return complete(&format!(
            "the pod has {MAX_OPEN} requests before this one that are not over: wait for them, or delete some, and create another"
        ));
    }
    if let Some(current) = current {
        return Decision::Queued(current.metadata.name.clone().unwrap_or_default());
    }
    if silence_left(snapshot, now).is_some_and(|left| !left.is_positive()) {
        return complete("daemon has not responded for a long time");
    }
    match &snapshot.held {
        _ if is_virtual(request) => Decision::External(pod),
        Some(held) if phase(request) == RecreatePhase::Pending => Decision::Held(held),
        _ => Decision::Restart(pod),
    }
}

/// The containers that are restarted when the request begins now. None if it has begun or does not
/// begin. None, too, if the pod is taken out of service first, because then that step needs the
/// budgets' consent.
pub fn restarts(snapshot: &Snapshot, now: Timestamp) -> Vec<&str> {
    let request = &*snapshot.request;
    let begins = phase(request) == RecreatePhase::Pending
        && strategy(request).unready_grace_period_seconds.is_none();
    if !begins || !matches!(decision(snapshot, now), Decision::Restart(_)) {
        return Vec::new();
    }
    request
        .spec
        .containers
        .iter()
        .map(|container| container.name.as_str())
        .collect()
}
