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
mod tests {
    use super::*;

    fn terms() -> Terms {
        Terms::new(&Settings {
            retry: Duration::from_millis(1500),
            ..Settings::new("n", "l", "a")
        })
    }

    #[test]
    fn a_long_term_leaves_a_write_all_its_time_between_renewals() {
        let (terms, start) = (terms(), Instant::now());
        let Term { lease, renew } = terms.at(start, Some(start + SLOW_FOR));
        // Started just before the next renewal, which is sent after 1.5 s and may be lost.
        assert!(
            renew - 2 * Duration::from_millis(1500) >= Duration::from_secs(10),
            "{renew:?}"
        );
        assert!(lease > renew, "{lease:?} {renew:?}");
    }

    #[test]
    fn a_lease_that_suffices_for_a_write_is_never_longer() {
        let settings = Settings {
            lease: Duration::from_secs(60),
            renew: Duration::from_secs(40),
            ..Settings::new("n", "l", "a")
        };
        let (terms, start) = (Terms::new(&settings), Instant::now());
        let own = Term {
            lease: settings.lease,
            renew: settings.renew,
        };
        assert_eq!(terms.at(start, Some(start + SLOW_FOR)), own);
    }

    #[test]
    fn a_lease_becomes_short_again_only_when_no_write_can_need_the_long_one() {
        let (terms, start) = (terms(), Instant::now());
        let until = start + Duration::from_secs(100);
        let mut others_wait_until = start;
        let mut acted_until = start;
        for tenths in 0..2000 {
            let now = start + Duration::from_millis(100 * tenths);
            let Term { lease, renew } = terms.at(now, Some(until));
            // Others count from when they see this renewal: now at the earliest.
            others_wait_until = now + lease;
            acted_until = acted_until.max(now + renew);
            assert!(
                acted_until < others_wait_until,
                "a write of the long term may outlive the lease written at {tenths}"
            );
        }
        assert_eq!(
            others_wait_until,
            start + Duration::from_millis(199_900) + terms.short.lease
        );
    }

    #[test]
    fn asking_again_soon_changes_nothing() {
        let (start, mut until) = (Instant::now(), None);
        assert!(extend(&mut until, start));
        assert!(!extend(&mut until, start + SLOW_FOR / 3));
        assert!(extend(&mut until, start + SLOW_FOR * 2 / 3));
        assert_eq!(until, Some(start + SLOW_FOR * 2 / 3 + SLOW_FOR));
    }
}
