//! Statuses that are written at most once a second. While thousands of pods become ready, each
//! changes the numbers.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use berth_runtime::driver::Next;
use berth_runtime::events::Owner;
use berth_runtime::{Object, Store};
use berth_workload::plan::{Outcome, Plan};
use parking_lot::Mutex;
use serde::Serialize;

use crate::context::{Context, next};

/// The shortest time between two writes of one status.
const PACE: Duration = Duration::from_secs(1);

/// The shortest time between two writes of a status that counts this many pods while an object
/// waits for it. A quarter of a second for a thousand, because more pods make a longer status.
pub(crate) fn awaited_pace(pods: usize) -> Duration {
    let pods = u64::try_from(pods).unwrap_or(u64::MAX);
    PACE.min(Duration::from_millis(100 + pods.saturating_mul(3) / 20))
}

/// When statuses were written last, by uid of objects of one kind. Entries older than the pace are
/// dropped.
#[derive(Debug)]
pub(crate) struct StatusThrottle {
    written: Mutex<HashMap<String, Instant>>,
    pace: Duration,
}

impl Default for StatusThrottle {
    fn default() -> Self {
        Self::of(PACE)
    }
}

impl StatusThrottle {
    /// For statuses that are written at most once in this time.
    pub(crate) fn of(pace: Duration) -> Self {
        Self {
            written: Mutex::default(),
            pace,
        }
    }

    /// Carries out a plan for an object, as [`Context::carry_out`] does. A status that was written
    /// less than the pace ago is written when the pace is over, with the content of that time: so
    /// the last numbers are always written. A change that is urgent, by old and new status, does
    /// not wait.
    pub(crate) async fn carry_out<T: Object, S: Serialize + PartialEq>(
        &self,
        context: &Context,
        plan: &Plan,
        store: &Store<T>,
        object: &T,
        (old, status, is_urgent): (
            &S,
            impl FnOnce(&Outcome) -> Option<S>,
            impl FnOnce(&S, &S) -> bool,
        ),
    ) -> Next {
        let (mut wait, mut is_written) = (Duration::ZERO, false);
        let in_time = |outcome: &Outcome| {
            let new = status(outcome)?;
            wait = waits(old, &new, (self.since(object.uid()), self.pace), is_urgent);
            is_written = wait.is_zero() && new != *old;
            is_written.then_some(new)
        };
        let next = context.carry_out(plan, store, object, (old, in_time)).await;
        if is_written {
            self.note(object.uid());
        }
        if wait.is_zero() {
            next
        } else {
            at_latest(next, wait)
        }
    }

    /// As [`StatusThrottle::carry_out`], for a status that is a ledger too: it is written only over
    /// the version that was read, whichever outcome the plan has. If the plan does nothing, it
    /// waits together with the status. The pace is shorter while an object waits for the status.
    pub(crate) async fn carry_out_as_read<T: Object, S: Serialize + PartialEq>(
        &self,
        context: &Context,
        plan: &Plan,
        store: &Store<T>,
        object: &T,
        (old, new, is_urgent, awaited_pace): (
            &S,
            &S,
            impl FnOnce(&S, &S) -> bool,
            Option<Duration>,
        ),
    ) -> Next {
        let wait = waits(
            old,
            new,
            (self.since(object.uid()), awaited_pace.unwrap_or(self.pace)),
            is_urgent,
        );
        if !wait.is_zero() && plan.stages.is_empty() {
            return Next::After(wait);
        }
        let outcome = context.executor.act(plan, &Owner::of(object)).await;
        let written = context.write_status_as_read(object, (old, new)).await;
        if matches!(written, Ok(true)) {
            self.note(object.uid());
        }
        context.forget_if_gone(store, object);
        next(plan, &outcome, written)
    }

    /// How long until the status of this object may be written, regardless of its content.
    pub(crate) fn holds(&self, uid: &str) -> Duration {
        holds(self.since(uid), self.pace)
    }

    /// The time since the status of this object was written; `None` if that is long ago.
    fn since(&self, uid: &str) -> Option<Duration> {
        self.written.lock().get(uid).map(Instant::elapsed)
    }

    /// Notes that the status was written now.
    fn note(&self, uid: &str) {
        let mut written = self.written.lock();
        written.retain(|_, at| at.elapsed() < self.pace);
        written.insert(uid.to_owned(), Instant::now());
    }
}

/// For statuses without urgent changes.
pub(crate) fn nothing_is_urgent<S>(_old: &S, _new: &S) -> bool {
    false
}

/// How long a status waits before it is written, by the time since its last write.
fn waits<S: PartialEq>(
    old: &S,
    new: &S,
    (since, pace): (Option<Duration>, Duration),
    is_urgent: impl FnOnce(&S, &S) -> bool,
) -> Duration {
    holds(since.filter(|_| old != new && !is_urgent(old, new)), pace)
}

/// The rest of the pace since the last write.
fn holds(since: Option<Duration>, pace: Duration) -> Duration {
    since.map_or(Duration::ZERO, |since| pace.saturating_sub(since))
}

/// Looks again after this time at the latest. A failure is retried soon anyhow.
pub(crate) fn at_latest(next: Next, wait: Duration) -> Next {
    match next {
        Next::Done => Next::After(wait),
        Next::After(other) => Next::After(other.min(wait)),
        Next::Retry(_) | Next::Again(_) => next,
    }
}

#[cfg(test)]
mod tests;
