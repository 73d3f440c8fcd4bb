use proptest::prelude::*;

use super::*;

fn pods(old: usize, updated: usize) -> Vec<Held> {
    let pod = |updated| Held {
        updated,
        current: !updated,
        available: true,
        scheduled: true,
        broken: false,
        to_delete: false,
        preparing_delete: false,
    };
    [vec![pod(false); old], vec![pod(true); updated]].concat()
}

fn wanted(replicas: usize, partition: usize, max_unavailable: usize, max_surge: usize) -> Wanted {
    Wanted {
        replicas,
        partition,
        max_unavailable,
        max_surge,
        replaces_first: false,
        scale_max_unavailable: usize::MAX,
        updates: true,
        rolls_back: false,
        exclude_preparing_delete: false,
    }
}

#[test]
fn numbers_by_case() {
    // replicas, partition, maxUnavailable, maxSurge; old, updated => create updated/old, delete
    // old/updated, update
    let table = [
        ((3, 0, 1, 0), (0, 0), (3, 0, 0, 0, 0)),
        ((3, 0, 1, 0), (3, 0), (0, 0, 0, 0, 3)),
        ((3, 2, 1, 0), (3, 0), (0, 0, 0, 0, 1)),
        ((3, 3, 1, 0), (3, 0), (0, 0, 0, 0, 0)),
        ((3, 0, 0, 1), (3, 0), (1, 0, 0, 0, 3)),
        ((3, 0, 0, 1), (3, 1), (0, 0, 0, 0, 2)),
        ((3, 0, 0, 1), (1, 3), (0, 0, 1, 0, 0)),
        ((5, 2, 1, 0), (1, 2), (1, 1, 0, 0, 0)),
        ((2, 0, 1, 0), (3, 2), (0, 0, 3, 0, 0)),
        ((2, 1, 1, 0), (3, 2), (0, 0, 2, 1, 0)),
        ((0, 0, 1, 0), (2, 2), (0, 0, 2, 2, 0)),
    ];
    for ((r, p, u, s), (old, updated), (cu, co, d_old, du, up)) in table {
        let n = numbers(&wanted(r, p, u, s), pods(old, updated).into_iter());
        let got = (
            n.create_updated,
            n.create_old,
            n.delete_old,
            n.delete_updated,
            n.update,
        );
        assert_eq!(
            got,
            (cu, co, d_old, du, up),
            "replicas {r} partition {p} surge {s}: {old} old, {updated} updated"
        );
    }
}

#[test]
fn deleted_pods_are_replaced_first_within_surge() {
    let mut held = pods(0, 3);
    held[0].to_delete = true;
    let n = numbers(&wanted(3, 0, 0, 1), held.iter().copied());
    assert_eq!((n.create_updated, n.disruptions), (1, 0));
    held.extend(pods(0, 1));
    let n = numbers(&wanted(3, 0, 0, 1), held.into_iter());
    assert_eq!(
        (n.create_updated, n.disruptions, n.delete_updated),
        (0, 1, 0)
    );
}

#[test]
fn old_pod_is_replaced_by_old_one_within_partition() {
    for (partition, create_old) in [(3, 1), (0, 0)] {
        let mut held = pods(3, 0);
        held[0].to_delete = true;
        let mut wanted = wanted(3, partition, 0, 1);
        wanted.updates = false;
        let n = numbers(&wanted, held.into_iter());
        assert_eq!(
            (n.create_old, n.create_updated),
            (create_old, 1 - create_old),
            "partition {partition}"
        );
    }
}

#[test]
fn pods_to_delete_cause_no_further_deletions() {
    // replicas, partition; old, updated, old to delete, updated to delete => delete old, updated
    let table = [
        ((2, 0), (3, 0, 1, 0), (0, 0)),
        ((2, 0), (0, 3, 0, 1), (0, 0)),
        ((2, 0), (4, 0, 1, 0), (1, 0)),
        ((2, 0), (0, 4, 0, 1), (0, 1)),
        ((3, 2), (4, 2, 1, 0), (1, 1)),
        ((3, 2), (4, 2, 0, 1), (2, 0)),
        ((3, 0), (2, 2, 2, 2), (0, 0)),
    ];
    for ((replicas, partition), (old, updated, old_asked, updated_asked), expected) in table {
        let mut held = pods(old, updated);
        held[..old_asked]
            .iter_mut()
            .for_each(|pod| pod.to_delete = true);
        held[old..old + updated_asked]
            .iter_mut()
            .for_each(|pod| pod.to_delete = true);
        let n = numbers(&wanted(replicas, partition, 1, 0), held.into_iter());
        let what = format!(
            "{replicas} replicas, partition {partition}: {old_asked} of {old}, {updated_asked} of {updated}"
        );
        assert_eq!((n.delete_old, n.delete_updated), expected, "{what}");
    }
}

