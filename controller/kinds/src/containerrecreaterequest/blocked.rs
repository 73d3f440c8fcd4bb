//! Causes that block a request and do not pass by themselves.

use berth_api::commands;
use berth_api::names::condition::BLOCKED;
use berth_api::v1beta1::ContainerRecreateRequest;
use berth_workload::objects::pod::gates::KRUISE_POD_READY;
use berth_workload::objects::pod::{ContainerStatus, ContainerWaiting, Pod};
use berth_workload::update::recreate::{Next, grace, is_running, strategy};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::decision::{Decision, decision};
use super::silence::awaited;
use super::{Snapshot, pod};

/// How long a cause that may pass by itself must last before the status reports it.
const LASTING: SignedDuration = SignedDuration::from_secs(60);
/// The reason of [`not_started`].
const NOT_STARTED: &str = "NotStarted";

/// The cause that blocks a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Blocked {
    /// The reason, in one word.
    pub(super) reason: &'static str,
    /// Names the pod and the container, why, and the remedy.
    pub(super) message: String,
}

/// The cause, if there is one.
pub(super) fn blocked(snapshot: &Snapshot, now: Timestamp) -> Option<Blocked> {
    let pod = match decision(snapshot, now) {
        Decision::Restart(pod) => pod,
        Decision::Queued(other) => return behind(snapshot, &other),
        Decision::Held(why) => {
            return Some(Blocked {
                reason: "NoBudget",
                message: why.to_owned(),
            });
        }
        _ => return None,
    };
    let place = place(snapshot, pod);
    let cause = |reason, message| Some(Blocked { reason, message });
    if lacks_gate(&snapshot.request, pod) {
        let message = format!(
            "{place} has no readiness gate {KRUISE_POD_READY}, so unreadyGracePeriodSeconds cannot take it out of service; create a \
             request without that field, or give new pods the gate by the feature gate KruisePodReadinessGate"
        );
        return cause("NoReadinessGate", message);
    }
    if let Some(word) =
        awaited(snapshot, pod).filter(|word| !word.time_until_reported(now).is_positive())
    {
        let message = format!(
            "{place}: the node's daemon is silent about container {}; see whether the node and the daemon on it are up, for the request \
             soon ends without its word",
            word.container
        );
        return cause("NotAnswered", message);
    }
    match snapshot.course(pod).next() {
        Next::Restart(name) => not_back(snapshot, pod, &name, now),
        _ => None,
    }
}

/// The cause why the next container is not there, or does not serve, after the previous one was
/// stopped.
fn not_back(snapshot: &Snapshot, pod: &Pod, name: &str, now: Timestamp) -> Option<Blocked> {
    let place = place(snapshot, pod);
    let status = pod.container_status(name)?;
    if let Some(waiting) = status
        .state
        .waiting
        .as_deref()
        .filter(|waiting| !waiting.reason.is_empty())
    {
        return not_started(pod, &place, status, waiting);
    }
    // A crash-looping container reports a reason only while it waits.
    if let Some(reported) = blocked_condition(&snapshot.request)
        .filter(|reported| reported.reason == NOT_STARTED && !status.ready)
    {
        return Some(Blocked {
            reason: NOT_STARTED,
            message: reported.message.clone(),
        });
    }
    if unreported(snapshot, pod, name).is_some_and(|due| due <= now) {
        let message = format!(
            "{place}: container {name} was stopped, and the kubelet has reported no other since; see whether the node is up"
        );
        return Some(Blocked {
            reason: "NotReported",
            message,
        });
    }
    not_ready(status, pod, now).then(|| {
        let message = format!(
            "{place}: container {name} was started again and is not ready; see to its startup and readiness probes"
        );
        Blocked { reason: "NotReady", message }
    })
}

fn place(snapshot: &Snapshot, pod: &Pod) -> String {
    let (name, pod, node) = (snapshot.name(), &pod.metadata.name, &pod.spec.node_name);
    format!("ContainerRecreateRequest {name}: pod {pod} on node {node}")
}

fn blocked_condition(request: &ContainerRecreateRequest) -> Option<&Condition> {
    request
        .status
        .as_ref()?
        .conditions
        .iter()
        .find(|condition| condition.type_ == BLOCKED)
}

