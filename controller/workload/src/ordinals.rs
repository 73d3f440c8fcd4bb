//! The ordinals of a StatefulSet's pods.

use berth_api::IntOrString;

/// So many ordinals from a first one on, without those that are reserved. Reserved are intervals: `"0-2147483647"` takes no more
/// memory than `7`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ordinals {
    start: i64,
    /// How many there are.
    replicas: usize,
    /// Apart from each other, in order.
    reserved: Vec<(i64, i64)>,
    /// The first one behind the last.
    end: i64,
}

impl Ordinals {
    /// As a spec says it: so many, from a first one on, without these entries.
    ///
    /// # Errors
    /// The field below `spec`, and what is wrong with it.
    pub fn of_spec(
        replicas: Option<i32>,
        start: i32,
        reserved: &[IntOrString],
    ) -> Result<Self, (&'static str, String)> {
        let replicas = replicas.unwrap_or(1);
        let count = usize::try_from(replicas)
            .map_err(|_| ("replicas", format!("{replicas} is negative; use 0 or more")))?;
        if start < 0 {
            return Err((
                "ordinals.start",
                format!("{start} is negative; use 0 or more"),
            ));
        }
        let read = |entry: &IntOrString| {
            berth_api::ordinals::reserved(entry).map_err(|problem| {
                let value = serde_json::to_string(entry).unwrap_or_default();
                ("reserveOrdinals", format!("{value}: {problem}"))
            })
        };
        let ordinals = Self::new(
            start,
            count,
            reserved.iter().map(read).collect::<Result<Vec<_>, _>>()?,
        );
        match ordinals.last() {
            Some(last) if last > i64::from(i32::MAX) => {
                let most = i32::MAX;
                let problem = format!(
                    "leaves no {count} ordinals up to {most} from {start} on; reserve fewer, or begin lower"
                );
                Err(("reserveOrdinals", problem))
            }
            _ => Ok(ordinals),
        }
    }

    /// `replicas` ordinals from `start`, without the intervals, of which both ends are reserved.
    pub fn new(
        start: i32,
        replicas: usize,
        reserved: impl IntoIterator<Item = (i32, i32)>,
    ) -> Self {
        let start = i64::from(start);
        let mut reserved: Vec<_> = reserved
            .into_iter()
            .map(|(first, last)| (i64::from(first).max(start), i64::from(last)))
            .filter(|(first, last)| first <= last)
            .collect();
        reserved.sort_unstable();
        let mut apart: Vec<(i64, i64)> = Vec::new();
        for (first, last) in reserved {
            match apart.last_mut() {
                Some(before) if first <= before.1 + 1 => before.1 = before.1.max(last),
                _ => apart.push((first, last)),
            }
        }
        let mut left = i64::try_from(replicas).unwrap_or(i64::MAX >> 1);
        let mut end = start;
        for (first, last) in &apart {
            let free = first - end;
            if free >= left {
                break;
            }
            left -= free;
            end = last + 1;
        }
        Self {
            start,
            replicas,
            reserved: apart,
            end: end + left,
        }
    }

    /// Is there to be a pod of this ordinal?
    pub fn contains(&self, ordinal: i64) -> bool {
        (self.start..self.end).contains(&ordinal) && !self.is_reserved(ordinal)
    }

    /// How many of them are lower.
    pub fn rank(&self, ordinal: i64) -> usize {
        let taken: i64 = self
            .reserved
            .iter()
            .take_while(|(first, _)| *first < ordinal)
            .map(|(first, last)| (*last + 1).min(ordinal) - first)
            .sum();
        usize::try_from((ordinal - self.start - taken).max(0)).unwrap_or(usize::MAX)
    }

    /// All of them, the lowest first. There may be more than anybody can look through.
    pub fn iter(&self) -> impl Iterator<Item = i64> {
        let mut next = self.start;
        std::iter::from_fn(move || {
            if let Some((_, last)) = self
                .reserved
                .iter()
                .find(|(first, last)| (*first..=*last).contains(&next))
            {
                next = last + 1;
            }
            let ordinal = (next < self.end).then_some(next)?;
            next += 1;
            Some(ordinal)
        })
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.replicas == 0
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.replicas
    }

    /// The highest, if there is any.
    pub fn last(&self) -> Option<i64> {
        (self.replicas > 0).then(|| self.end - 1)
    }

    fn is_reserved(&self, ordinal: i64) -> bool {
        self.reserved
            .iter()
            .any(|(first, last)| (*first..=*last).contains(&ordinal))
    }
}

/// The ordinal in the name of a pod of this set. Another way to write the number is another name, and no pod of the set.
pub fn ordinal_of(set: &str, pod: &str) -> Option<i64> {
    let digits = pod.strip_prefix(set)?.strip_prefix('-')?;
    let ordinal: i32 = digits.parse().ok()?;
    (ordinal.to_string() == digits && ordinal >= 0).then_some(i64::from(ordinal))
}

/// The set that a pod of this name would be of, and its ordinal.
pub fn set_and_ordinal(pod: &str) -> Option<(&str, i64)> {
    let (set, _) = pod.rsplit_once('-')?;
    ordinal_of(set, pod).map(|ordinal| (set, ordinal))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ordinals_skip_what_is_reserved_and_begin_where_they_are_told() {
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
}
