//! When statuses were written last, of a kind whose statuses keep a pace.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use berth_runtime::driver::Next;

/// By uid of objects of one kind. What is longer ago than the pace is forgotten: it holds nothing up any more.
#[derive(Debug)]
pub(crate) struct Paced {
    pace: Duration,
    written: Mutex<HashMap<String, Instant>>,
}

impl Paced {
    /// For statuses that are written once in so long a time.
    pub(crate) fn new(pace: Duration) -> Self {
        Self { pace, written: Mutex::default() }
    }

    /// How long it is since the status of this object was written, unless that is long ago.
    pub(crate) fn since(&self, uid: &str) -> Option<Duration> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).get(uid).map(Instant::elapsed)
    }

    /// It was written now.
    pub(crate) fn note(&self, uid: &str) {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.retain(|_, at| at.elapsed() < self.pace);
        written.insert(uid.to_owned(), Instant::now());
    }
}

/// Looks again after this time at the latest; what has failed is looked at again soon anyhow.
pub(crate) fn at_latest(next: Next, wait: Duration) -> Next {
    match next {
        Next::Done => Next::After(wait),
        Next::After(other) => Next::After(other.min(wait)),
        Next::Retry(_) | Next::Again(_) => next,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_long_ago_is_forgotten() {
        let paced = Paced::new(Duration::from_secs(60));
        assert_eq!(paced.since("a"), None);
        paced.note("a");
        assert!(paced.since("a").is_some_and(|since| since < Duration::from_secs(60)));
        let paced = Paced::new(Duration::ZERO);
        paced.note("a");
        paced.note("b");
        assert!(paced.since("a").is_none() && paced.since("b").is_some());
    }

    #[test]
    fn the_sooner_of_two_looks_counts_unless_something_failed() {
        let after = |seconds| Next::After(Duration::from_secs(seconds));
        let failed = || Next::Retry("no".to_owned());
        for (next, expected) in
            [(Next::Done, after(2)), (after(1), after(1)), (after(3), after(2)), (failed(), failed())]
        {
            assert_eq!(at_latest(next, Duration::from_secs(2)), expected);
        }
    }
}
