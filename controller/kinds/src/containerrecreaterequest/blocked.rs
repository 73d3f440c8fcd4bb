//! What holds a request back and does not pass by itself.

use berth_workload::pod::gates::KRUISE_POD_READY;
use berth_workload::pod::{ContainerStatus, Pod};
use berth_workload::recreate::{Next, is_running};
use jiff::{SignedDuration, Timestamp};

use super::Snapshot;
use super::decide::lacks_gate;
use super::verdict::{Verdict, verdict};

/// How long something lasts that may pass by itself before it is told.
const LASTING: SignedDuration = SignedDuration::from_secs(60);

/// What holds it back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Blocked {
    /// In one word.
    pub(super) reason: &'static str,
    /// Names the pod and the container, why, and the remedy.
    pub(super) message: String,
}

/// The cause, if there is one.
pub(super) fn blocked(snapshot: &Snapshot, now: Timestamp) -> Option<Blocked> {
    let Verdict::Work(pod) = verdict(snapshot, now) else { return None };
    let place = format!(
        "ContainerRecreateRequest {}: pod {} on node {}",
        snapshot.name(),
        pod.metadata.name,
        pod.spec.node_name
    );
    let course = snapshot.course(pod);
    if lacks_gate(&snapshot.request, pod) {
        let message = format!(
            "{place} has no readiness gate {KRUISE_POD_READY}, so unreadyGracePeriodSeconds cannot take it out of service; create a \
             request without that field, or give new pods the gate by the feature gate KruisePodReadinessGate"
        );
        return Some(Blocked { reason: "NoReadinessGate", message });
    }
    let Next::Restart(name) = course.next() else { return None };
    let status = pod.container_status(&name)?;
    if let Some(waiting) = status.state.waiting.as_deref().filter(|waiting| !waiting.reason.is_empty()) {
        if matches!(&*waiting.reason, "ContainerCreating" | "PodInitializing") {
            return None;
        }
        let message = format!(
            "{place}: container {name} has stopped and is not started again: it waits in {}; see to that, and the kubelet goes on",
            waiting.reason
        );
        return Some(Blocked { reason: "NotStarted", message });
    }
    not_ready(status, pod, now).then(|| {
        let message = format!(
            "{place}: container {name} was started again and is not ready; see to its startup and readiness probes"
        );
        Blocked { reason: "NotReady", message }
    })
}

/// When a cause that lasts will be told.
pub(super) fn due(snapshot: &Snapshot, pod: &Pod, now: Timestamp) -> Option<SignedDuration> {
    let Next::Restart(name) = snapshot.course(pod).next() else { return None };
    let status = pod.container_status(&name).filter(|status| is_running(status) && !status.ready)?;
    let since = since(pod, status)?;
    Some(LASTING.saturating_sub(now.duration_since(since))).filter(SignedDuration::is_positive)
}

fn not_ready(status: &ContainerStatus, pod: &Pod, now: Timestamp) -> bool {
    is_running(status) && !status.ready && since(pod, status).is_some_and(|since| now.duration_since(since) >= LASTING)
}

/// Since when not all of the pod's containers are ready.
fn since(pod: &Pod, status: &ContainerStatus) -> Option<Timestamp> {
    let condition = pod.condition("ContainersReady").filter(|_| !status.ready)?;
    (&*condition.status == "False").then_some(condition.last_transition_time)?
}