#[test]
fn replace_first_workload_surges_despite_limits() {
    for ((replicas, max_unavailable, max_surge), asked, surge) in [
        ((1, 1, 0), 1, 1),
        ((4, 2, 0), 1, 1),
        ((4, 2, 0), 3, 1),
        ((4, 2, 2), 3, 2),
        ((4, 2, 0), 0, 0),
    ] {
        let wanted = Wanted {
            replaces_first: true,
            ..wanted(replicas, 0, max_unavailable, max_surge)
        };
        let mut pods = pods(0, replicas);
        pods.iter_mut()
            .take(asked)
            .for_each(|pod| pod.to_delete = true);
        let n = numbers(&wanted, pods.into_iter());
        assert_eq!(
            (n.surge, n.create_updated),
            (surge, surge),
            "{asked} of {replicas} are to be deleted"
        );
    }
}

#[test]
fn surge_is_the_larger_of_update_and_deletions() {
    // replicas, maxUnavailable, maxSurge; old, of them asked to go => pods above the replicas
    let table = [
        // Two are updated, and one is replaced: the update needs two.
        ((3, 0, 2), (3, 1), 2),
        ((3, 0, 1), (3, 1), 1),
        // One is updated, and two are replaced.
        ((3, 0, 3), (3, 2), 2),
        // What may be unavailable needs no replacement before it goes.
        ((3, 2, 3), (3, 2), 1),
        ((3, 0, 3), (3, 0), 3),
    ];
    for ((replicas, max_unavailable, max_surge), (old, asked), surge) in table {
        let mut held = pods(old, 0);
        held[..asked]
            .iter_mut()
            .for_each(|pod| pod.to_delete = true);
        let n = numbers(
            &wanted(replicas, 0, max_unavailable, max_surge),
            held.into_iter(),
        );
        let what = format!(
            "maxUnavailable {max_unavailable}, maxSurge {max_surge}: {asked} of {old} are to be deleted"
        );
        assert_eq!((n.surge, n.create_updated), (surge, surge), "{what}");
    }
}

#[test]
fn pod_in_preparing_delete_counts_unless_excluded() {
    for (exclude, created) in [(false, (1, 0)), (true, (1, 1))] {
        // One old pod and one updated one stay, and an old one is held.
        let mut held = pods(2, 1);
        held[0].preparing_delete = true;
        held[0].available = false;
        let mut wanted = wanted(4, 2, 4, 0);
        wanted.exclude_preparing_delete = exclude;
        let n = numbers(&wanted, held.into_iter());
        assert_eq!(
            (n.create_updated, n.create_old),
            created,
            "excluded: {exclude}"
        );
    }
}

#[test]
fn only_unavailable_wanted_pods_fail_a_revision() {
    type Edit = fn(&mut Held);
    let table: [(&str, Edit, usize); 5] = [
        ("it should serve", |_| {}, 1),
        (
            "somebody asked for its deletion",
            |pod| pod.to_delete = true,
            0,
        ),
        (
            "a hook holds it before its deletion",
            |pod| pod.preparing_delete = true,
            0,
        ),
        ("it has no node", |pod| pod.scheduled = false, 0),
        ("it serves", |pod| pod.available = true, 0),
    ];
    for (what, edit, fails) in table {
        let mut held = pods(3, 1);
        held[0].broken = true;
        held[0].available = false;
        held[3].available = false;
        edit(&mut held[3]);
        let n = numbers(&wanted(4, 0, 1, 0), held.into_iter());
        assert_eq!(
            (n.repair.fails, n.repair.free),
            (fails, 1 - fails),
            "{what}"
        );
    }
    for edit in [(|pod: &mut Held| pod.to_delete = true) as Edit, |pod| {
        pod.preparing_delete = true
    }] {
        let mut held = pods(3, 0);
        (held[0].broken, held[0].available) = (true, false);
        edit(&mut held[0]);
        assert_eq!(
            numbers(&wanted(3, 0, 1, 0), held.into_iter()).repair.free,
            0,
            "what goes is not repaired"
        );
    }
}

