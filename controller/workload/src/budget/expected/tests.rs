use proptest::prelude::*;

use super::*;

/// How many pods a budget expects, and which workloads want how many.
type Budget<'a> = (usize, &'a [(&'a str, usize)]);
/// What it is, the budgets, and how many pods of each were expected before.
type Case<'a> = (&'a str, &'a [Budget<'a>], &'a [usize]);

#[test]
fn failed_count_is_retried_ever_more_slowly() {
    use crate::objects::condition::condition;
    let now: Timestamp = "2026-11-28T12:00:00Z".parse().unwrap();
    let ago = |seconds: i64| now - jiff::SignedDuration::from_secs(seconds);
    for (what, type_, is_true, since, expected) in [
        ("just now", BLOCKED, true, 0, 5),
        ("for a while", BLOCKED, true, 20, 20),
        ("for long", BLOCKED, true, 100_000, 60),
        ("by another clock", BLOCKED, true, -50, 5),
        ("not any more", BLOCKED, false, 100, 5),
        ("something else", "Enforced", true, 100, 5),
    ] {
        let told = condition(
            type_,
            is_true,
            "CalculateExpectedPodCountFailed",
            String::new(),
            ago(since),
        );
        assert_eq!(
            recheck_delay(false, &[told], now),
            Duration::from_secs(expected),
            "{what}"
        );
    }
    assert_eq!(
        recheck_delay(false, &[], now),
        Duration::from_secs(5),
        "nothing was told"
    );
    assert_eq!(
        recheck_delay(true, &[], now),
        Duration::from_secs(300),
        "known"
    );
}

#[test]
fn shared_workloads_are_expected_once() {
    let table: [Case<'_>; 9] = [
        ("one", &[(2, &[("web", 2)])], &[0]),
        (
            "the same",
            &[(2, &[("web", 2)]), (2, &[("web", 2)])],
            &[0, 2],
        ),
        (
            "nothing in common",
            &[(2, &[("web", 2)]), (3, &[("fe", 3)])],
            &[0, 0],
        ),
        (
            "one of two",
            &[(2, &[("web", 2)]), (4, &[("web", 2), ("fe", 2)])],
            &[0, 2],
        ),
        (
            "each with the next",
            &[
                (4, &[("a", 2), ("b", 2)]),
                (4, &[("b", 2), ("c", 2)]),
                (4, &[("c", 2), ("a", 2)]),
            ],
            &[0, 2, 4],
        ),
        (
            "counted when fewer were wanted",
            &[(9, &[("web", 9)]), (4, &[("web", 9), ("fe", 2)])],
            &[0, 2],
        ),
        (
            "counted when more were wanted",
            &[(2, &[("web", 2)]), (12, &[("web", 2), ("fe", 2)])],
            &[0, 2],
        ),
        (
            "one that says itself how many",
            &[(2, &[("web", 2)]), (3, &[("web", 2), ("fe", 2)])],
            &[0, 1],
        ),
        (
            "what the first lacks",
            &[(1, &[("web", 2)]), (2, &[("web", 2)])],
            &[0, 1],
        ),
    ];
    for (what, budgets, expected) in table {
        let mut together = Together::default();
        let wanted = |(uid, wanted): &(&str, usize)| ((*uid).to_owned(), *wanted);
        let found = budgets
            .iter()
            .map(|(expected, all)| together.add(*expected, all.iter().map(wanted).collect()));
        assert_eq!(found.collect::<Vec<_>>(), expected, "{what}");
    }
}

const UIDS: [&str; 5] = ["a", "b", "c", "d", "e"];

proptest! {
    // For any budgets: together they expect as many pods as all workloads want, less what each
    // budget itself expects too few.
    #[test]
    fn expected_total_is_at_least_what_workloads_want(
        budgets in prop::collection::vec((0..12_usize, prop::sample::subsequence(UIDS.to_vec(), 0..=3)), 1..6),
    ) {
        let (mut together, mut union) = (Together::default(), Wanted::new());
        let (mut all, mut lacks, mut is_exact) = (0, 0, true);
        for (expected, uids) in budgets {
            let its = UIDS.into_iter().zip(1..).filter(|(uid, _)| uids.contains(uid));
            let its: Wanted = its.map(|(uid, wanted)| (uid.to_owned(), wanted)).collect();
            let of_its_own: usize = its.values().sum();
            let before = together.add(expected, its.clone());
            prop_assert!(before <= expected, "{before} of {expected}");
            all += expected - before;
            lacks += of_its_own.saturating_sub(expected);
            is_exact &= of_its_own == expected;
            union.extend(its);
            let wanted: usize = union.values().sum();
            prop_assert!(all >= expected && all + lacks >= wanted, "{all} and {lacks} of {wanted}");
            prop_assert!(!is_exact || all == wanted, "{all} of {wanted}");
        }
    }
}
