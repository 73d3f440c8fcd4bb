//! The duration of a lease.
//!
//! A short lease makes fail-over fast, but no write may last longer than the lease. If the
//! apiserver answers writes slowly, as with an admission webhook that takes seconds, the leader
//! asks for more time. For a while the lease is then long enough for a whole write.

use std::time::Duration;

use tokio::time::Instant;

use super::settings::Settings;

/// How long the lease stays long after a write that needed more time than a short lease leaves.
const SLOW_FOR: Duration = Duration::from_secs(300);

/// The times that one renewal grants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Term {
    /// How long other candidates leave the lease alone.
    pub(super) lease: Duration,
    /// How long this process may act as leader, from before the renewal was sent.
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
        // A write has enough time even if it starts at the end of a renewal's turn, or after one
        // lost renewal.
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

    /// The term of a renewal that is sent `now`. `slow_until` is the end of the time for which a
    /// write asked for more.
    ///
    /// After that time, this process acts for the short term only. Other candidates still see the
    /// long term until every write that was granted the long term has ended.
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

    /// The longest time for which this candidate trusts another lease, independent of the duration
    /// in that lease.
    pub(super) fn longest_believed(&self) -> Duration {
        10 * self.long.lease
    }
}

/// Extends the time for which leases are long. False while most of the last extension remains,
/// because then no renewal is needed.
pub(super) fn extend(slow_until: &mut Option<Instant>, now: Instant) -> bool {
    if slow_until.is_some_and(|until| until > now + SLOW_FOR / 2) {
        return false;
    }
    *slow_until = Some(now + SLOW_FOR);
    true
}

#[cfg(test)]
mod tests;
