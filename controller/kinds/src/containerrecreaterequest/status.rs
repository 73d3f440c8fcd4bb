//! The status of a request.

use berth_api::names::condition::{
    BLOCKED, DEADLINE_EXCEEDED, MIN_STARTED_PENDING, PRE_RECREATE_GRACE,
};
use berth_api::names::reason;
use berth_api::v1beta1::containerrecreaterequest::{
    ContainerRecreateRequestStatus, ContainerRecreateState, ContainerStatusSnapshot, RecreatePhase,
};
use berth_workload::objects::condition::{condition, put, set, whole_seconds};
use berth_workload::objects::pod::Pod;
use berth_workload::plan::{Outcome, Plan};
use berth_workload::update::recreate::{grace_left, is_final, is_running, strategy};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::blocked::lacks_gate;
use super::blocked::{Blocked, blocked};
use super::decide::may_begin;
use super::decision::{Decision, decision};
use super::silence::min_started_pending;
use super::{Snapshot, pod};

/// The status to write. It equals the request's present status if nothing changed; `None` if there
/// must be none.
pub fn status(
    snapshot: &Snapshot,
    plan: &Plan,
    outcome: &Outcome,
    now: Timestamp,
) -> Option<ContainerRecreateRequestStatus> {
    let request = &*snapshot.request;
    let mut next = request.status.clone().unwrap_or_default();
    let mut pending = None;
    match decision(snapshot, now) {
        Decision::Over => {
            // The status still reports a stop that was under way.
            if let Some(pod) =
                pod(snapshot).filter(|_| request.metadata.deletion_timestamp.is_none())
            {
                note_late_stops(&mut next, &snapshot.course(pod).states());
            }
            return request.status.is_some().then_some(next);
        }
        Decision::Fill(_) => return request.status.clone(),
        Decision::Queued(other) if other.is_empty() => return request.status.clone(),
        Decision::Queued(_) | Decision::Held(_) => next.phase = RecreatePhase::Pending,
        Decision::External(pod) => {
            // The other service reads the snapshot and the condition.
            see(snapshot, pod, &mut next);
            if grace_begins(snapshot, pod, plan, outcome, now) {
                set(&mut next.conditions, grace(now));
            }
            return Some(next);
        }
        Decision::Restart(pod) => {
            next.phase = RecreatePhase::Recreating;
            observe(snapshot, pod, &mut next);
            pending = min_started_pending(snapshot, pod, now);
            if grace_begins(snapshot, pod, plan, outcome, now) {
                set(&mut next.conditions, grace(now));
            }
        }
        Decision::Complete { message, deadline } => {
            if let Some(pod) = pod(snapshot).filter(|_| snapshot.filled.is_none()) {
                observe(snapshot, pod, &mut next);
            }
            next.phase = RecreatePhase::Completed;
            next.completion_time = Some(Time(whole_seconds(now)));
            next.message = message;
            if deadline {
                set(
                    &mut next.conditions,
                    undone(snapshot, &next.container_recreate_states, now),
                );
            }
        }
    }
    note_pending(&mut next.conditions, pending);
    let cause = refused(snapshot, outcome).or_else(|| blocked(snapshot, now));
    let cause = cause.map(|cause| condition(BLOCKED, true, cause.reason, cause.message, now));
    put(&mut next.conditions, BLOCKED, cause);
    Some(unless_seen_alone(next, request.status.as_ref()))
}

/// Keeps the old snapshot of containers if nothing else has changed: a snapshot alone needs no
/// write.
fn unless_seen_alone(
    next: ContainerRecreateRequestStatus,
    old: Option<&ContainerRecreateRequestStatus>,
) -> ContainerRecreateRequestStatus {
    let Some(old) = old else { return next };
    let seen = old.container_status_snapshot.clone();
    let as_seen = ContainerRecreateRequestStatus {
        container_status_snapshot: seen,
        ..next.clone()
    };
    if as_seen == *old { as_seen } else { next }
}

/// Whether the only news is that containers have stopped, and their successors, which usually run
/// soon, will show as much. The status of a completed request does not show successors, so a late
/// stop is the last change of that status.
pub fn tells_stops_alone(
    old: &ContainerRecreateRequestStatus,
    new: &ContainerRecreateRequestStatus,
) -> bool {
    let without_states = |status: &ContainerRecreateRequestStatus| ContainerRecreateRequestStatus {
        container_recreate_states: Vec::new(),
        container_status_snapshot: Vec::new(),
        ..status.clone()
    };
    let ends = |status: &ContainerRecreateRequestStatus| {
        let ended = status
            .container_recreate_states
            .iter()
            .filter(|state| is_final(state));
        ended.cloned().collect::<Vec<_>>()
    };
    let is_completed = old.completion_time.is_some();
    !is_completed
        && old != new
        && without_states(old) == without_states(new)
        && ends(old) == ends(new)
}

