//! Which workloads must wait before they write again, and until when.
//!
//! The apiserver answers 429 when it is overloaded. An admission webhook or a budget answers 429
//! for reasons of one object. So a 429 makes only the workload wait that got it. All workloads wait
//! only if several of them get it within a short time.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// If this many workloads get a 429 within [`SHORT`], the server is overloaded.
const SEVERAL: usize = 3;
/// See [`SEVERAL`].
const SHORT: Duration = Duration::from_secs(2);

/// The waits, by the uid of the workload.
#[derive(Debug, Default)]
pub(super) struct Quiet {
    owners: HashMap<Box<str>, Heard>,
    everybody: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
struct Heard {
    /// The last 429 from the server, and not from a budget.
    of_server: Option<Instant>,
    until: Instant,
}

impl Quiet {
    /// Until when this workload must not write; `None` if it may write now.
    pub(super) fn until(&self, owner: &str, now: Instant) -> Option<Instant> {
        let own = self.owners.get(owner).map(|heard| heard.until);
        own.max(self.everybody).filter(|until| *until > now)
    }

    /// Notes a 429 for a workload with the wait `wait`. `of_server` is false for a budget's 429,
    /// which is about one pod only.
    pub(super) fn heard(&mut self, owner: &str, now: Instant, wait: Duration, of_server: bool) {
        // Expired entries are dropped, so that the map has at most the workloads that got a 429
        // within a minute.
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
