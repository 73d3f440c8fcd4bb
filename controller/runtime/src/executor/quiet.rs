//! Who leaves the apiserver alone, and until when.
//!
//! The apiserver answers 429 when it is overloaded, and an admission webhook or a budget answers so for reasons of one object. So a
//! 429 silences the workload that heard it; everybody only when several workloads hear it within a short time.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// So many workloads that hear it within [`SHORT`] speak for an overloaded server.
const SEVERAL: usize = 3;
/// See [`SEVERAL`].
const SHORT: Duration = Duration::from_secs(2);

/// Silences, by the uid of the workload.
#[derive(Debug, Default)]
pub(super) struct Quiet {
    owners: HashMap<Box<str>, Heard>,
    everybody: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
struct Heard {
    /// The last time by the server, and not by a budget.
    of_server: Option<Instant>,
    until: Instant,
}

impl Quiet {
    /// Until when this workload sends nothing; `None`: it may.
    pub(super) fn until(&self, owner: &str, now: Instant) -> Option<Instant> {
        let own = self.owners.get(owner).map(|heard| heard.until);
        own.max(self.everybody).filter(|until| *until > now)
    }

    /// A workload was told to come back after `wait`. `of_server`: not by a budget, which speaks of one pod alone.
    pub(super) fn heard(&mut self, owner: &str, now: Instant, wait: Duration, of_server: bool) {
        // What is over is of no use any more, so there are never more than hear it within a minute.
        let is_lately = |heard: &Heard| heard.of_server.is_some_and(|at| at + SHORT > now);
        self.owners
            .retain(|_, heard| heard.until > now || is_lately(heard));
        let until = now + wait;
        let heard = self.owners.entry(owner.into()).or_insert(Heard {
            of_server: None,
            until,
        });
        *heard = Heard {
            of_server: if of_server {
                Some(now)
            } else {
                heard.of_server
            },
            until: until.max(heard.until),
        };
        let lately = self
            .owners
            .values()
            .filter(|heard| is_lately(heard))
            .count();
        if lately >= SEVERAL {
            self.everybody = self.everybody.max(Some(until));
        }
    }
}

#[cfg(test)]
mod tests;
