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
mod tests {
    use super::*;

    const WAIT: Duration = Duration::from_secs(5);

    #[test]
    fn a_429_silences_the_workload_that_heard_it_and_no_other() {
        let (mut quiet, now) = (Quiet::default(), Instant::now());
        for _ in 0..10 {
            quiet.heard("a", now, WAIT, true);
        }
        assert_eq!(quiet.until("a", now), Some(now + WAIT));
        assert_eq!(quiet.until("b", now), None);
        assert_eq!(quiet.until("a", now + WAIT), None);
    }

    #[test]
    fn a_429_that_several_workloads_hear_at_once_silences_everybody() {
        let (mut quiet, now) = (Quiet::default(), Instant::now());
        for owner in ["a", "b", "c"] {
            assert_eq!(quiet.until("d", now), None);
            quiet.heard(owner, now, WAIT, true);
        }
        assert_eq!(quiet.until("d", now), Some(now + WAIT));
    }

    #[test]
    fn a_429_that_several_workloads_hear_one_after_the_other_silences_each_alone() {
        let (mut quiet, start) = (Quiet::default(), Instant::now());
        for (owner, seconds) in [("a", 0), ("b", 2), ("c", 4), ("d", 6)] {
            let now = start + Duration::from_secs(seconds);
            quiet.heard(owner, now, WAIT, true);
            assert_eq!(quiet.until("z", now), None);
        }
        assert_eq!(quiet.owners.len(), 3, "a's time is over");
    }

    #[test]
    fn the_longest_silence_counts() {
        let (mut quiet, now) = (Quiet::default(), Instant::now());
        quiet.heard("a", now, WAIT, true);
        quiet.heard("a", now, WAIT / 5, true);
        assert_eq!(quiet.until("a", now), Some(now + WAIT));
    }

    #[test]
    fn budget_429_silences_its_own_workload_alone() {
        let (mut quiet, now) = (Quiet::default(), Instant::now());
        for owner in ["a", "b", "c", "d"] {
            quiet.heard(owner, now, WAIT, false);
        }
        assert_eq!(
            (quiet.until("a", now), quiet.until("z", now)),
            (Some(now + WAIT), None)
        );
        // What budgets said does not count beside an overloaded server, either.
        quiet.heard("e", now, WAIT, true);
        quiet.heard("f", now, WAIT, true);
        assert_eq!(quiet.until("z", now), None);
        quiet.heard("a", now, WAIT, true);
        assert_eq!(quiet.until("z", now), Some(now + WAIT));
    }
}
