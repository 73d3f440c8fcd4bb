//! Why is it stuck? The condition `Blocked`: what holds a workload back that does not pass by itself.
//!
//! The rule: what somebody or something refused, and what the kubelet itself calls a failure, is told at once. What may
//! pass by itself, like a pod that is not ready, scheduled or gone yet, is told when it has lasted for a minute. A
//! rollout that stays where its author put it, paused or at its partition, is not blocked.
//!
//! One cause is told, the gravest; `berth-controller explain` has the others, pod by pod. What a person must mend is graver
//! than a budget that is used up, which has room again when other pods serve. A message rests: it has no count that runs,
//! and a cause that is told already stays in its words as long as only numbers in it differ.

pub mod announced;
mod cause;
mod condition;
mod container;
mod pod;
mod refused;
mod sidecar;
mod unavailable;

use std::sync::Arc;

use jiff::Timestamp;

use cause::{NAMED, OTHERS};

use crate::objects::pod::{Pod, availability};
use crate::plan::{Outcome, Plan, Refusal};
use crate::update::inplace::resize;
use crate::update::podset::{Scene, Uids};

pub use cause::{Cause, Grade, gravest, without_names};
pub use condition::{set_blocked, set_failure};
pub use container::NO_IMAGE;
pub use refused::is_of_write;
pub use unavailable::tell_of_unavailable;

/// Nothing announces that something has lasted for too long: asks to decide again then. Pods whose end does not come are
/// waited for by nobody else, so they are named here.
pub fn watch(scene: &Scene<'_>, plan: &mut Plan, now: Timestamp) {
    for pod in scene.pods {
        for cause in pod::causes(scene, pod, now) {
            if cause.from > now {
                plan.look_again_after(cause.from.duration_since(now));
            } else if pod.metadata.deletion_timestamp.is_some() {
                plan.wait_for_pod(pod, pod::why_not_gone(pod));
            }
        }
    }
}

/// What was refused: the spec by Berth, or writes by the apiserver; and pods that wait for a budget.
pub fn of_writes(scene: &Scene<'_>, plan: &Plan, outcome: &Outcome, now: Timestamp) -> Vec<Cause> {
    let of_spec = |refusal: &Refusal| {
        Cause::new(Grade::Refused, refusal.reason, refusal.message.clone(), now)
    };
    let of_spec = plan.refusal.iter().map(of_spec);
    of_spec
        .chain(refused::causes(scene, plan, &outcome.failures, now))
        .collect()
}

/// Is there a cause that concerns this pod, whether it counts by now or later?
pub fn holds_pod(scene: &Scene<'_>, pod: &Pod, now: Timestamp) -> bool {
    !pod::causes(scene, pod, now).is_empty()
}

/// Causes that concern one pod, by the pods' names.
pub fn of_pods(scene: &Scene<'_>, plan: &Plan, now: Timestamp) -> Vec<Cause> {
    of_pods_without(scene, &Uids::new(), plan, now)
}

/// The same without some pods, of which their kind has more to say.
pub fn of_pods_without(scene: &Scene<'_>, told: &Uids, plan: &Plan, now: Timestamp) -> Vec<Cause> {
    let of_pod = |pod: &Arc<Pod>| {
        pod::causes(scene, pod, now)
            .into_iter()
            .map(|cause| (pod.metadata.name.clone(), cause))
            .collect::<Vec<_>>()
    };
    let pods = scene
        .pods
        .iter()
        .filter(|pod| !told.contains(&pod.metadata.uid));
    let mut causes: Vec<_> = pods.flat_map(of_pod).collect();
    causes.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut causes: Vec<_> = causes.into_iter().map(|(_, cause)| cause).collect();
    if !causes.is_empty()
        && let Some(others) = budget(scene, told, plan, now)
    {
        // A pod whose resize is infeasible serves, and holds the others itself.
        let holding = causes
            .iter_mut()
            .filter(|cause| cause.reason != resize::INFEASIBLE);
        holding.for_each(|cause| cause.message += &others);
    }
    causes
}

/// What it means for the other pods, where some wait for `maxUnavailable`: which pods are out of service. A budget may hold others, which
/// count as well, so these alone need not use it up.
fn budget(scene: &Scene<'_>, told: &Uids, plan: &Plan, now: Timestamp) -> Option<String> {
    plan.waiting
        .iter()
        .find(|waiting| waiting.reason.contains("maxUnavailable"))?;
    let seconds = scene.workload.min_ready_seconds;
    let is_counted = |pod: &&Arc<Pod>| pod.is_active() && !told.contains(&pod.metadata.uid);
    let unavailable = scene
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
