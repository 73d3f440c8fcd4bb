//! What pods need of us that no workload of ours owns: SidecarSets gave them containers that start in order, or the pod webhook
//! gave them the readiness gate `KruisePodReady`.
//!
//! Either would hold a pod for ever if nobody went on with it, so this is by the pod alone: it needs neither the SidecarSet nor the
//! feature gate, which may be gone by then.

use std::sync::Arc;

use berth_api::names::annotation::SIDECARSET_HASH;
use berth_workload::launch;
use berth_workload::owner::{self, Reference};
use berth_workload::plan::{Action, Plan, PodPatch, Step, Target};
use berth_workload::pod::Pod;
use berth_workload::pod::gates::{self, KRUISE_POD_READY};
use berth_workload::resource::BROADCAST_JOBS;
use jiff::Timestamp;

#[cfg(test)]
mod tests;

/// Is there anything to do for the pod, or will there be?
pub fn concerns(pod: &Pod) -> bool {
    is_ordered(pod) || lacks_condition(pod)
}

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
    if !is_foreign(pod, |owner| !BROADCAST_JOBS.owner_kind().is_of(owner)) {
        return false;
    }
    let has_gate = gates::has_gate(pod, KRUISE_POD_READY) && pod.condition(KRUISE_POD_READY).is_none();
    has_gate && pod.is_active() && !pod.spec.node_name.is_empty()
}

/// Decides.
pub fn decide(pod: &Arc<Pod>, now: Timestamp) -> Plan {
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
        let action = Action::PatchPodStatus { target, conditions, patch: PodPatch::default() };
        let reason = format!("pod {}: nobody has closed its readiness gate {KRUISE_POD_READY}", pod.metadata.name);
        plan.add_stage("readiness gate", vec![Step::new(action, reason)]);
    }
    // After the one the other is decided on anew, as the pod is by then.
    plan.join_steps_by_object(|_| false);
    plan
}
