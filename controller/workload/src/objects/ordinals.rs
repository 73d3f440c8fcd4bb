//! The ordinals of a StatefulSet's pods.

use berth_api::IntOrString;

/// A number of ordinals from a first one on, without the reserved ones. Reserved ordinals are
/// intervals, so that `"0-2147483647"` takes no more memory than `7`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ordinals {
    start: i64,
    /// The number of ordinals.
    replicas: usize,
    /// Disjoint and sorted.
    reserved: Vec<(i64, i64)>,
    /// The ordinal after the last one.
    end: i64,
}

impl Ordinals {
    /// The ordinals of a spec: this many, from a first one on, without these entries.
    ///
    /// # Errors
    /// The field below `spec`, and its fault.
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
            berth_api::fields::ordinals::reserved(entry).map_err(|problem| {
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

    /// `replicas` ordinals from `start`, without the intervals, whose both ends are reserved.
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

    /// Whether the set has a pod of this ordinal.
    pub fn contains(&self, ordinal: i64) -> bool {
        (self.start..self.end).contains(&ordinal) && !self.is_reserved(ordinal)
    }

    /// How many ordinals of the set are lower.
    pub fn rank(&self, ordinal: i64) -> usize {
        let taken: i64 = self
            .reserved
            .iter()
            .take_while(|(first, _)| *first < ordinal)
            .map(|(first, last)| (*last + 1).min(ordinal) - first)
            .sum();
        usize::try_from((ordinal - self.start - taken).max(0)).unwrap_or(usize::MAX)
    }

    /// All ordinals, the lowest first. There may be too many for a loop over all of them.
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

    /// Whether there are no ordinals.
    pub fn is_empty(&self) -> bool {
        self.replicas == 0
    }

    /// The number of ordinals.
    pub fn len(&self) -> usize {
        self.replicas
    }

    /// The highest ordinal, if there is one.
    pub fn last(&self) -> Option<i64> {
        (self.replicas > 0).then(|| self.end - 1)
    }

    fn is_reserved(&self, ordinal: i64) -> bool {
        self.reserved
            .iter()
            .any(|(first, last)| (*first..=*last).contains(&ordinal))
    }
}

/// The ordinal in the name of a pod of this set. Another notation of the number is another name,
/// which no pod of the set has.
pub fn ordinal_of(set: &str, pod: &str) -> Option<i64> {
    let digits = pod.strip_prefix(set)?.strip_prefix('-')?;
    let ordinal: i32 = digits.parse().ok()?;
    (ordinal.to_string() == digits && ordinal >= 0).then_some(i64::from(ordinal))
}

/// The set and the ordinal in a pod's name.
pub fn set_and_ordinal(pod: &str) -> Option<(&str, i64)> {
    let (set, _) = pod.rsplit_once('-')?;
    ordinal_of(set, pod).map(|ordinal| (set, ordinal))
}

#[cfg(test)]
mod tests;
