//! Whether the apiserver still answers this replica.
//!
//! A replica that it does not answer can neither review the tokens of daemons nor follow a rotation of the certificates, and there
//! may be others that can. Where it answers nobody, nothing is lost: nobody hears of the readiness before it answers again,
//! and its first answer makes the replica ready.

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
    /// A try that began at `began` has no answer. True when the silence has become long by that.
    pub(super) fn unanswered(&mut self, began: Instant, now: Instant) -> bool {
        let since = *self.since.get_or_insert(began);
        self.tries = self.tries.saturating_add(1);
        let is_long = self.tries >= TRIES && now >= since + LASTS;
        is_long && !std::mem::replace(&mut self.is_long, true)
    }

    /// It answered. True if it was silent for long.
    pub(super) fn ends(&mut self) -> bool {
        std::mem::take(self).is_long
    }

    pub(super) fn is_long(&self) -> bool {
        self.is_long
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At which of the tries without an answer, of which each begins and ends at a second, a silence becomes long.
    fn becomes_long(tries: &[(u64, u64)]) -> Vec<usize> {
        let (start, mut silence) = (Instant::now(), Silence::default());
        let at = |seconds| start + Duration::from_secs(seconds);
        let long = tries
            .iter()
            .enumerate()
            .filter(|(_, (began, now))| silence.unanswered(at(*began), at(*now)));
        let long: Vec<_> = long.map(|(n, _)| n).collect();
        assert_eq!(silence.is_long(), !long.is_empty());
        assert_eq!(
            [silence.ends(), silence.ends(), silence.is_long()],
            [!long.is_empty(), false, false]
        );
        long
    }

    #[test]
    fn a_silence_is_long_once_it_has_lasted_a_minute_and_three_tries() {
        assert_eq!(
            becomes_long(&[(0, 10), (11, 21), (22, 59), (60, 61), (62, 63)]),
            [3]
        );
        assert_eq!(
            becomes_long(&[(0, 10), (30, 60), (90, 90)]),
            [2],
            "one try or two may hang"
        );
        assert!(
            becomes_long(&[(0, 1), (2, 3), (4, 59)]).is_empty(),
            "an apiserver may start again"
        );
        assert!(becomes_long(&[]).is_empty());
    }
}