/// The cause if a write was refused because of a policy or a missing permission, which does not
/// pass by itself.
fn refused(snapshot: &Snapshot, outcome: &Outcome) -> Option<Blocked> {
    let failure = outcome.failures.iter().find(|failure| failure.permanent)?;
    let message = format!(
        "ContainerRecreateRequest {}: {} {} was refused: {}",
        snapshot.name(),
        failure.write,
        failure.object,
        failure.message
    );
    Some(Blocked {
        reason: "Refused",
        message,
    })
}

fn observe(snapshot: &Snapshot, pod: &Pod, next: &mut ContainerRecreateRequestStatus) {
    next.container_recreate_states = snapshot.course(pod).states();
    see(snapshot, pod, next);
}

fn see(snapshot: &Snapshot, pod: &Pod, next: &mut ContainerRecreateRequestStatus) {
    let seen = snapshots(snapshot, pod);
    // Between two containers the snapshot of the last one stays.
    if !seen.is_empty() {
        next.container_status_snapshot = seen;
    }
}

/// The containers that were started since the request was created, found by their ids, because no
/// clock of a node may be compared with another's.
fn snapshots(snapshot: &Snapshot, pod: &Pod) -> Vec<ContainerStatusSnapshot> {
    let of = |container: &berth_api::v1beta1::containerrecreaterequest::RecreatedContainer| {
        let now = pod
            .container_status(&container.name)
            .filter(|now| is_running(now))?;
        let then = container.status_context.as_ref()?;
        (*now.container_id != *then.container_id).then(|| ContainerStatusSnapshot {
            name: container.name.clone(),
            ready: now.ready,
            restart_count: now.restart_count,
            container_id: now.container_id.to_string(),
        })
    };
    snapshot
        .request
        .spec
        .containers
        .iter()
        .filter_map(of)
        .collect()
}

/// Records a stop that ended after its request: only that the container was stopped.
fn note_late_stops(next: &mut ContainerRecreateRequestStatus, states: &[ContainerRecreateState]) {
    for state in &mut next.container_recreate_states {
        let is_killed = states
            .iter()
            .any(|now| now.name == state.name && now.is_killed);
        if is_killed && !state.is_killed {
            state.is_killed = true;
            if state.phase == RecreatePhase::Pending {
                state.phase = RecreatePhase::Recreating;
            }
        }
    }
}

/// Whether the pod is out of service now, and was not before.
fn grace_begins(
    snapshot: &Snapshot,
    pod: &Pod,
    plan: &Plan,
    outcome: &Outcome,
    now: Timestamp,
) -> bool {
    let request = &*snapshot.request;
    let has_grace_ended = strategy(request).unready_grace_period_seconds.is_some()
        && grace_left(request, now).is_none();
    // The writes of this plan are done, or were done before.
    let is_done = outcome.failures.is_empty() && plan.refusal.is_none();
    has_grace_ended && may_begin(request) && is_done && !lacks_gate(request, pod)
}

fn grace(now: Timestamp) -> Condition {
    condition(
        PRE_RECREATE_GRACE,
        true,
        reason::PRE_RECREATE_GRACE,
        reason::PRE_RECREATE_GRACE_MESSAGE.to_owned(),
        now,
    )
}

fn undone(snapshot: &Snapshot, states: &[ContainerRecreateState], now: Timestamp) -> Condition {
    let undone = states.iter().filter(|state| !is_final(state));
    let mut names: Vec<_> = undone.map(|state| state.name.as_str()).collect();
    if states.is_empty() {
        names = snapshot
            .request
            .spec
            .containers
            .iter()
            .map(|container| container.name.as_str())
            .collect();
    }
    let seconds = snapshot
        .request
        .spec
        .active_deadline_seconds
        .unwrap_or_default();
    let message = format!(
        "ContainerRecreateRequest {}: activeDeadlineSeconds, {seconds}, was over before {} of pod {} had been restarted; create \
         another request for what is left",
        snapshot.name(),
        names.join(", "),
        snapshot.request.spec.pod_name,
    );
    condition(DEADLINE_EXCEEDED, true, "ContainersLeft", message, now)
}

/// Its time is that of its container: a condition never stays for another container.
fn note_pending(conditions: &mut Vec<Condition>, pending: Option<Condition>) {
    let Some(new) = pending else {
        return conditions.retain(|condition| condition.type_ != MIN_STARTED_PENDING);
    };
    match conditions
        .iter_mut()
        .find(|condition| condition.type_ == MIN_STARTED_PENDING)
    {
        Some(old) => *old = new,
        None => conditions.push(new),
    }
}
