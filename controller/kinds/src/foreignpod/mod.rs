//! What pods need of us that no workload of ours owns: SidecarSets gave them containers that start in order, or the pod webhook
//! gave them the readiness gate `KruisePodReady`.
//!
//! Either would hold a pod for ever if nobody went on with it, so this is by the pod alone: it needs neither the SidecarSet nor the
//! feature gate, which may be gone by then.

use std::sync::Arc;

use berth_api::names::annotation::SIDECARSET_HASH;
use berth_workload::launch;
use berth_workload::owner::{self, Reference};
use berth_workload::plan::Plan;
use berth_workload::pod::Pod;

#[cfg(test)]
mod tests;

/// Is there anything to do for the pod, or will there be?
pub fn concerns(pod: &Pod) -> bool {
    let owner = pod.metadata.controller().map(Reference::from);
    // A workload of ours does the same for its own.
    let is_foreign = !owner.as_ref().is_some_and(owner::is_workload);
    is_foreign && is_ordered(pod)
}

/// Did the injection order its containers? Of those that another program has ordered we write nothing.
fn is_ordered(pod: &Pod) -> bool {
    pod.metadata.annotation(SIDECARSET_HASH).is_some() && launch::is_under_way(pod)
}

/// Decides.
pub fn decide(pod: &Arc<Pod>) -> Plan {
    let mut plan = Plan::default();
    if concerns(pod) {
        launch::release(std::slice::from_ref(pod), &mut plan);
    }
    plan
}
