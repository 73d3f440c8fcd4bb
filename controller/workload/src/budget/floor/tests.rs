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
fn promised_floor_is_reported_and_still_wanted() {
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
    let mut overloaded = budget(3, 60, Some((3, 60)));
    overloaded.status.as_mut().unwrap().conditions.clear();
    assert_eq!(promised(&overloaded), None);
}

proptest! {
    // For any changes of the spec and any delay of the leader: the budget keeps a promised floor
    // for as long as a reader counts on it.
    #[test]
    fn promised_floor_never_exceeds_binding_floor(
        changes in proptest::collection::vec((0..6i32, 1..90i32, 0..40u64), 1..20),
    ) {
        let mut now = budget(0, 60, None);
        let mut trusted: Vec<(u64, usize)> = Vec::new();
        let (mut clock, mut seen_at) = (0_u64, 0_u64);
        for (floor, lease, seconds) in changes {
            (now.spec.floor, now.spec.lease_seconds) = (floor, lease);
            // Other clusters may read between a change and the leader's next round.
            let read = |now: &DistributedPodDisruptionBudget, clock: u64, trusted: &mut Vec<(u64, usize)>| {
                trusted.extend(promised(now).map(|promise| (clock + promise.lasts.as_secs(), promise.pods)));
            };
            read(&now, clock, &mut trusted);
            seen_at = seen_at.max(clock);
            for _ in 0..seconds {
                clock += 1;
                let (told, _) = reported_floor(&now, Duration::from_secs(clock - seen_at));
                now.status.as_mut().unwrap().floor = told;
                read(&now, clock, &mut trusted);
                let most = trusted.iter().filter(|(until, _)| *until > clock).map(|(_, pods)| *pods).max();
                prop_assert!(most.unwrap_or(0) <= binding(&now), "{most:?} at {clock}, {:?}", now.status);
            }
        }
    }
}
