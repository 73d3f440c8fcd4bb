//! How many pods of a budget never go by anybody's will, so that other clusters may count on them while they cannot ask.

use std::cmp::{max, min};
use std::time::Duration;

use berth_api::names::condition::ENFORCED;
use berth_api::v1alpha1::DistributedPodDisruptionBudget;
use berth_api::v1alpha1::distributedpoddisruptionbudget::FloorStatus;

use crate::condition::is_true;

/// What a reader may count on, for how long after it sent the read that showed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Promise {
    /// So many pods stay healthy, as far as anybody's will goes.
    pub pods: usize,
    /// How long.
    pub lasts: Duration,
}

/// A tenth less than the budget keeps it: clocks run at different speeds.
const PER_CENT_TRUSTED: u64 = 90;

fn number(number: i32) -> usize {
    usize::try_from(number).unwrap_or(0)
}

/// How many of its own pods the budget never lets go: as its spec says, or said a moment ago.
pub fn binding(budget: &DistributedPodDisruptionBudget) -> usize {
    let told = budget
        .status
        .as_ref()
        .and_then(|status| status.floor)
        .unwrap_or_default();
    number(max(budget.spec.floor, told.pods))
}

/// What whoever reads the budget may count on. A floor counts when the status tells of it, and no longer than the spec does; and only where
/// the apiserver asks before pods go.
pub fn promised(budget: &DistributedPodDisruptionBudget) -> Option<Promise> {
    let status = budget.status.as_ref()?;
    let told = status.floor?;
    let is_enforced = is_true(&status.conditions, ENFORCED);
    if !is_enforced || budget.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let pods = number(min(min(budget.spec.floor, told.pods), status.own.healthy));
    let seconds = u64::try_from(min(budget.spec.lease_seconds, told.lease_seconds)).unwrap_or(0);
    (pods > 0).then(|| Promise {
        pods,
        lasts: Duration::from_millis(seconds * 1000 * PER_CENT_TRUSTED / 100),
    })
}

/// What the status is to tell of the floor, and how long until it may tell less. What was told binds for its whole time after the spec
/// asked for less, since when the leader has seen this spec.
pub fn told(
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
mod tests {
    use berth_api::v1alpha1::distributedpoddisruptionbudget::DistributedPodDisruptionBudgetStatus;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
    use proptest::prelude::*;

    use super::*;

    fn budget(floor: i32, lease: i32, told: Option<(i32, i32)>) -> DistributedPodDisruptionBudget {
        let mut budget = DistributedPodDisruptionBudget::default();
        (budget.spec.floor, budget.spec.lease_seconds) = (floor, lease);
        let enforced = Condition {
            type_: ENFORCED.to_owned(),
            status: "True".to_owned(),
            reason: String::new(),
            message: String::new(),
            observed_generation: None,
            last_transition_time: Time(jiff::Timestamp::UNIX_EPOCH),
        };
        let mut status = DistributedPodDisruptionBudgetStatus {
            conditions: vec![enforced],
            ..Default::default()
        };
        status.own.healthy = 100;
        status.floor = told.map(|(pods, lease_seconds)| FloorStatus {
            pods,
            lease_seconds,
        });
        budget.status = Some(status);
        budget
    }

    #[test]
    fn a_floor_counts_once_it_is_told_and_no_longer_than_it_is_wanted() {
        let lasts = |seconds: u64| Duration::from_millis(seconds * 900);
        for (budget, promise) in [
            (budget(3, 60, None), None),
            (budget(3, 60, Some((3, 60))), Some((3, lasts(60)))),
            (budget(5, 60, Some((3, 60))), Some((3, lasts(60)))),
            (budget(2, 60, Some((3, 60))), Some((2, lasts(60)))),
            (budget(3, 30, Some((3, 60))), Some((3, lasts(30)))),
            (budget(0, 60, Some((3, 60))), None),
        ] {
            let promised = promised(&budget).map(|promise| (promise.pods, promise.lasts));
            assert_eq!(promised, promise, "{:?} {:?}", budget.spec, budget.status);
        }
        let mut unhealthy = budget(3, 60, Some((3, 60)));
        unhealthy.status.as_mut().unwrap().own.healthy = 1;
        assert_eq!(promised(&unhealthy).map(|promise| promise.pods), Some(1));
        let mut unasked = budget(3, 60, Some((3, 60)));
        unasked.status.as_mut().unwrap().conditions.clear();
        assert_eq!(promised(&unasked), None);
    }

    proptest! {
        // Whatever the spec becomes and whenever the leader looks: what a reader may count on is bound by the budget for as long.
        #[test]
        fn nobody_counts_on_more_than_binds(
            changes in proptest::collection::vec((0..6i32, 1..90i32, 0..40u64), 1..20),
        ) {
            let mut now = budget(0, 60, None);
            let mut trusted: Vec<(u64, usize)> = Vec::new();
            let (mut clock, mut seen_at) = (0_u64, 0_u64);
            for (floor, lease, seconds) in changes {
                (now.spec.floor, now.spec.lease_seconds) = (floor, lease);
                // Between a change and the leader's next look others may read.
                let read = |now: &DistributedPodDisruptionBudget, clock: u64, trusted: &mut Vec<(u64, usize)>| {
                    trusted.extend(promised(now).map(|promise| (clock + promise.lasts.as_secs(), promise.pods)));
                };
                read(&now, clock, &mut trusted);
                seen_at = seen_at.max(clock);
                for _ in 0..seconds {
                    clock += 1;
                    let (told, _) = told(&now, Duration::from_secs(clock - seen_at));
                    now.status.as_mut().unwrap().floor = told;
                    read(&now, clock, &mut trusted);
                    let most = trusted.iter().filter(|(until, _)| *until > clock).map(|(_, pods)| *pods).max();
                    prop_assert!(most.unwrap_or(0) <= binding(&now), "{most:?} at {clock}, {:?}", now.status);
                }
            }
        }
    }
}
