//! How much of the time that an answer takes is waiting.

use std::collections::HashMap;
use std::time::Duration;

use berth_workload::plan::Deed;
use tokio::time::Instant;

/// What a server that has nothing else to do takes for an answer, by what is asked of it: the least that was seen in the last
/// ten to twenty minutes. A webhook that takes its time takes it always, and is no queue.
#[derive(Debug, Default)]
pub(super) struct Pace(HashMap<Deed, Least>);

#[derive(Debug)]
struct Least {
    /// Of the present ten minutes, and of those before.
    now: Duration,
    before: Duration,
    since: Instant,
}

const TERM: Duration = Duration::from_secs(600);

impl Pace {
    /// Notes how long an answer took, and gives the share of that time that was waiting: 0 for none, towards 1 for nearly all.
    pub(super) fn answered(&mut self, deed: Deed, took: Duration, now: Instant) -> f64 {
        let least = self.0.entry(deed).or_insert(Least {
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
mod tests {
    use berth_workload::plan::Verb;
    use berth_workload::resource::PODS;

    use super::*;

    #[test]
    fn what_is_above_the_least_of_late_is_waiting() {
        let (patch, create) = (Deed::of(Verb::Patch, PODS), Deed::of(Verb::Create, PODS));
        let (mut pace, begin) = (Pace::default(), Instant::now());
        // Deed, milliseconds, after so many seconds => share.
        for (deed, took, after, share) in [
            (patch, 5, 0, 0.0),
            (patch, 20, 1, 0.75),
            (create, 400, 1, 0.0),
            (create, 500, 2, 0.2),
            (patch, 4, 3, 0.0),
            (patch, 40, 700, 0.9),
            (patch, 40, 1400, 0.0),
            (patch, 80, 1401, 0.5),
        ] {
            let told = pace.answered(
                deed,
                Duration::from_millis(took),
                begin + Duration::from_secs(after),
            );
            assert!(
                (told - share).abs() < 1e-9,
                "{deed} {took} ms after {after} s: {told}"
            );
        }
    }
}
