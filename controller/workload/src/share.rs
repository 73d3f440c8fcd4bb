//! How many objects of a kind count in one namespace.

use berth_api::commands;

/// The most PodUnavailableBudgets, DistributedPodDisruptionBudgets and PersistentPodStates that count in one namespace, of each.
pub const MOST: usize = 500;

/// Keeps the objects that count: the oldest, by name where two are of one time.
pub fn keep_oldest<T, K: Ord>(all: &mut Vec<T>, age: impl Fn(&T) -> K) {
    if all.len() > MOST {
        all.select_nth_unstable_by_key(MOST, age);
        all.truncate(MOST);
    }
}

/// Whether an object of this age does not count beside these, which it may be among.
pub fn is_beyond<K: Ord>(age: &K, all: impl Iterator<Item = K>) -> bool {
    all.filter(|other| other < age).nth(MOST - 1).is_some()
}

/// Why an object does not count, and the remedy.
pub fn beyond(kind: &str, namespace: &str, name: &str, holds: &str) -> String {
    let group = if kind == "PersistentPodState" {
        "apps.kruise.io"
    } else {
        "policy.kruise.io"
    };
    let list = commands::list(&format!("{}s.{group}", kind.to_lowercase()), namespace);
    format!(
        "{kind} {namespace}/{name} {holds}: {MOST} older ones of the namespace count, and no more; \
         delete those that are not needed: {list}"
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn oldest_count_and_the_name_decides_between_twins() {
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
        // In whatever order they are told: what is kept is what is not beyond.
        #[test]
        fn what_is_kept_is_not_beyond(mut ages in prop::collection::hash_set(0..5_000_u32, 0..1_200).prop_map(Vec::from_iter)) {
            let all = ages.clone();
            keep_oldest(&mut ages, |age| *age);
            prop_assert_eq!(ages.len(), all.len().min(MOST));
            for age in &all {
                prop_assert_eq!(ages.contains(age), !is_beyond(age, all.iter().copied()));
            }
        }
    }
}
