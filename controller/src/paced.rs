//! Statuses that are written once in a second at most. While thousands of pods come to be ready, each changes the numbers.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use berth_runtime::driver::Next;
use berth_runtime::{Object, Store};
use berth_workload::plan::{Outcome, Plan};
use serde::Serialize;

use crate::acting::Acting;

/// At least between two writes of one status.
const PACE: Duration = Duration::from_secs(1);

/// When statuses were written last, by uid of objects of one kind. What is longer ago than the pace is forgotten.
#[derive(Debug, Default)]
pub(crate) struct Paced(Mutex<HashMap<String, Instant>>);

impl Paced {
    /// Carries out a plan for an object, as [`Acting::carry_out`] does. A status that was written less than a second ago is written
    /// when the second is over, as it is by then: so the last numbers always are.
    pub(crate) async fn carry_out<T: Object, S: Serialize + PartialEq>(
        &self,
        acting: &Acting,
        plan: &Plan,
        store: &Store<T>,
        object: &T,
        (old, status): (&S, impl FnOnce(&Outcome) -> S),
    ) -> Next {
        let (mut wait, mut is_written) = (None, false);
        let in_time = |outcome: &Outcome| {
            let new = status(outcome);
            if new != *old {
                wait = self.wait(object.uid());
                is_written = wait.is_none();
            }
            is_written.then_some(new)
        };
        let next = acting.carry_out(plan, store, object, (old, in_time)).await;
        if is_written {
            self.note(object.uid());
        }
        wait.map_or(next.clone(), |wait| at_latest(next, wait))
    }

    /// How long the status of this object is not to be written yet.
    fn wait(&self, uid: &str) -> Option<Duration> {
        let since = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(uid).map(Instant::elapsed)?;
        PACE.checked_sub(since).filter(|wait| !wait.is_zero())
    }

    /// It was written now.
    fn note(&self, uid: &str) {
        let mut written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        written.retain(|_, at| at.elapsed() < PACE);
        written.insert(uid.to_owned(), Instant::now());
    }
}

/// Looks again after this time at the latest; what has failed is looked at again soon anyhow.
fn at_latest(next: Next, wait: Duration) -> Next {
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
    fn a_status_waits_for_the_rest_of_its_second() {
        let paced = Paced::default();
        assert_eq!(paced.wait("a"), None);
        paced.note("a");
        assert!(paced.wait("a").is_some_and(|wait| wait <= PACE));
        assert_eq!(paced.wait("b"), None);
        let long_ago = Instant::now().checked_sub(PACE).unwrap();
        *paced.0.lock().unwrap().get_mut("a").unwrap() = long_ago;
        assert_eq!(paced.wait("a"), None);
        paced.note("b");
        assert!(!paced.0.lock().unwrap().contains_key("a"), "what is long ago is forgotten");
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
