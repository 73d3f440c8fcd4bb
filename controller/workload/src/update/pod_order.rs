//! The order in which pods are deleted or updated.

pub mod spread;

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use crate::objects::pod::Pod;

/// Annotation with a number: the lower, the sooner the pod is deleted. Missing or invalid means 0.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// How crowded the surroundings of each pod are: the higher, the sooner the pod is deleted.
#[derive(Debug, Default)]
pub struct Ranks(BTreeMap<Box<str>, f64>);

impl Ranks {
    /// The pod's rank; 0 if nothing crowds it.
    fn of(&self, pod: &Pod) -> f64 {
        self.0.get(&pod.metadata.uid).copied().unwrap_or(0.0)
    }
}

/// Sorts pods for an update: pods that are out of service come before serving pods.
pub fn for_update(pods: &mut [Arc<Pod>]) {
    // Reads each pod once and not with each comparison, because there may be thousands.
    let mut keyed: Vec<_> = pods
        .iter()
        .map(|pod| ((readiness(pod), Age::of(pod)), pod))
        .collect();
    keyed.sort_by(|(a, _), (b, _)| a.cmp(b));
    let sorted: Vec<_> = keyed.into_iter().map(|(_, pod)| pod.clone()).collect();
    pods.clone_from_slice(&sorted);
}

/// The order of deletion without availability.
fn least_lost(a: &Pod, b: &Pod, ranks: Option<&Ranks>) -> Ordering {
    let rank = |pod: &Pod| ranks.map_or(0.0, |ranks| ranks.of(pod));
    readiness(a)
        .cmp(&readiness(b))
        .then_with(|| deletion_cost(a).cmp(&deletion_cost(b)))
        .then_with(|| rank(b).total_cmp(&rank(a)))
        .then_with(|| Age::of(a).cmp(&Age::of(b)))
}

/// Whether the pod is scheduled, and its phase: the lower, the less is lost.
fn standing(pod: &Pod) -> (bool, u8) {
    let phase = match &*pod.status.phase {
        "Pending" | "" => 0,
        "Running" => 2,
        _ => 1,
    };
    (!pod.spec.node_name.is_empty(), phase)
}

fn readiness(pod: &Pod) -> ((bool, u8), bool) {
    (standing(pod), pod.is_true("Ready"))
}

/// The cost as Kubernetes reads it: `+5` and `007` are invalid.
fn deletion_cost(pod: &Pod) -> i32 {
    let written = pod.metadata.annotation(DELETION_COST).unwrap_or_default();
    let cost: i32 = written.parse().unwrap_or(0);
    let padded = written.starts_with('+') || (written.starts_with('0') && written != "0");
    if padded { 0 } else { cost }
}

/// Ready for a shorter time, restarted more often, newer; at last by name, so that the order is
/// stable. A pod without a time comes before pods with one.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Age<'a> {
    ready: Option<Reverse<Timestamp>>,
    restarts: Reverse<i32>,
    created: Option<Reverse<Timestamp>>,
    name: &'a str,
}

impl<'a> Age<'a> {
    fn of(pod: &'a Pod) -> Self {
        let ready = pod.condition("Ready").filter(|c| &*c.status == "True");
        let restarts = pod
            .status
            .container_statuses
            .iter()
            .map(|c| c.restart_count)
            .max()
            .unwrap_or(0);
        Self {
            ready: ready.and_then(|c| c.last_transition_time).map(Reverse),
            restarts: Reverse(restarts),
            created: pod.metadata.creation_timestamp.map(Reverse),
            name: &pod.metadata.name,
        }
    }
}

#[cfg(test)]
mod tests;
