//! Which cluster a context leads to: no two clusters have a Lease with the same uid.

use std::cmp::{max, min};

use tokio::time::Instant;

/// The longest uid, in bytes. An apiserver gives none that is longer, so a longer one identifies
/// nothing.
const LONGEST: usize = 128;

/// The Lease that a context shows, and the time in which it certainly existed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    uid: String,
    /// When the first answer showed it.
    since: Instant,
    /// When the newest read was sent that showed it.
    until: Instant,
}

impl Identity {
    /// A Lease that a read shows now; the read was sent at `sent`.
    pub(super) fn new(uid: String, sent: Instant, now: Instant) -> Self {
        let uid = if uid.len() > LONGEST {
            String::new()
        } else {
            uid
        };
        Self {
            uid,
            since: now,
            until: sent,
        }
    }

    pub(super) fn uid(&self) -> &str {
        &self.uid
    }

    /// Notes that a read, sent at `sent`, shows a Lease of this uid; false if it is another Lease.
    pub(super) fn is_seen_again(&mut self, uid: &str, sent: Instant) -> bool {
        let is_it = self.uid == uid;
        if is_it {
            self.until = max(self.until, sent);
        }
        is_it
    }

    /// Whether they certainly belong to two clusters: both existed at one moment. Different uids
    /// are not enough, because a Lease that is deleted comes back with another uid.
    pub(super) fn is_apart(&self, other: &Self) -> bool {
        let are_known = !self.uid.is_empty() && !other.uid.is_empty();
        are_known
            && self.uid != other.uid
            && max(self.since, other.since) <= min(self.until, other.until)
    }
}

#[cfg(test)]
mod tests;