#[test]
fn unavailable_updated_pods_stop_the_rollout() {
    let mut held = pods(4, 2);
    held[4].available = false;
    held[5].available = false;
    let n = numbers(&wanted(6, 0, 2, 0), held.iter().copied());
    assert_eq!(admitted(&n, held[..4].iter().map(candidate)), 0);
    // Unavailable old pods may be updated, but only as many as may be unavailable at the new
    // revision.
    let mut held = pods(6, 0);
    held.iter_mut().for_each(|p| p.available = false);
    let n = numbers(&wanted(6, 0, 2, 0), held.iter().copied());
    assert_eq!(admitted(&n, held.iter().map(candidate)), 2);
}

fn candidate(pod: &Held) -> Candidate {
    Candidate {
        available: pod.available,
        broken: pod.broken,
        begun: false,
    }
}

fn any_held() -> impl Strategy<Value = Held> {
    let rare = || prop::bool::weighted(0.1);
    (
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        rare(),
        rare(),
        rare(),
    )
        .prop_map(
            |(updated, available, broken, older, to_delete, preparing)| Held {
                updated,
                current: !updated && !older,
                available: available && !preparing && !broken,
                scheduled: true,
                broken,
                to_delete,
                preparing_delete: preparing,
            },
        )
}

prop_compose! {
    fn any_wanted()(replicas in 0usize..12)(
        replicas in Just(replicas), partition in 0..=replicas, max_unavailable in 0usize..4, max_surge in 0usize..4,
        scale in prop_oneof![Just(usize::MAX), 0usize..4], updates in any::<bool>(), exclude in any::<bool>(),
        rolls_back in any::<bool>(),
    ) -> Wanted {
        Wanted { replicas, partition, max_unavailable, max_surge, replaces_first: false, scale_max_unavailable: scale, updates, rolls_back, exclude_preparing_delete: exclude }
    }
}

proptest! {
    #[test]
    fn limits_hold_for_any_pods(wanted in any_wanted(), held in prop::collection::vec(any_held(), 0..16)) {
        let n = numbers(&wanted, held.iter().copied());
        let excluded = |p: &&Held| wanted.exclude_preparing_delete && p.preparing_delete;
        let counted = held.iter().filter(|p| !excluded(p)).count();
        let created = n.create_old + n.create_updated;
        prop_assert!(created == 0 || counted + created <= wanted.replicas + wanted.max_surge);
        prop_assert!(created == 0 || n.delete_old + n.delete_updated == 0, "never both ways at once");
        prop_assert!(n.surge <= wanted.max_surge);
        let floor = wanted.replicas.saturating_sub(wanted.max_unavailable);
        let available = held.iter().filter(|p| p.available).count();
        prop_assert!(n.disruptions == 0 || available - n.disruptions >= floor);
        let candidates: Vec<_> = held.iter().filter(|p| p.updated == n.back && !p.preparing_delete).collect();
        let admitted = admitted(&n, candidates.iter().map(|p| candidate(p)));
        let disrupted = candidates[..admitted].iter().filter(|p| p.available).count();
        prop_assert!(disrupted <= n.disruptions);
        prop_assert!(wanted.updates || admitted == 0);
        let stays = if n.back { wanted.replicas - wanted.partition } else { wanted.partition };
        prop_assert!(admitted == 0 || candidates.len() - admitted >= stays, "the partition stays");
        prop_assert!(!n.back || wanted.rolls_back);
        let deletable = |updated| held.iter().filter(|p| p.updated == updated && !p.to_delete && !p.preparing_delete).count();
        prop_assert!(n.delete_old <= deletable(false) && n.delete_updated <= deletable(true));
    }
}
