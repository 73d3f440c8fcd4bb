//! How many pods of a budget no request may take out of service, so that other clusters may count
//! on them while they are disconnected.

use std::cmp::{max, min};
use std::time::Duration;

use berth_api::names::condition::ENFORCED;
use berth_api::v1alpha1::DistributedPodDisruptionBudget;
use berth_api::v1alpha1::distributedpoddisruptionbudget::FloorStatus;

use crate::objects::condition::is_true;

/// The pods that a reader in another cluster may count on, and for how long after it sent the read
/// that showed them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Promise {
    /// How many pods stay healthy, unless they fail by themselves.
    pub pods: usize,
    /// For how long.
    pub lasts: Duration,
}

/// Readers trust a floor for a tenth less than its lease, because clocks run at different speeds.
const PER_CENT_TRUSTED: u64 = 90;

fn number(number: i32) -> usize {
    usize::try_from(number).unwrap_or(0)
}

/// How many of its own pods the budget never lets leave: the larger of the floors in its spec and
/// in its status.
pub fn binding(budget: &DistributedPodDisruptionBudget) -> usize {
    let reported = budget
        .status
        .as_ref()
        .and_then(|status| status.floor)
        .unwrap_or_default();
    number(max(budget.spec.floor, reported.pods))
}

/// The promise that a reader of the budget may count on. Spec and status must both have the floor,
/// and the smaller number counts. There is no promise unless the apiserver calls the webhook before
/// pods leave.
pub fn promised(budget: &DistributedPodDisruptionBudget) -> Option<Promise> {
    let status = budget.status.as_ref()?;
    let reported = status.floor?;
    let is_enforced = is_true(&status.conditions, ENFORCED);
    if !is_enforced || budget.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let pods = number(min(
        min(budget.spec.floor, reported.pods),
        status.own.healthy,
    ));
    let seconds =
        u64::try_from(min(budget.spec.lease_seconds, reported.lease_seconds)).unwrap_or(0);
    (pods > 0).then(|| Promise {
        pods,
        lasts: Duration::from_millis(seconds * 1000 * PER_CENT_TRUSTED / 100),
    })
}

/// The floor for the status, and how long until it may be smaller. A floor in the status stays for
/// its whole lease after the spec asked for less. `seen_for` is how long the leader has seen this
/// spec.
pub fn reported_floor(
    budget: &DistributedPodDisruptionBudget,
    seen_for: Duration,
) -> (Option<FloorStatus>, Option<Duration>) {
    let (pods, lease_seconds) = match budget.metadata.deletion_timestamp {
        Some(_) => (0, budget.spec.lease_seconds),
        None => (budget.spec.floor, budget.spec.lease_seconds),
    };
    let wanted = FloorStatus {
        pods,
        lease_seconds,
    };
    let of = |floor: FloorStatus| (floor.pods > 0).then_some(floor);
    let Some(old) = budget.status.as_ref().and_then(|status| status.floor) else {
        return (of(wanted), None);
    };
    let kept = FloorStatus {
        pods: max(wanted.pods, old.pods),
        lease_seconds: max(wanted.lease_seconds, old.lease_seconds),
    };
    if kept == wanted {
        return (of(wanted), None);
    }
    let lease = Duration::from_secs(u64::try_from(kept.lease_seconds).unwrap_or(0));
    match lease.checked_sub(seen_for).filter(|left| !left.is_zero()) {
        Some(left) => (of(kept), Some(left)),
        None => (of(wanted), None),
    }
}

#[cfg(test)]
mod tests;
