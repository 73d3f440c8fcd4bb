//! The condition `Blocked`: causes that hold a workload back and do not pass by themselves.
//!
//! A refusal by the apiserver or by Berth, and a state that the kubelet calls a failure, set the
//! condition at once. A state that may pass by itself, such as a pod that is not ready, not
//! scheduled or not deleted yet, sets it after a minute. A rollout that its author paused, or that
//! has reached its partition, is not blocked.
//!
//! The condition names the gravest cause; `kubectl berth why` lists the others, pod by pod.
//! A cause that a person must fix is graver than a used-up budget, which has capacity again once
//! other pods serve. A message is stable: it has no running counters, and a cause keeps its message
//! as long as only numbers in it differ.

pub mod announced;
mod cause;
mod condition;
mod container;
mod pod;
mod refused;
mod sidecar;
mod unavailable;
mod unscheduled;

use std::sync::Arc;

use jiff::Timestamp;

use cause::{NAMED, OTHERS};

use crate::objects::pod::{Pod, availability};
use crate::plan::{Outcome, Plan, Refusal};
use crate::update::inplace::resize;
use crate::update::podset::{Uids, WorkloadView};

pub use cause::{Cause, Grade, gravest, without_names};
pub use condition::{set_blocked, set_failure};
pub use container::NO_IMAGE;
pub use pod::why_not_ready;
pub use refused::is_of_write;
pub use unavailable::tell_of_unavailable;

/// Schedules another decision for the time when a state has lasted too long, because no watch event
/// announces that time. The plan also waits for pods whose deletion does not end, because nothing
/// else waits for them.
pub fn watch(view: &WorkloadView<'_>, plan: &mut Plan, now: Timestamp) {
    for pod in view.pods {
        for cause in pod::causes(view, pod, now) {
            if cause.from > now {
                plan.look_again_after(cause.from.duration_since(now));
            } else if pod.metadata.deletion_timestamp.is_some() {
                plan.wait_for_pod(pod, pod::why_not_gone(pod));
            }
        }
    }
}

/// Causes from writes: specs that Berth refused, writes that the apiserver refused, and pods that
/// wait for a budget.
pub fn of_writes(
    view: &WorkloadView<'_>,
    plan: &Plan,
    outcome: &Outcome,
    now: Timestamp,
) -> Vec<Cause> {
    let of_spec = |refusal: &Refusal| {
        Cause::new(Grade::Refused, refusal.reason, refusal.message.clone(), now)
    };
    let of_spec = plan.refusal.iter().map(of_spec);
    of_spec
        .chain(refused::causes(view, plan, &outcome.failures, now))
        .collect()
}

/// Whether a cause concerns this pod, now or once it has lasted long enough.
pub fn holds_pod(view: &WorkloadView<'_>, pod: &Pod, now: Timestamp) -> bool {
    !pod::causes(view, pod, now).is_empty()
}

/// Causes that concern one pod, by the pods' names.
pub fn of_pods(view: &WorkloadView<'_>, plan: &Plan, now: Timestamp) -> Vec<Cause> {
    of_pods_without(view, &Uids::new(), plan, now)
}

/// The same without the pods in `excluded`, for which the workload's kind has more precise causes.
pub fn of_pods_without(
    view: &WorkloadView<'_>,
    excluded: &Uids,
    plan: &Plan,
    now: Timestamp,
) -> Vec<Cause> {
    let of_pod = |pod: &Arc<Pod>| {
        pod::causes(view, pod, now)
            .into_iter()
            .map(|cause| (pod.metadata.name.clone(), cause))
            .collect::<Vec<_>>()
    };
    let pods = view
        .pods
        .iter()
        .filter(|pod| !excluded.contains(&pod.metadata.uid));
    let mut causes: Vec<_> = pods.flat_map(of_pod).collect();
    causes.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut causes: Vec<_> = causes.into_iter().map(|(_, cause)| cause).collect();
    if !causes.is_empty()
        && let Some(others) = budget(view, excluded, plan, now)
    {
        // A pod whose resize is infeasible still serves, and itself makes the other pods wait.
        let holding = causes
            .iter_mut()
            .filter(|cause| cause.reason != resize::INFEASIBLE);
        holding.for_each(|cause| cause.message += &others);
    }
    causes
}

/// The text about pods that wait for `maxUnavailable`: which pods are out of service. A budget may
/// hold other pods that count as well, so that these pods alone need not use it up.
fn budget(view: &WorkloadView<'_>, excluded: &Uids, plan: &Plan, now: Timestamp) -> Option<String> {
    plan.waiting
        .iter()
        .find(|waiting| waiting.reason.contains("maxUnavailable"))?;
    let seconds = view.workload.min_ready_seconds;
    let is_counted = |pod: &&Arc<Pod>| pod.is_active() && !excluded.contains(&pod.metadata.uid);
    let unavailable = view
        .pods
        .iter()
        .filter(is_counted)
        .filter(|pod| !availability(pod, seconds, now).is_available());
    let mut names: Vec<_> = unavailable.map(|pod| &*pod.metadata.name).collect();
    names.sort_unstable();
    if names.is_empty() {
        return None;
    }
    let are = if names.len() == 1 { "is" } else { "are" };
    let more = if names.len() > NAMED {
        " and others"
    } else {
        ""
    };
    names.truncate(NAMED);
    Some(format!(
        "{OTHERS}, and {}{more} {are} out of service",
        names.join(", ")
    ))
}
