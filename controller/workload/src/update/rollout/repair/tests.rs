use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{Candidate, Held, Numbers, Wanted, admitted, numbers};
use super::*;

#[test]
fn containers_that_are_not_ready_are_broken() {
    let pod = |phase: &str, ready: &[Value]| {
        let containers: Vec<_> = ready
            .iter()
            .enumerate()
            .map(|(at, _)| json!({"name": at.to_string()}))
            .collect();
        let statuses = ready
            .iter()
            .enumerate()
            .filter(|(_, ready)| !ready.is_null());
        let statuses: Vec<_> = statuses
            .map(|(at, ready)| json!({"name": at.to_string(), "ready": ready}))
            .collect();
        let gate = json!({"type": "Ready", "status": "False"});
        let pod = json!({
            "metadata": {}, "spec": {"containers": containers},
            "status": {"phase": phase, "containerStatuses": statuses, "conditions": [gate]},
        });
        serde_json::from_value::<Pod>(pod).unwrap()
    };
    assert!(
        !is_broken(&pod("Running", &[json!(true), json!(true)])),
        "held by a gate alone"
    );
    assert!(is_broken(&pod("Running", &[json!(true), json!(false)])));
    assert!(
        is_broken(&pod("Running", &[json!(true), json!(null)])),
        "no status yet"
    );
    assert!(is_broken(&pod("Pending", &[json!(true)])));
}

fn pod(updated: bool, broken: bool) -> Held {
    Held {
        updated,
        current: !updated,
        available: !broken,
        scheduled: true,
        broken,
        to_delete: false,
        preparing_delete: false,
    }
}

fn wanted(replicas: usize, max_unavailable: usize) -> Wanted {
    Wanted {
        replicas,
        max_unavailable,
        scale_max_unavailable: usize::MAX,
        updates: true,
        ..Wanted::default()
    }
}

/// Sorts as decisions do: broken pods first.
fn broken_first(numbers: &Numbers, held: &[Held]) -> Vec<Held> {
    let mut old: Vec<_> = held
        .iter()
        .copied()
        .filter(|pod| pod.updated == numbers.back && !pod.to_delete)
        .collect();
    old.sort_by_key(|pod| !pod.broken);
    let candidate = |pod: &Held| Candidate {
        available: pod.available,
        broken: pod.broken,
        begun: false,
    };
    old.truncate(admitted(numbers, old.iter().map(candidate)));
    old
}

#[test]
fn repairs_by_case() {
    // replicas, maxUnavailable; old broken, old serving, updated serving, updated failing =>
    // updated now: broken, serving
    let table = [
        ((5, 1), (3, 2, 0, 0), (3, 0)),
        ((5, 1), (5, 0, 0, 0), (5, 0)),
        ((5, 1), (1, 4, 0, 0), (1, 0)),
        ((5, 2), (1, 4, 0, 0), (1, 1)),
        ((5, 1), (2, 2, 1, 0), (2, 0)),
        ((5, 1), (2, 2, 0, 1), (0, 0)),
        ((5, 3), (2, 2, 0, 1), (2, 0)),
        ((5, 1), (0, 5, 0, 0), (0, 1)),
        // A quota prevents the creation of missing pods; broken pods are repaired nevertheless.
        ((5, 1), (3, 0, 0, 0), (3, 0)),
        ((5, 0), (2, 3, 0, 0), (2, 0)),
    ];
    for ((replicas, max_unavailable), (broken, serve, updated, fail), expected) in table {
        let held = [
            vec![pod(false, true); broken],
            vec![pod(false, false); serve],
            vec![pod(true, false); updated],
            vec![pod(true, true); fail],
        ]
        .concat();
        let numbers = numbers(&wanted(replicas, max_unavailable), held.iter().copied());
        let now = broken_first(&numbers, &held);
        let got = (
            now.iter().filter(|pod| pod.broken).count(),
            now.iter().filter(|pod| !pod.broken).count(),
        );
        assert_eq!(
            got, expected,
            "{replicas} replicas, maxUnavailable {max_unavailable}: {broken} broken, {serve} serve, {updated} updated, {fail} fail"
        );
    }
}

prop_compose! {
    fn any_pod()(updated in any::<bool>(), broken in any::<bool>(), to_delete in prop::bool::weighted(0.1)) -> Held {
        Held { to_delete, ..pod(updated, broken) }
    }
}

proptest! {
    /// A revision that fails from the first pod on gets the broken pods, and then at most
    /// `maxUnavailable` pods.
    #[test]
    fn bad_revision_replaces_no_serving_pods(
        held in prop::collection::vec(any_pod(), 1..12), max_unavailable in 0usize..4, missing in 0usize..3,
    ) {
        let mut held = held;
        let wanted = wanted(held.len() + missing, max_unavailable);
        let serve = |held: &[Held]| held.iter().filter(|pod| pod.available).count();
        let before = serve(&held);
        for _ in 0..20 {
            let numbers = numbers(&wanted, held.iter().copied());
            let now = broken_first(&numbers, &held);
            let mut taken = now.clone();
            held.retain(|pod| taken.iter().position(|t| t == pod).is_none_or(|at| { taken.swap_remove(at); false }));
            held.extend(now.iter().map(|_| pod(true, true)));
        }
        let floor = wanted.replicas.saturating_sub(max_unavailable);
        prop_assert!(serve(&held) >= before.min(floor), "{before} served, {} do, {floor} are promised", serve(&held));
    }

    /// While no pod of the new revision is down, every broken pod is updated now, unless the
    /// partition keeps it.
    #[test]
    fn broken_old_pods_are_updated_first(
        held in prop::collection::vec(any_pod(), 1..12), max_unavailable in 0usize..4, missing in 0usize..3,
    ) {
        let held: Vec<_> = held.into_iter().filter(|pod| !(pod.updated && pod.broken)).collect();
        let numbers = numbers(&wanted(held.len() + missing, max_unavailable), held.iter().copied());
        let broken = held.iter().filter(|pod| !pod.updated && pod.broken && !pod.to_delete).count();
        let now = broken_first(&numbers, &held);
        prop_assert_eq!(now.iter().filter(|pod| pod.broken).count(), broken.min(numbers.update));
    }
}
