//! Whether the apiserver still answers this replica.
//!
//! A replica without answers can neither review the tokens of daemons nor follow a rotation of the
//! certificates, and other replicas may be able to. If the apiserver answers no replica, nothing is
//! lost: the change of readiness has no effect before the apiserver answers again, and its first
//! answer makes the replica ready.

use std::time::Duration;

use tokio::time::Instant;

/// It must have been silent for so long,
const LASTS: Duration = Duration::from_secs(60);
/// and have left so many tries in a row without an answer.
const TRIES: u32 = 3;

/// How long the apiserver has been silent.
#[derive(Debug, Default)]
pub(super) struct Silence {
    since: Option<Instant>,
    tries: u32,
    is_long: bool,
}

impl Silence {
    /// Notes that a try that began at `began` has no answer. True if this makes the silence long.
    pub(super) fn unanswered(&mut self, began: Instant, now: Instant) -> bool {
        let since = *self.since.get_or_insert(began);
        self.tries = self.tries.saturating_add(1);
        let is_long = self.tries >= TRIES && now >= since + LASTS;
        is_long && !std::mem::replace(&mut self.is_long, true)
    }

    /// Notes an answer. True if the silence before it was long.
    pub(super) fn ends(&mut self) -> bool {
        std::mem::take(self).is_long
    }

    pub(super) fn is_long(&self) -> bool {
        self.is_long
    }
}

#[cfg(test)]
mod tests;
