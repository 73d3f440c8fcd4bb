//! For how long a lease is taken.
//!
//! A short lease makes fail-over fast, and cuts writes short: none may outlive it. Where the apiserver answers writes slowly (an
//! admission webhook that takes seconds), the leader asks for more time, and for a while the lease is long enough for a whole write.

use std::time::Duration;

use tokio::time::Instant;

use super::settings::Settings;

/// For how long the lease stays long after a write that needed more time than a short one leaves.
const SLOW_FOR: Duration = Duration::from_secs(300);

/// What one renewal grants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Term {
    /// How long others leave the lease alone.
    pub(super) lease: Duration,
    /// How long this process may act on it, from before the renewal was sent.
    pub(super) renew: Duration,
}

/// The two lengths of a lease.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    short: Term,
    long: Term,
}

impl Terms {
    pub(super) fn new(settings: &Settings) -> Self {
        let Settings {
            lease,
            renew,
            retry,
            write,
            ..
        } = *settings;
        let short = Term { lease, renew };
        // A write that starts at the end of a renewal's turn, or when one renewal was lost, has its time.
        let needed = write + 2 * retry;
        let long = match needed > renew {
            true => Term {
                lease: needed + lease.saturating_sub(renew),
                renew: needed,
            },
            false => short,
        };
        Self { short, long }
    }

    /// What a renewal that is sent `now` grants. `slow_until` is the end of the time for which somebody asked for more.
    ///
    /// When that time is over, this process acts for the short term only, while others go on to see the long one until
    /// every write that was granted the long one has ended.
    pub(super) fn at(&self, now: Instant, slow_until: Option<Instant>) -> Term {
        let Some(until) = slow_until.filter(|until| now < *until + self.long.renew) else {
            return self.short;
        };
        let renew = if now < until {
            self.long.renew
        } else {
            self.short.renew
        };
        Term {
            lease: self.long.lease,
            renew,
        }
    }

    /// The longest time for which this candidate believes another's lease, whatever that says of itself.
    pub(super) fn longest_believed(&self) -> Duration {
        10 * self.long.lease
    }
}

/// Extends the time for which leases are long. False while most of the last extension is left: nothing new is to be told.
pub(super) fn extend(slow_until: &mut Option<Instant>, now: Instant) -> bool {
    if slow_until.is_some_and(|until| until > now + SLOW_FOR / 2) {
        return false;
    }
    *slow_until = Some(now + SLOW_FOR);
    true
}

#[cfg(test)]
mod tests;
