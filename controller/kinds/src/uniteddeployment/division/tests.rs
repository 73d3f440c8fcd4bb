use proptest::collection::vec;
use proptest::prelude::*;

use super::Mode::{Adaptive, Fixed, Reserve};
use super::Reason::{
    EvenShare, Max, Min, NothingLeft, Ready, Rest, Specified, Substitutes, TooFewReplicas,
    Unschedulable,
};
use super::*;

#[derive(Debug, Clone)]
struct Owned {
    name: String,
    replicas: Option<IntOrString>,
    min: Option<IntOrString>,
    max: Option<IntOrString>,
    present: i32,
    ready: i32,
    reserved: i32,
    schedulable: bool,
    marked: bool,
}

impl Owned {
    /// `1..2` has minReplicas 1 and maxReplicas 2, `25%` has replicas, `-` has neither.
    /// State `2/1` has two pods, one of them reserved, `2!` is unschedulable, `2m` is marked.
    fn of(index: usize, spec: &str, state: &str) -> Self {
        let value = |text: &str| match text.parse() {
            Ok(number) => Some(IntOrString::Int(number)),
            Err(_) => {
                Some(IntOrString::String(text.to_owned())).filter(|_| !["", "-"].contains(&text))
            }
        };
        let (replicas, (min, max)) = match spec.split_once("..") {
            Some((min, max)) => (None, (value(min), value(max))),
            None => (value(spec), (None, None)),
        };
        let (present, reserved) = state
            .trim_end_matches(['!', 'm'])
            .split_once('/')
            .unwrap_or((state, "0"));
        let present: i32 = present.trim_end_matches(['!', 'm']).parse().unwrap();
        let reserved: i32 = reserved.parse().unwrap();
        let schedulable = reserved == 0 && !state.contains('!');
        let marked = reserved > 0 || state.contains('m');
        let name = format!("subset-{index}");
        Self {
            name,
            replicas,
            min,
            max,
            present,
            ready: (present - reserved).max(0),
            reserved,
            schedulable,
            marked,
        }
    }

    fn all(specs: &str, states: &str) -> Vec<Self> {
        let pairs = specs.split_whitespace().zip(states.split_whitespace());
        pairs
            .enumerate()
            .map(|(index, (spec, state))| Self::of(index, spec, state))
            .collect()
    }

    fn subset(&self) -> Subset<'_> {
        let Self {
            name,
            replicas,
            min,
            max,
            present,
            ready,
            reserved,
            schedulable,
            marked,
        } = self;
        let (replicas, min, max) = (replicas.as_ref(), min.as_ref(), max.as_ref());
        let (present, ready, reserved) = (*present, *ready, *reserved);
        Subset {
            name,
            replicas,
            min,
            max,
            present,
            ready,
            reserved,
            schedulable: *schedulable,
            marked: *marked,
        }
    }

    /// The present pods that serve, as the division counts them.
    fn serving(&self) -> i32 {
        (self.present - self.reserved).max(0)
    }
}

fn division(mode: Mode, replicas: impl Into<Option<i32>>, subsets: &[Owned]) -> Division {
    divide(
        mode,
        replicas.into(),
        &subsets.iter().map(Owned::subset).collect::<Vec<_>>(),
    )
    .unwrap()
}

fn replicas(division: &Division) -> Vec<i32> {
    division.shares.iter().map(|share| share.replicas).collect()
}

fn reasons(division: &Division) -> Vec<Reason> {
    division.shares.iter().map(|share| share.reason).collect()
}

fn sum(division: &Division) -> i64 {
    division
        .shares
        .iter()
        .map(|share| i64::from(share.replicas))
        .sum()
}

