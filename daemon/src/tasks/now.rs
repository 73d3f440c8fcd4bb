//! The two clocks of a node.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// A moment by both clocks. The time of day may be set by hours, either way: it is only reported,
/// and no duration is measured by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// By the monotonic clock.
    pub steady: Instant,
    /// The time of day.
    pub time: Timestamp,
}

impl Now {
    /// The moment after a pause.
    pub(super) fn after(self, pause: Duration) -> Now {
        let later = SignedDuration::try_from(pause)
            .ok()
            .and_then(|pause| self.time.checked_add(pause).ok());
        Now {
            steady: self.steady + pause,
            time: later.unwrap_or(self.time),
        }
    }
}

/// The beginning of something, possibly in the life of an earlier daemon.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Began {
    /// The time to report.
    pub(crate) time: Timestamp,
    /// When this daemon began it or took it up, and how long it had lasted by then.
    known: Instant,
    lasted: Duration,
}

impl Began {
    /// Begins now; its reported time is `time`.
    pub(crate) fn now(now: Now, time: Timestamp) -> Began {
        Began {
            time,
            known: now.steady,
            lasted: Duration::ZERO,
        }
    }

    /// Began at the time that an earlier daemon reported.
    pub(crate) fn reported(time: Timestamp, now: Now) -> Began {
        // With a clock that was set back since, it would begin in the future.
        let lasted = Duration::try_from(now.time.duration_since(time)).unwrap_or_default();
        Began {
            time,
            known: now.steady,
            lasted,
        }
    }

    /// How long it has lasted.
    pub(crate) fn lasted(&self, now: Instant) -> Duration {
        self.lasted
            .saturating_add(now.saturating_duration_since(self.known))
    }

    /// When it will have lasted for `limit`. `None` if that is too far in the future for an
    /// [`Instant`].
    pub(crate) fn lasts_until(&self, limit: Duration) -> Option<Instant> {
        self.known.checked_add(limit.saturating_sub(self.lasted))
    }
}
