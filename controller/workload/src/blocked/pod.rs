//! Causes that hold one pod.

use berth_api::names::lifecycle_state::{
    PREPARING_DELETE, PREPARING_NORMAL, PREPARING_UPDATE, UPDATED,
};
use jiff::Timestamp;

use super::cause::{Cause, DETAIL, Grade, LASTING};
use super::container::{Fault, container, exit, fault, states};
use super::unscheduled;
use crate::objects::pod::lifecycle::{self, hook};
use crate::objects::pod::{Availability, Condition, ContainerStatus, Pod, availability, priority};
use crate::update::inplace::exact::UpdateDecision;
use crate::update::inplace::resize::{INFEASIBLE, refused};
use crate::update::inplace::steps::Phase;
use crate::update::podset::WorkloadView;

/// The pod's causes, including the ones that have not lasted long enough yet.
pub(super) fn causes(view: &WorkloadView<'_>, pod: &Pod, now: Timestamp) -> Vec<Cause> {
    if pod.metadata.deletion_timestamp.is_some() {
        return terminating(view, pod).into_iter().collect();
    }
    if !pod.is_active() {
        let is_held = lifecycle::state(pod) == PREPARING_DELETE;
        return hook(view, pod).filter(|_| is_held).into_iter().collect();
    }
    let mut causes: Vec<_> = resize(view, pod, now).into_iter().collect();
    match availability(pod, view.workload.min_ready_seconds, now) {
        Availability::NotReady => {}
        Availability::Held => {
            // A readiness gate may open before the update is proven.
            causes.extend(hook(view, pod).or_else(|| unproven(view, pod)));
            return causes;
        }
        Availability::Available | Availability::After(_) => {
            causes.extend(crashed(view, pod, now));
            return causes;
        }
    }
    if pod.spec.node_name.is_empty() {
        causes.push(unscheduled(view, pod));
        return causes;
    }
    if let Some(Fault {
        reason,
        what,
        remedy,
        only_if_reported,
    }) = fault(pod)
    {
        let message = sentence(view, pod, &what, &remedy);
        causes.push(Cause {
            grade: Grade::Failing,
            reason,
            message,
            from: now,
            only_if_reported,
        });
    }
    if causes.iter().all(|cause| cause.only_if_reported) {
        let other = hook(view, pod).or_else(|| unproven(view, pod));
        causes.push(other.unwrap_or_else(|| not_ready(view, pod)));
    }
    causes
}

/// Why a pod is not ready, as messages say it.
pub fn why_not_ready(pod: &Pod) -> String {
    if pod.spec.node_name.is_empty() {
        let why = pod
            .condition("PodScheduled")
            .map(|c| &*c.message)
            .filter(|why| !why.is_empty());
        return why.map_or_else(
            || "is not scheduled yet".to_owned(),
            |why| format!("is not scheduled yet: {why}"),
        );
    }
    if let Some(fault) = fault(pod).filter(|fault| !fault.only_if_reported) {
        return fault.what;
    }
    if &*pod.status.phase != "Running" {
        let waiting = states(pod)
            .find_map(|(status, _)| Some((&status.name, &status.state.waiting.as_ref()?.reason)));
        let why = waiting
            .map(|(name, reason)| format!(", container {name} is in {reason}"))
            .unwrap_or_default();
        return format!(
            "is {} on node {}{why}",
            pod.status.phase, pod.spec.node_name
        );
    }
    // Init containers that run to completion have ended by now.
    let lasting =
        states(pod).filter(|(status, init)| !init || pod.container(&status.name).is_some());
    let unready = lasting
        .map(|(status, _)| status)
        .filter(|c| !c.ready && !priority::is_held_back(pod, &c.name));
    let unready: Vec<_> = unready.collect();
    if let Some(what) = unready.iter().find_map(|status| not_running(status)) {
        return what;
    }
    if !unready.is_empty() {
        let names: Vec<_> = unready.iter().map(|c| &*c.name).collect();
        return format!(
            "its container {} runs and does not pass its startup or readiness probe",
            names.join(", ")
        );
    }
    if pod.is_called_away() {
        return format!(
            "its containers are ready and it is not, as when its node {} is not Ready",
            pod.spec.node_name
        );
    }
    let closed = pod
        .spec
        .readiness_gates
        .iter()
        .find(|gate| !pod.is_true(&gate.condition_type));
    closed.map_or_else(
        || "is not ready yet".to_owned(),
        |gate| format!("its readiness gate {} is not open", gate.condition_type),
    )
}