type Case = (i32, &'static str, &'static str, &'static [i32]);

fn check(mode: Mode, cases: &[Case]) {
    for (total, specs, states, expected) in cases {
        let division = division(mode, *total, &Owned::all(specs, states));
        assert_eq!(
            replicas(&division),
            *expected,
            "{total} over {specs} at {states}"
        );
        assert_eq!(division.findings, [], "{total} over {specs} at {states}");
    }
}

#[test]
fn fixed_gives_specified_then_even_shares() {
    check(
        Fixed,
        &[
            (3, "25% 25% -", "0 0 0", &[1, 1, 1]),
            (4, "25% 25% -", "1 1 1", &[1, 1, 2]),
            (1, "25% 25% -", "1 1 2", &[0, 0, 1]),
            (5, "- - - -", "1 4 2 2", &[1, 2, 1, 1]),
            (0, "-", "2", &[0]),
            (17, "- - - -", "1 4 2 2", &[4, 5, 4, 4]),
            (9, "- - - -", "2 4 2 2", &[2, 3, 2, 2]),
            (19, "- -", "0 10", &[9, 10]),
            (21, "- -", "0 10", &[10, 11]),
            (27, "4 - 4 -", "1 4 2 2", &[4, 10, 4, 9]),
            (8, "4 - 4 -", "2 4 2 2", &[4, 0, 4, 0]),
            (16, "4 4 4 4", "2 4 2 2", &[4, 4, 4, 4]),
            (10, "1 2 3 -", "4 2 2 2", &[1, 2, 3, 4]),
            (10, "1 2 3 4", "4 2 2 2", &[1, 2, 3, 4]),
            // Ties go to the later names.
            (5, "- - -", "0 0 0", &[1, 2, 2]),
            (2, "50% 050%", "0 0", &[1, 1]),
        ],
    );
    let mut subsets = Owned::all("- - -", "1 1 1");
    subsets[0].name = "z".to_owned();
    assert_eq!(replicas(&division(Fixed, 4, &subsets)), [2, 1, 1]);
}

#[test]
fn fixed_gives_mins_then_fills_up_to_maxs() {
    check(
        Fixed,
        &[
            (3, "1..2 1..2 1..", "0 0 0", &[1, 1, 1]),
            (7, "1..2 1..2 1..", "1 1 1", &[2, 2, 3]),
            (1, "1..2 1..2 1..", "2 2 3", &[1, 0, 0]),
            (5, "2..4 2..", "0 0", &[3, 2]),
            (10, "2..5 2..5 2..5 2..5 2..", "0 0 0 0 0", &[2, 2, 2, 2, 2]),
            (14, "2..5 2..5 2..5 2..5 2..", "0 0 0 0 0", &[5, 3, 2, 2, 2]),
            (5, "2..5 2..5 2..5 2..5 2..", "0 0 0 0 0", &[2, 2, 1, 0, 0]),
            // A missing minReplicas is 0, and the state of a subset does not count.
            (7, "..40% 1..", "9/9 0!", &[3, 4]),
            // Half of 3 is 2.
            (3, "..50% ..", "0 0", &[2, 1]),
        ],
    );
}

#[test]
fn adaptive_keeps_ready_pods() {
    check(
        Adaptive,
        &[
            (10, "3..5 ..", "0! 5", &[3, 7]),
            (10, "3..5 ..", "1! 5", &[3, 7]),
            (10, "3..5 ..", "4! 5", &[4, 6]),
            (10, "3..5 ..", "5 5", &[5, 5]),
            (4, "1..2 ..", "1 1", &[2, 2]),
            (3, "1..2 ..", "2 2", &[2, 1]),
            (1, "1..2 ..", "2 1", &[1, 0]),
            (3, "1..2 ..", "0! 3", &[1, 2]),
            (3, "0..2 ..", "0! 3", &[0, 3]),
            (4, "0..2 0.. 0.. 0..", "0 0 0 0", &[2, 2, 0, 0]),
            (4, "0..2 0.. 0.. 0..", "2 0! 0 0", &[2, 0, 2, 0]),
            (4, "0..2 0.. 0.. 0..", "2 0! 0! 0", &[2, 0, 0, 2]),
            (8, "0..2 0.. 0.. 0..", "2 0! 0! 2", &[2, 0, 0, 6]),
            (8, "0..2 0.. 0.. 0..", "2 0 0 2", &[2, 4, 0, 2]),
            (4, "0.. 0.. 0.. 0..", "2 0 0 6", &[2, 0, 0, 2]),
            // Two of three subsets have a maximum, and the second cannot schedule, then recovers.
            (3, "..2 ..2 -", "2 0! 0", &[2, 0, 1]),
            (5, "..2 ..2 -", "2 0! 1", &[2, 0, 3]),
            (4, "..2 ..2 -", "2 0! 3", &[2, 0, 2]),
            (4, "..2 ..2 -", "2 0 2", &[2, 0, 2]),
            (5, "..2 ..2 -", "2 0 2", &[2, 1, 2]),
            (3, "..2 ..2 -", "2 0 2", &[2, 0, 1]),
            (6, "..2 ..2 - 2..", "2 0 1 0", &[2, 1, 1, 2]),
            (6, "..2 ..2 - 2..", "2 0! 1 2", &[2, 0, 2, 2]),
            (6, "..2 ..2 -", "2 0 2", &[2, 2, 2]),
            (3, "..2 ..2 -", "2 2 2", &[2, 1, 0]),
            (5, "..2 ..2 -", "2 1 0", &[2, 2, 1]),
            // The first of two has a minimum and cannot schedule, then recovers.
            (4, "1..2 -", "0! 2", &[1, 3]),
            (3, "1..2 -", "1 2", &[1, 2]),
            (5, "1..2 -", "1 2", &[2, 3]),
            (4, "1..2 -", "2 3", &[2, 2]),
            (1, "1..2 -", "2 1", &[1, 0]),
        ],
    );
}

#[test]
fn reserve_runs_substitutes_further_down() {
    check(
        Reserve,
        &[
            (8, "1..2 1..2 1..2 1..", "0 0 0 0", &[2, 2, 2, 2]),
            (8, "1..2 1..2 1..2 1..", "2 2/2 2/2 2", &[2, 2, 2, 6]),
            (8, "1..2 1..2 1..2 1..", "2 2/1 2/1 6", &[2, 2, 2, 4]),
            (8, "1..2 1..2 1..2 1..", "2 2m 2/1 4", &[2, 2, 2, 3]),
            (8, "1..2 1..2 1..2 1..", "2 2 2m 3", &[2, 2, 2, 2]),
            (16, "2..4 2..4 2..4 2..", "2 2/1 2/1 6", &[4, 2, 2, 10]),
            (8, "1..2 1..2 1..2 1..", "4 2/1 2/1 10", &[2, 2, 2, 4]),
            (16, "2..4 2..4 2..4 2..", "4 2m 2m 10", &[4, 4, 4, 8]),
            (16, "2..4 2..4 2..4 2..", "4 4/2 4/2 8", &[4, 4, 4, 8]),
            (16, "2..4 2..4 2..4 2..", "4 4m 4m 8", &[4, 4, 4, 4]),
            (2, "- - -", "0 0 0", &[2, 0, 0]),
            (2, "- - -", "2/2 0 0", &[2, 2, 0]),
            (2, "- - -", "2/2 2/2 0", &[2, 2, 2]),
            (4, "- - -", "2/2 2/2 2", &[2, 2, 4]),
            (4, "- - -", "2/4 2m 4", &[2, 4, 2]),
            (4, "- - -", "2/4 4/2 2", &[2, 4, 2]),
            (4, "- - -", "2/4 4m 2", &[2, 4, 0]),
            (2, "- - -", "2/2 2/1 2", &[2, 2, 1]),
            (2, "- - -", "2 2/1 1", &[2, 0, 0]),
            (2, "- - -", "2 2 0", &[2, 0, 0]),
            (4, "- - -", "2m 2/2 4", &[4, 2, 2]),
            (2, "1.. 1.. 0..", "0 0 0", &[1, 1, 0]),
            (2, "1.. 1.. 0..", "1/1 1/1 0", &[1, 1, 2]),
            (2, "1.. 1.. 0..", "1m 1/1 2", &[2, 1, 1]),
            (2, "1.. 1.. 0..", "2/1 1/1 1", &[2, 1, 1]),
            (2, "1.. 1.. 0..", "2 1/1 1", &[2, 1, 0]),
            (2, "1.. 1.. 0..", "2 1m 0", &[1, 1, 0]),
            (4, "1.. 1.. -", "1/1 1/1 2", &[1, 1, 4]),
            (5, "1.. 1.. -", "4 1/1 0", &[5, 1, 0]),
            // An unschedulable subset does not grow to its minimum, even if nothing is left after
            // all minimums.
            (4, "3.. 1.. -", "1/1 0 0", &[1, 4, 0]),
            (4, "3.. 3.. -", "1/0! 3 0", &[1, 3, 0]),
            // A smaller maximum counts there as well.
            (4, "..1 -", "2/2 2", &[1, 4]),
            // A subset that is added replaces others only when its pods serve.
            (4, "- -", "0m 4", &[4, 4]),
            (4, "2.. -", "0m 4", &[4, 4]),
            (1, "1.. -", "2/2 1", &[1, 1]),
            (4, "- -", "4/1 4", &[4, 1]),
            (4, "- -", "4m 1", &[4, 0]),
            (4, "-", "2m", &[4]),
        ],
    );
}

#[test]
fn division_says_why_each_subset_gets_its_share() {
    let cases: &[(Mode, i32, &str, &str, &[Reason])] = &[
        (Fixed, 4, "25% -", "0 0", &[Specified, EvenShare]),
        (Fixed, 1, "- -", "0 0", &[EvenShare, EvenShare]),
        (Fixed, 3, "2 2", "0 0", &[Specified, TooFewReplicas]),
        (Fixed, 5, "2 2", "0 0", &[EvenShare, Specified]),
        (
            Fixed,
            7,
            "1..2 1..4 3.. ..1 ..",
            "0 0 0 0 0",
            &[Max, Rest, Min, NothingLeft, NothingLeft],
        ),
        (
            Fixed,
            2,
            "1..1 2..4 ..0 ..",
            "0 0 0 0",
            &[Max, TooFewReplicas, Max, NothingLeft],
        ),
        (Fixed, 4, "3..50% ..", "0 0", &[Min, Rest]),
        (
            Adaptive,
            7,
            "..2 .. .. ..",
            "2 1! 3 0",
            &[Max, Unschedulable, Rest, NothingLeft],
        ),
        (
            Adaptive,
            3,
            ".. .. ..",
            "0! 3 0",
            &[Unschedulable, Ready, NothingLeft],
        ),
        (
            Reserve,
            3,
            ".. .. ..",
            "2/1 1 0",
            &[Unschedulable, Substitutes(1), NothingLeft],
        ),
        (
            Reserve,
            4,
            ".. .. ..",
            "2/2 2/2 0",
            &[Unschedulable, Unschedulable, Substitutes(4)],
        ),
        (
            Reserve,
            4,
            ".. 1.. ..",
            "4 1/1 0",
            &[Substitutes(1), Unschedulable, NothingLeft],
        ),
        (Reserve, 2, "..4 ..", "0m 2", &[Rest, Substitutes(2)]),
    ];
    for (mode, total, specs, states, expected) in cases {
        let division = division(*mode, *total, &Owned::all(specs, states));
        assert_eq!(
            reasons(&division),
            *expected,
            "{total} over {specs} at {states}"
        );
    }
}

#[test]
fn share_has_bounds_and_reserved_pods() {
    let division = division(Reserve, 8, &Owned::all("25%..50% ..", "3/2 5"));
    let [first, second] = division.shares[..] else {
        panic!("{division:?}")
    };
    assert_eq!(
        (first.replicas, first.reserved, first.bounds),
        (
            3,
            2,
            Bounds {
                min: 2,
                max: Some(4)
            }
        )
    );
    assert_eq!(
        (second.replicas, second.reserved, second.bounds),
        (7, 0, Bounds { min: 0, max: None })
    );
}

#[test]
fn numbers_that_do_not_fit_are_divided_in_order() {
    let sum = |specified, total| Finding::Sum { specified, total };
    let cases: &[(Mode, Case, Finding)] = &[
        (Fixed, (3, "50% 50%", "0 0", &[2, 1]), sum(4, 3)),
        (Fixed, (1, "50% 50% -", "0 0 0", &[1, 0, 0]), sum(2, 1)),
        (Fixed, (8, "6 6 -", "0 0 0", &[6, 2, 0]), sum(12, 8)),
        (Fixed, (10, "33% 33% 33%", "0 0 0", &[4, 3, 3]), sum(9, 10)),
        (Fixed, (9, "2 2", "0 0", &[5, 4]), sum(4, 9)),
        (
            Fixed,
            (4, "3..50% ..", "0 0", &[3, 1]),
            Finding::MinAboveMax {
                subset: 0,
                min: 3,
                max: 2,
            },
        ),
        (Fixed, (9, "1..2 ..3", "0 0", &[2, 3]), Finding::Unplaced(4)),
        (
            Adaptive,
            (4, "..2 ..", "2 0!", &[2, 0]),
            Finding::Unplaced(2),
        ),
        (
            Reserve,
            (4, ".. ..", "2/2 1/1", &[2, 1]),
            Finding::Unplaced(4),
        ),
        (Fixed, (3, "", "", &[]), Finding::Unplaced(3)),
    ];
    for (mode, (total, specs, states, expected), finding) in cases {
        let division = division(*mode, *total, &Owned::all(specs, states));
        assert_eq!(replicas(&division), *expected, "{total} over {specs}");
        assert_eq!(division.findings, [*finding], "{total} over {specs}");
    }
}

#[test]
fn missing_replicas_are_the_sum_of_numbers_or_one() {
    let cases: &[(&str, &[i32])] = &[
        ("2 3", &[2, 3]),
        ("2 -", &[1, 0]),
        ("50% 3", &[1, 0]),
        ("1..2 ..", &[1, 0]),
        ("- -", &[0, 1]),
    ];
    for (specs, expected) in cases {
        assert_eq!(
            replicas(&division(Fixed, None, &Owned::all(specs, "0 0"))),
            *expected,
            "{specs}"
        );
    }
    assert_eq!(
        division(Fixed, None, &Owned::all("2 3", "0 0")).findings,
        []
    );
}

#[test]
fn malformed_numbers_name_their_field() {
    let cases = [
        ("x", "subsets[0].replicas: \"x\""),
        ("12.5%", "subsets[0].replicas: \"12.5%\""),
        ("101%", "subsets[0].replicas: \"101%\""),
        ("-1", "subsets[0].replicas: -1"),
        ("1%%..", "subsets[0].minReplicas: \"1%%\""),
        ("..999999999%", "subsets[0].maxReplicas: \"999999999%\""),
    ];
    for (spec, says) in cases {
        let message = divide(Fixed, Some(10), &[Owned::of(0, spec, "0").subset()]).unwrap_err();
        assert!(
            message.starts_with(&format!("spec.topology.{says} ")),
            "{message}"
        );
    }
}

fn pods() -> impl Strategy<Value = i32> {
    prop_oneof![9 => 0..12, 1 => Just(i32::MAX)]
}

fn value() -> impl Strategy<Value = IntOrString> {
    prop_oneof![
        pods().prop_map(IntOrString::Int),
        (0..=100).prop_map(|part| IntOrString::String(format!("{part}%")))
    ]
}

prop_compose! {
    fn any_subset()(
        values in (prop::option::of(value()), prop::option::of(value()), prop::option::of(value())),
        counts in (pods(), pods(), pods()),
        schedulable in any::<bool>(),
        marked in any::<bool>(),
    ) -> Owned {
        let ((replicas, min, max), (present, ready, reserved)) = (values, counts);
        Owned { name: String::new(), replicas, min, max, present, ready, reserved, schedulable, marked }
    }
}

prop_compose! {
    /// Subsets of which none has minReplicas or maxReplicas, or of which the last has no
    /// maxReplicas.
    fn any_subsets()(mut subsets in vec(any_subset(), 1..6), by_number in any::<bool>()) -> Vec<Owned> {
        for (index, subset) in subsets.iter_mut().enumerate() {
            subset.name = format!("{index}");
            if by_number {
                (subset.min, subset.max) = (None, None);
            }
        }
        subsets.last_mut().unwrap().max = None;
        subsets
    }
}

/// The subsets after the division is in force. Pods that served are deleted last, new pods of a
/// subset that is unschedulable or marked are reserved, and other new pods are ready.
fn settled(mode: Mode, subsets: &[Owned], division: &Division) -> Vec<Owned> {
    let next = subsets.iter().zip(&division.shares).map(|(subset, share)| {
        let present = share.replicas;
        let held = !subset.schedulable || (mode == Reserve && subset.marked);
        let serving = if mode == Reserve {
            subset.serving()
        } else {
            subset.ready
        };
        let ready = if held { present.min(serving) } else { present };
        Owned {
            present,
            ready,
            reserved: if mode == Reserve { present - ready } else { 0 },
            ..subset.clone()
        }
    });
    next.collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn fixed_division_sums_up_to_the_replicas(total in pods(), subsets in any_subsets()) {
        prop_assert_eq!(sum(&division(Fixed, total, &subsets)), i64::from(total));
    }

    #[test]
    fn adaptive_division_never_exceeds_the_replicas(total in pods(), subsets in any_subsets()) {
        let division = division(Adaptive, total, &subsets);
        prop_assert!(sum(&division) <= i64::from(total));
        prop_assert!(sum(&division) == i64::from(total) || !subsets.last().unwrap().schedulable);
    }

    #[test]
    fn reserve_division_reaches_the_replicas(total in pods(), subsets in any_subsets()) {
        let division = division(Reserve, total, &subsets);
        prop_assert!(sum(&division) >= i64::from(total) || !subsets.last().unwrap().schedulable);
    }

    /// Either the replicas are served, or no subset gives up a pod that serves.
    #[test]
    fn reserve_division_gives_up_no_needed_pod(total in pods(), subsets in any_subsets()) {
        let division = division(Reserve, total, &subsets);
        let serves = |share: &Share| i64::from(share.replicas - share.reserved);
        let served: i64 = division.shares.iter().map(serves).sum();
        prop_assert!(served <= i64::from(total));
        for (subset, share) in subsets.iter().zip(&division.shares) {
            let allowed = share.bounds.max.unwrap_or(i64::MAX).max(share.bounds.min);
            prop_assert!(served == i64::from(total) || serves(share) >= allowed.min(subset.serving().into()));
        }
    }

    #[test]
    fn division_keeps_the_bounds(total in pods(), subsets in any_subsets()) {
        for mode in [Fixed, Adaptive, Reserve] {
            let division = division(mode, total, &subsets);
            let found = !division.findings.is_empty();
            let mins: i64 = division.shares.iter().map(|share| share.bounds.min).sum();
            for (subset, share) in subsets.iter().zip(&division.shares) {
                let (replicas, Bounds { min, max }) = (i64::from(share.replicas), share.bounds);
                let kept = mode == Adaptive && !subset.schedulable && replicas <= subset.ready.into();
                prop_assert!(replicas <= total.into(), "{mode:?} {division:?}");
                prop_assert!(found || kept || max.is_none_or(|max| replicas <= max), "{mode:?} {division:?}");
                let grows = share.replicas > subset.present;
                prop_assert!(mode != Reserve || subset.schedulable || !grows, "{division:?}");
                let held = mode != Fixed && subsets.iter().any(|subset| !subset.schedulable || subset.ready > 0);
                prop_assert!(held || mins > total.into() || replicas >= min, "{mode:?} {division:?}");
            }
        }
    }

    #[test]
    fn dividing_again_moves_no_pod(total in pods(), subsets in any_subsets()) {
        for mode in [Fixed, Adaptive, Reserve] {
            let first = division(mode, total, &subsets);
            let settled = settled(mode, &subsets, &first);
            prop_assert_eq!(replicas(&division(mode, total, &settled)), replicas(&first), "{:?}", mode);
        }
    }

    /// With numbers, a scale up deletes no pod.
    #[test]
    fn scaling_up_takes_no_pod_away(total in 0..30, more in 0..30, mut subsets in any_subsets()) {
        for subset in &mut subsets {
            subset.schedulable = true;
            for value in [&mut subset.replicas, &mut subset.min, &mut subset.max] {
                if let Some(value @ IntOrString::String(_)) = value {
                    *value = IntOrString::Int(3);
                }
            }
        }
        for mode in [Fixed, Adaptive] {
            let before = division(mode, total, &subsets);
            let after = division(mode, total + more, &settled(mode, &subsets, &before));
            let pairs = before.shares.iter().zip(&after.shares);
            prop_assert!(pairs.clone().all(|(before, after)| before.replicas <= after.replicas), "{before:?} {after:?}");
        }
    }

    /// When all pods serve in the end, the division is that of schedulable subsets.
    #[test]
    fn reserve_division_ends_without_substitutes(total in 0..30, mut subsets in any_subsets()) {
        let mut last = None;
        for _ in 0..3 {
            for subset in &mut subsets {
                (subset.reserved, subset.schedulable, subset.marked) = (0, true, true);
            }
            let division = division(Reserve, total, &subsets);
            subsets = settled(Reserve, &subsets, &division);
            last = Some(division);
        }
        for subset in &mut subsets {
            (subset.reserved, subset.marked) = (0, false);
        }
        prop_assert_eq!(replicas(&last.unwrap()), replicas(&division(Reserve, total, &subsets)));
    }
}
