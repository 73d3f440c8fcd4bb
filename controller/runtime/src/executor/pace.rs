//! The share of an answer's time that is waiting.

use std::collections::HashMap;
use std::time::Duration;

use berth_workload::plan::Write;
use tokio::time::Instant;

/// The time that an idle server takes for an answer, by kind of write: the minimum of the last ten
/// to twenty minutes. A slow webhook is always slow, and is no queue.
#[derive(Debug, Default)]
pub(super) struct Pace(HashMap<Write, Least>);

#[derive(Debug)]
struct Least {
    /// The minimum of the present ten minutes, and of the ten minutes before.
    now: Duration,
    before: Duration,
    since: Instant,
}

const TERM: Duration = Duration::from_secs(600);

impl Pace {
    /// Notes how long an answer took, and returns the share of that time that was waiting: 0 for
    /// none, towards 1 for nearly all.
    pub(super) fn answered(&mut self, write: Write, took: Duration, now: Instant) -> f64 {
        let least = self.0.entry(write).or_insert(Least {
            now: took,
            before: took,
            since: now,
        });
        if now.duration_since(least.since) > TERM {
            *least = Least {
                now: took,
                before: least.now,
                since: now,
            };
        }
        least.now = least.now.min(took);
        let of_both = least.now.min(least.before);
        if took.is_zero() {
            0.0
        } else {
            1.0 - of_both.as_secs_f64() / took.as_secs_f64()
        }
    }
}

#[cfg(test)]
mod tests;