/// The state of a container that does not run.
fn not_running(status: &ContainerStatus) -> Option<String> {
    let (name, state) = (&status.name, &status.state);
    let ended = state
        .terminated
        .as_ref()
        .map(|ended| format!("its container {name} has ended{}", exit(ended)));
    let waits = || {
        Some(format!(
            "its container {name} is in {}",
            state.waiting.as_ref()?.reason
        ))
    };
    ended.or_else(waits)
}

/// Why a pod that is being deleted still exists.
pub(super) fn why_not_gone(pod: &Pod) -> String {
    if pod.metadata.finalizers.is_empty() {
        return format!(
            "is being deleted, and node {} does not say that it has ended",
            pod.spec.node_name
        );
    }
    format!(
        "is being deleted, and its finalizers {} are still there",
        pod.metadata.finalizers.join(", ")
    )
}

fn sentence(view: &WorkloadView<'_>, pod: &Pod, what: &str, remedy: &str) -> String {
    let node = &pod.spec.node_name;
    let place = if node.is_empty() {
        String::new()
    } else {
        format!(" on node {node}")
    };
    format!(
        "{}: pod {}{place}: {what}; {remedy}",
        view.workload, pod.metadata.name
    )
}

/// A cause that counts once it has lasted for a minute.
fn lasting(reason: &'static str, message: String, since: Option<Timestamp>) -> Cause {
    let from = since
        .and_then(|since| since.checked_add(LASTING).ok())
        .unwrap_or(Timestamp::UNIX_EPOCH);
    Cause {
        grade: Grade::Lasting,
        reason,
        message,
        from,
        only_if_reported: false,
    }
}

fn terminating(view: &WorkloadView<'_>, pod: &Pod) -> Option<Cause> {
    // The end of its grace period.
    let due = pod.metadata.deletion_timestamp?;
    let remedy = if pod.metadata.finalizers.is_empty() {
        "see whether the node is up; if it will not come back, delete the pod by force"
    } else {
        "the owner of each finalizer must remove it"
    };
    let what = format!("{}, which was due at {due}", why_not_gone(pod));
    Some(lasting(
        "PodTerminating",
        sentence(view, pod, &what, remedy),
        Some(due),
    ))
}

fn unscheduled(view: &WorkloadView<'_>, pod: &Pod) -> Cause {
    let condition = pod.condition("PodScheduled");
    let since = condition
        .and_then(|c| c.last_transition_time)
        .or(pod.metadata.creation_timestamp);
    let (what, remedy) = match condition {
        Some(condition) => (
            format!("it has no node; the scheduler{DETAIL}{}", condition.message),
            unscheduled::remedy(&pod.metadata.namespace, &condition.message),
        ),
        None => (
            "it has no node, and no scheduler has looked at it".to_owned(),
            "see whether the scheduler that spec.template.spec.schedulerName names runs".to_owned(),
        ),
    };
    lasting(
        "PodUnschedulable",
        sentence(view, pod, &what, &remedy),
        since,
    )
}

/// A container that crashes without a readiness probe is ready between crashes, so that the cause
/// stays until the pod is ready for a while.
fn crashed(view: &WorkloadView<'_>, pod: &Pod, now: Timestamp) -> Option<Cause> {
    let until = pod
        .condition("Ready")?
        .last_transition_time?
        .checked_add(LASTING)
        .ok()?;
    if until <= now {
        return None;
    }
    let mut faults = states(pod).filter_map(|(status, init)| container(pod, status, init, false));
    let Fault {
        reason,
        what,
        remedy,
        only_if_reported,
    } = faults.find(|fault| fault.only_if_reported)?;
    let message = sentence(view, pod, &what, &remedy);
    Some(Cause {
        grade: Grade::Failing,
        reason,
        message,
        from: until,
        only_if_reported,
    })
}

