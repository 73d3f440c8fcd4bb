use proptest::prelude::*;

use super::*;

#[test]
fn oldest_objects_count_and_names_break_ties() {
    let twins = |last: &'static str| {
        (0..MOST)
            .map(|at| (at / 2, format!("b{at:04}")))
            .chain([(0, last.to_owned())])
    };
    for (last, left_out) in [("a", "b0499"), ("b9999", "b0499")] {
        let mut all: Vec<_> = twins(last).collect();
        keep_oldest(&mut all, Clone::clone);
        assert!(
            all.len() == MOST && all.iter().all(|(_, name)| name != left_out),
            "{last}"
        );
        assert!(
            is_beyond(&(249, left_out.to_owned()), twins(last)),
            "{last}"
        );
    }
    let youngest: Vec<_> = twins("c").map(|(at, name)| (at + 1, name)).collect();
    assert!(is_beyond(&(251, "c".to_owned()), youngest.into_iter()));
}

#[test]
fn message_names_object_limit_and_remedy() {
    assert_eq!(
        beyond("PodUnavailableBudget", "a", "web", "holds no pod"),
        "PodUnavailableBudget a/web holds no pod: 500 older ones of the namespace count, and no more; delete those that are \
             not needed: `kubectl get podunavailablebudgets.policy.kruise.io -n a`"
    );
}

proptest! {
    // For any order of reports: the kept objects are exactly the ones within the limit.
    #[test]
    fn kept_objects_are_within_the_share(mut ages in prop::collection::hash_set(0..5_000_u32, 0..1_200).prop_map(Vec::from_iter)) {
        let all = ages.clone();
        keep_oldest(&mut ages, |age| *age);
        prop_assert_eq!(ages.len(), all.len().min(MOST));
        for age in &all {
            prop_assert_eq!(ages.contains(age), !is_beyond(age, all.iter().copied()));
        }
    }
}
