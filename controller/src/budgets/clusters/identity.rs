//! Which cluster a context leads to: no two clusters have a Lease of one uid.

use std::cmp::{max, min};

use tokio::time::Instant;

/// No apiserver gives a longer uid, in bytes. By one that is longer nothing is known.
const LONGEST: usize = 128;

/// The Lease that is seen behind a context, and while it was there for certain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    uid: String,
    /// When an answer first showed it.
    since: Instant,
    /// When the newest read was sent that showed it.
    until: Instant,
}

impl Identity {
    /// Of a Lease that is shown now, by a read that was sent then.
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

    /// Notes that a read which was sent then shows a Lease of this uid; false where that is another one.
    pub(super) fn is_seen_again(&mut self, uid: &str, sent: Instant) -> bool {
        let is_it = self.uid == uid;
        if is_it {
            self.until = max(self.until, sent);
        }
        is_it
    }

    /// Whether they are of two clusters for certain: both were there at one moment. That their uids differ is not enough, for a Lease that is
    /// deleted comes back with another uid.
    pub(super) fn is_apart(&self, other: &Self) -> bool {
        let are_known = !self.uid.is_empty() && !other.uid.is_empty();
        are_known
            && self.uid != other.uid
            && max(self.since, other.since) <= min(self.until, other.until)
    }
}

#[cfg(test)]
mod tests;