/// A change of resources that the node refuses or puts off.
fn resize(view: &WorkloadView<'_>, pod: &Pod, now: Timestamp) -> Option<Cause> {
    // A condition about an earlier spec says nothing about this one.
    if pod.status.observed_generation < pod.metadata.generation {
        return None;
    }
    let is_true = |condition: &&Condition| &*condition.status == "True";
    let pending = pod.condition("PodResizePending").filter(is_true);
    let failed = pod
        .condition("PodResizeInProgress")
        .filter(is_true)
        .filter(|c| &*c.reason == "Error");
    let condition = pending.or(failed)?;
    if let Some((INFEASIBLE, why)) = refused(pod) {
        let message = format!("{}: pod {} {why}", view.workload, pod.metadata.name);
        return Some(Cause::new(Grade::Failing, INFEASIBLE, message, now));
    }
    let what = format!(
        "its resources cannot be changed ({}); the node{DETAIL}{}",
        condition.reason, condition.message
    );
    let remedy =
        "ask for less in spec.template.spec.containers.resources, or make room on the node";
    let message = sentence(view, pod, &what, remedy);
    if &*condition.reason == "Deferred" {
        return Some(lasting(
            "ResizeDeferred",
            message,
            condition.last_transition_time,
        ));
    }
    Some(Cause::new(Grade::Failing, "ResizeFailed", message, now))
}

/// The cause of a pod that a hook holds.
fn hook(view: &WorkloadView<'_>, pod: &Pod) -> Option<Cause> {
    let hooks = view.workload.hooks;
    let state = lifecycle::state(pod);
    let (name, hook, holds) = match state {
        PREPARING_DELETE => ("preDelete", hooks.pre_delete, true),
        PREPARING_UPDATE => ("inPlaceUpdate", hooks.in_place_update, true),
        UPDATED => ("inPlaceUpdate", hooks.in_place_update, false),
        PREPARING_NORMAL => ("preNormal", hooks.pre_normal, false),
        _ => return None,
    };
    let hook = hook?;
    let parts = if holds {
        hook::present(hook, pod)
    } else {
        hook::missing(hook, pod)
    };
    if parts.is_empty() {
        return None;
    }
    let since = lifecycle::since(pod).or(pod.metadata.creation_timestamp);
    let since_text = since
        .map(|since| format!(" since {since}"))
        .unwrap_or_default();
    let what = format!(
        "is in lifecycle state {state}{since_text}: hook {name} holds it {} {}",
        if holds {
            "as long as it has"
        } else {
            "until it has"
        },
        parts.join(", ")
    );
    let remedy = format!(
        "the owner of hook spec.lifecycle.{name} must {}",
        if holds {
            "remove them from the pod"
        } else {
            "add them to the pod"
        }
    );
    Some(lasting(
        "HookNotReleased",
        sentence(view, pod, &what, &remedy),
        since,
    ))
}

/// The cause of an in-place update that neither the pod nor its node's daemon proves.
fn unproven(view: &WorkloadView<'_>, pod: &Pod) -> Option<Cause> {
    let phase = view.phase(pod);
    let Phase::Patched(state, decision) = &*phase else {
        return None;
    };
    let since = state
        .update_timestamp
        .map(|since| format!(" since {since}"))
        .unwrap_or_default();
    let (reason, what, remedy) = match decision {
        // This round still writes the rest of the update, or reports the write's failure.
        UpdateDecision::Proven { .. } | UpdateDecision::Resize(_) => return None,
        UpdateDecision::NeedsDaemon(why) => {
            let what = format!(
                "its update is not proven{since}: {why}, and the node's daemon has not answered"
            );
            (
                "DaemonSilent",
                what,
                "see whether the kruise-daemon of the node runs",
            )
        }
        UpdateDecision::Wait(why) => {
            let what = format!("its update is not done{since}: {why}");
            let backs_off = states(pod).any(|(status, _)| {
                let waiting = status.state.waiting.as_ref();
                waiting.is_some_and(|waiting| waiting.is_back_off())
            });
            let remedy = if backs_off {
                "it starts by itself, and the pod's events say if its image cannot be had"
            } else {
                "see the pod's events, and whether the node is up"
            };
            ("UpdateNotDone", what, remedy)
        }
    };
    Some(lasting(
        reason,
        sentence(view, pod, &what, remedy),
        state.update_timestamp,
    ))
}

fn not_ready(view: &WorkloadView<'_>, pod: &Pod) -> Cause {
    let since = pod
        .condition("Ready")
        .and_then(|c| c.last_transition_time)
        .or(pod.metadata.creation_timestamp);
    let since_text = since
        .map(|since| format!("is not ready since {since}: "))
        .unwrap_or_default();
    let what = format!("{since_text}{}", why_not_ready(pod));
    let remedy = if pod.is_called_away() {
        "see whether the node is up"
    } else {
        "see its events and its log"
    };
    lasting("PodNotReady", sentence(view, pod, &what, remedy), since)
}
