//! Whether the apiserver still reaches this replica, after it once did.
//!
//! A proof goes by way of the Service, so any replica may answer it: a successful proof says that
//! some replica converts. A failed proof counts against this replica only while no apiserver has
//! opened a connection to it since. So if one of two replicas is cut off, the other stays ready,
//! and a slow apiserver takes no replica out of service by one proof.

use std::time::Duration;

use tokio::time::Instant;

/// How many proofs in a row must fail.
const FAILURES: u32 = 3;
/// The time between two proofs while all is well. A proof is a dry run, which stores nothing.
const PROVE_EVERY: Duration = Duration::from_secs(30);
/// The time between two proofs after one that failed.
const PROVE_SOON: Duration = Duration::from_secs(5);
/// The wait after which a replica that was cut off becomes ready again although other replicas
/// answer its proofs; it doubles each time.
const STAND_IN_AFTER: Duration = Duration::from_secs(60);
const STAND_IN_AFTER_AT_MOST: Duration = Duration::from_secs(900);

/// The result of a proof of a ready replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proof {
    /// An object was converted.
    Works,
    /// The apiserver said that it reaches no webhook, or nothing at all.
    Unreached,
    /// The proof could not be tried, which says nothing of this replica.
    Untried,
}

/// The knowledge about a replica's reach. Connections are counted from the start of the process.
#[derive(Debug, Default)]
pub(super) struct Reach {
    failures: u32,
    /// The number of connections when the first of the failures came.
    connections: u64,
    next: Option<Instant>,
    /// Since when this replica is cut off.
    cut_off: Option<Instant>,
    times_cut_off: u32,
}

impl Reach {
    /// How long until the next proof of a ready replica.
    pub(super) fn next_proof_in(&self, now: Instant) -> Duration {
        self.next
            .map_or(PROVE_EVERY, |next| next.saturating_duration_since(now))
    }

    /// Notes that this replica is ready from now on.
    pub(super) fn begins(&mut self, now: Instant) {
        (self.failures, self.cut_off, self.next) = (0, None, Some(now + PROVE_EVERY));
    }

    /// Notes the result of a proof of a ready replica. False if the apiserver does not reach it any
    /// more.
    pub(super) fn tried(&mut self, proof: Proof, connections: u64, now: Instant) -> bool {
        match proof {
            Proof::Works => self.failures = 0,
            Proof::Unreached if self.failures == 0 || connections != self.connections => {
                (self.failures, self.connections) = (1, connections);
            }
            Proof::Unreached => self.failures += 1,
            Proof::Untried => {}
        }
        self.next = Some(
            now + if self.failures > 0 {
                PROVE_SOON
            } else {
                PROVE_EVERY
            },
        );
        if self.failures < FAILURES {
            return true;
        }
        (self.failures, self.cut_off) = (0, Some(now));
        self.times_cut_off = self.times_cut_off.saturating_add(1);
        false
    }

    /// Whether a successful proof makes this replica ready. For a replica that was cut off this is
    /// certain only if the apiserver has opened a connection to it (`is_connected`). Otherwise
    /// other replicas answered, and it becomes ready only after a while.
    pub(super) fn is_ready(&self, is_connected: bool, now: Instant) -> bool {
        let Some(since) = self.cut_off else {
            return true;
        };
        let doubled =
            STAND_IN_AFTER.saturating_mul(1 << self.times_cut_off.saturating_sub(1).min(8));
        is_connected || now >= since + doubled.min(STAND_IN_AFTER_AT_MOST)
    }
}

#[cfg(test)]
mod tests;
