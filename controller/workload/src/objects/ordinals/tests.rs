use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

#[test]
fn ordinals_begin_at_start_and_skip_reserved_ones() {
    type Case = (i32, usize, &'static [(i32, i32)], &'static [i64]);
    let table: [Case; 7] = [
        (0, 3, &[], &[0, 1, 2]),
        (5, 2, &[], &[5, 6]),
        (0, 3, &[(1, 1)], &[0, 2, 3]),
        (0, 3, &[(3, 9)], &[0, 1, 2]),
        (2, 3, &[(0, 2), (4, 4), (4, 5)], &[3, 6, 7]),
        (0, 0, &[(0, 1)], &[]),
        (0, 2, &[(0, i32::MAX)], &[1 << 31, (1 << 31) + 1]),
    ];
    for (start, replicas, reserved, expected) in table {
        let ordinals = Ordinals::new(start, replicas, reserved.iter().copied());
        assert_eq!(
            ordinals.iter().collect::<Vec<_>>(),
            expected,
            "{start} {replicas} {reserved:?}"
        );
        assert_eq!(ordinals.last(), expected.last().copied());
    }
    let many = Ordinals::new(0, usize::MAX, [(7, 7)]);
    assert!(many.contains(i64::from(i32::MAX)) && !many.contains(7));
    assert_eq!(many.iter().nth(7), Some(8));
}

#[test]
fn a_pods_ordinal_is_the_number_behind_the_sets_name() {
    for (pod, expected) in [
        ("web-0", Some(0)),
        ("web-10", Some(10)),
        ("web-2147483647", Some(2_147_483_647)),
        ("web-2147483648", None),
        ("web-01", None),
        ("web--1", None),
        ("web-+1", None),
        ("web-", None),
        ("web", None),
        ("web-x", None),
        ("webs-0", None),
        ("web-a-0", None),
    ] {
        assert_eq!(ordinal_of("web", pod), expected, "{pod}");
    }
    assert_eq!(set_and_ordinal("a-web-3"), Some(("a-web", 3)));
    assert_eq!(set_and_ordinal("web"), None);
}

proptest! {
    /// As one counts by hand.
    #[test]
    fn ordinals_are_the_lowest_that_are_not_reserved(
        start in 0i32..9, replicas in 0usize..9, reserved in prop::collection::vec((0i32..12, 0i32..4), 0..5),
    ) {
        let reserved: Vec<_> = reserved.into_iter().map(|(first, more)| (first, first + more)).collect();
        let taken: BTreeSet<i64> =
            reserved.iter().flat_map(|(first, last)| i64::from(*first)..=i64::from(*last)).collect();
        let naive: Vec<i64> = (i64::from(start)..).filter(|n| !taken.contains(n)).take(replicas).collect();
        let ordinals = Ordinals::new(start, replicas, reserved);
        prop_assert_eq!(ordinals.iter().collect::<Vec<_>>(), naive.clone());
        for ordinal in 0..60 {
            prop_assert_eq!(ordinals.contains(ordinal), naive.contains(&ordinal));
        }
        for (rank, ordinal) in naive.iter().enumerate() {
            prop_assert_eq!(ordinals.rank(*ordinal), rank);
        }
    }
}