/// Blocked because the request that comes first is blocked: the status of this request says so,
/// too.
fn behind(snapshot: &Snapshot, other: &str) -> Option<Blocked> {
    let pod = pod(snapshot)?;
    let first = snapshot
        .of_pod
        .iter()
        .find(|request| request.metadata.name.as_deref() == Some(other))?;
    let reason = &blocked_condition(first)?.reason;
    let message = format!(
        "{}: ContainerRecreateRequest {other} comes first, and does not get on ({reason}); see its condition Blocked, or delete it",
        place(snapshot, pod)
    );
    Some(Blocked {
        reason: "BehindAnother",
        message,
    })
}

/// The cause why the kubelet waits before it starts the container again, or cannot start it.
fn not_started(
    pod: &Pod,
    place: &str,
    status: &ContainerStatus,
    waiting: &ContainerWaiting,
) -> Option<Blocked> {
    let (name, reason) = (&status.name, &*waiting.reason);
    let ended = status
        .last_state
        .terminated
        .as_ref()
        .map(|ended| format!(" with exit code {}", ended.exit_code));
    let what = match reason {
        "ContainerCreating" | "PodInitializing" => return None,
        "CrashLoopBackOff" => format!(
            "ends again and again{} (CrashLoopBackOff); see its log by {}, the kubelet starts it again after its back-off",
            ended.unwrap_or_default(),
            commands::previous_log(&pod.metadata.namespace, &pod.metadata.name, name)
        ),
        _ if waiting.message.is_empty() => {
            format!("waits in {reason}; see to that, and the kubelet goes on")
        }
        _ => format!(
            "waits in {reason}; the node says: {}; see to that, and the kubelet goes on",
            waiting.message
        ),
    };
    let message =
        format!("{place}: container {name} has stopped and is not started again: it {what}");
    Some(Blocked {
        reason: NOT_STARTED,
        message,
    })
}

/// The time from which the status says that the kubelet has not reported the stop, because its node
/// is not ready. A stop may take the grace period.
fn unreported(snapshot: &Snapshot, pod: &Pod, container: &str) -> Option<Timestamp> {
    let stop = snapshot.course(pod).requested_stop(container)?;
    let is_the_old = |status: &&ContainerStatus| {
        is_running(status) && *status.container_id == *stop.container_id
    };
    pod.container_status(container).filter(is_the_old)?;
    stop.created_at
        .as_ref()?
        .0
        .checked_add(grace(stop, Some(pod)).saturating_add(LASTING))
        .ok()
}

/// The time until the status reports a cause that lasts.
pub(super) fn due(snapshot: &Snapshot, pod: &Pod, now: Timestamp) -> Option<SignedDuration> {
    let word = awaited(snapshot, pod)
        .map(|word| word.time_until_reported(now))
        .filter(SignedDuration::is_positive);
    [word, restart_due(snapshot, pod, now)]
        .into_iter()
        .flatten()
        .min()
}

fn restart_due(snapshot: &Snapshot, pod: &Pod, now: Timestamp) -> Option<SignedDuration> {
    let Next::Restart(name) = snapshot.course(pod).next() else {
        return None;
    };
    if let Some(due) = unreported(snapshot, pod, &name) {
        return Some(due.duration_since(now)).filter(SignedDuration::is_positive);
    }
    let status = pod
        .container_status(&name)
        .filter(|status| is_running(status) && !status.ready)?;
    let since = since(pod, status)?;
    Some(LASTING.saturating_sub(now.duration_since(since))).filter(SignedDuration::is_positive)
}

fn not_ready(status: &ContainerStatus, pod: &Pod, now: Timestamp) -> bool {
    is_running(status)
        && !status.ready
        && since(pod, status).is_some_and(|since| now.duration_since(since) >= LASTING)
}

/// The time since when not all of the pod's containers are ready.
fn since(pod: &Pod, status: &ContainerStatus) -> Option<Timestamp> {
    let condition = pod.condition("ContainersReady").filter(|_| !status.ready)?;
    (&*condition.status == "False").then_some(condition.last_transition_time)?
}

/// Whether the pod must be out of service before the first stop, and cannot be.
pub(super) fn lacks_gate(request: &ContainerRecreateRequest, pod: &Pod) -> bool {
    strategy(request).unready_grace_period_seconds.is_some()
        && !berth_workload::objects::pod::gates::has_gate(pod, KRUISE_POD_READY)
}
