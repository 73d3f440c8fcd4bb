//! Pods that no workload of Berth owns, and that need the controller: SidecarSets gave them
//! containers that start in order, the pod webhook gave them the readiness gate `KruisePodReady`,
//! or a budget had them taken from their ReplicaSet and no longer waits for them.
//!
//! Each of these would hold a pod for ever without the controller. So the decision reads the pod
//! alone: the SidecarSet, the feature gate and the budget may be gone by then.

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

/// Whether the controller must do something for the pod, now or later.
pub fn concerns(pod: &Pod) -> bool {
    is_ordered(pod) || lacks_condition(pod) || is_leftover(pod)
}

/// Owners whose controllers do not write readiness gates.
const JOBS: Resource = Resource::of(&BROADCAST_JOB);

/// Whether none of Berth's workloads does this work for the pod as its owner. `knows` is whether an
/// owner of this kind does it. A BroadcastJob starts containers in order, but does not write the
/// readiness gate.
fn is_foreign(pod: &Pod, knows: impl Fn(&Reference<'_>) -> bool) -> bool {
    let owner = pod.metadata.controller().map(Reference::from);
    !owner.is_some_and(|owner| owner::is_workload(&owner) && knows(&owner))
}

/// Whether the injection ordered the pod's containers. The controller writes nothing for containers
/// that another program ordered.
fn is_ordered(pod: &Pod) -> bool {
    let is_injected = pod.metadata.annotation(SIDECARSET_HASH).is_some();
    is_injected && launch::is_under_way(pod) && is_foreign(pod, |_| true)
}

/// Whether no condition for the readiness gate exists yet. Until the pod is scheduled no kubelet
/// reads the gate, and several writers write the pod.
fn lacks_condition(pod: &Pod) -> bool {
    if !is_foreign(pod, |owner| !JOBS.owner_kind().is_of(owner)) {
        return false;
    }
    let has_gate =
        gates::has_gate(pod, KRUISE_POD_READY) && pod.condition(KRUISE_POD_READY).is_none();
    has_gate && pod.is_active() && !pod.spec.node_name.is_empty()
}

/// The time after which the controller decides again about a pod that was taken from its
/// ReplicaSet.
pub const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(30);

/// Decides about a pod, one of `all` of its namespace. `is_awaited` is whether a budget waits for
/// its replacement.
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
        // The target has the version that the controller read, so that the write fails if another
        // writer has closed the gate meanwhile.
        let target = Target::as_seen(&pod.metadata);
        let action = Action::PatchPodStatus {
            target,
            conditions,
            patch: PodPatch::default(),
        };
        let reason = format!(
            "pod {}: no controller has closed its readiness gate {KRUISE_POD_READY}",
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
    // After one of two writes, the next round decides on the other from the pod's new state.
    plan.join_steps_by_object(|_| false);
    plan
}
