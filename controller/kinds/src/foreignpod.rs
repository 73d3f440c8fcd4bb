//! What pods need of us that no workload of ours owns: SidecarSets gave them containers that start in order, the pod webhook
//! gave them the readiness gate `KruisePodReady`, or a budget had them taken from their ReplicaSet and no longer waits for them.
//!
//! Each would hold a pod for ever if nobody went on with it, so this is by the pod alone: it needs neither the SidecarSet nor the
//! feature gate nor the budget, which may be gone by then.

use std::sync::Arc;

use berth_api::kinds::BROADCAST_JOB;
use berth_api::names::annotation::SIDECARSET_HASH;
use berth_workload::budget::surge::{is_leftover, is_replaced};
use berth_workload::objects::owner::{self, Reference};
use berth_workload::objects::pod::Pod;
use berth_workload::objects::pod::gates::{self, KRUISE_POD_READY};
use berth_workload::objects::resource::Resource;
use berth_workload::plan::{Action, Plan, PodPatch, Step, Target};
use berth_workload::update::launch;
use jiff::{SignedDuration, Timestamp};

#[cfg(test)]
mod tests;

/// Is there anything to do for the pod, or will there be?
pub fn concerns(pod: &Pod) -> bool {
    is_ordered(pod) || lacks_condition(pod) || is_leftover(pod)
}

/// Owners of pods that know of no gate.
const JOBS: Resource = Resource::of(&BROADCAST_JOB);

/// A workload of ours does the same for its own, and a job lets their containers start and knows of no gate.
fn is_foreign(pod: &Pod, knows: impl Fn(&Reference<'_>) -> bool) -> bool {
    let owner = pod.metadata.controller().map(Reference::from);
    !owner.is_some_and(|owner| owner::is_workload(&owner) && knows(&owner))
}

/// Did the injection order its containers? Of those that another program has ordered we write nothing.
fn is_ordered(pod: &Pod) -> bool {
    let is_injected = pod.metadata.annotation(SIDECARSET_HASH).is_some();
    is_injected && launch::is_under_way(pod) && is_foreign(pod, |_| true)
}

/// Has nobody said yet whether the gate is open? Until it is scheduled no kubelet asks, and more than one writes the pod.
fn lacks_condition(pod: &Pod) -> bool {
    if !is_foreign(pod, |owner| !JOBS.owner_kind().is_of(owner)) {
        return false;
    }
    let has_gate =
        gates::has_gate(pod, KRUISE_POD_READY) && pod.condition(KRUISE_POD_READY).is_none();
    has_gate && pod.is_active() && !pod.spec.node_name.is_empty()
}

/// How long until a pod that was taken from its ReplicaSet is looked at again.
pub const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(30);

/// Decides about a pod, one of all of its namespace. `is_awaited`: a budget waits for its replacement.
pub fn decide(pod: &Arc<Pod>, (is_awaited, all): (bool, &[Arc<Pod>]), now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    if !concerns(pod) {
        return plan;
    }
    if is_ordered(pod) {
        launch::release(std::slice::from_ref(pod), &mut plan);
    }
    if lacks_condition(pod) {
        let conditions = vec![gates::condition(KRUISE_POD_READY, true, now)];
        // Who has closed the gate meanwhile keeps it closed.
        let target = Target::as_seen(&pod.metadata);
        let action = Action::PatchPodStatus {
            target,
            conditions,
            patch: PodPatch::default(),
        };
        let reason = format!(
            "pod {}: nobody has closed its readiness gate {KRUISE_POD_READY}",
            pod.metadata.name
        );
        plan.add_stage("readiness gate", vec![Step::new(action, reason)]);
    }
    if is_leftover(pod) && !is_awaited && is_replaced(pod, all, now) {
        let reason = format!(
            "pod {} was replaced, and no budget waits for it any more",
            pod.metadata.name
        );
        plan.add_stage(
            "leftover",
            vec![Step::new(
                Action::DeletePod {
                    target: Target::from(&pod.metadata),
                },
                reason,
            )],
        );
    } else if is_leftover(pod) {
        plan.look_again_after(LOOK_AGAIN);
    }
    // After the one the other is decided on anew, as the pod is by then.
    plan.join_steps_by_object(|_| false);
    plan
}
