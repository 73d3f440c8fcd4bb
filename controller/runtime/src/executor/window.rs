//! How many steps of a stage may run at once.

/// Two rules, of which the stricter counts.
///
/// Slow start: one step at first, and one more with every success, which doubles them in every round. When the server refuses
/// pods, for a quota or a webhook, it refuses a few and not thousands.
///
/// No queue: a server that is asked more than it can do at once answers later and no more often, and whoever else asks it stands
/// in the same queue. So fewer steps run where most of an answer's time is waiting, and more where little is.
#[derive(Debug)]
pub(super) struct Window {
    open: f64,
    most: f64,
    slow: bool,
    starts: bool,
}

/// So many requests of a plan may wait at the server: enough for it to have something to do at any time.
const MOST_WAITING: f64 = 8.0;
/// Where fewer wait, one step more runs with each round.
const FEW_WAITING: f64 = 4.0;
/// What a window loses with each answer while too many wait: half of it within two or three rounds.
const LOSS: f64 = 0.25;
/// However slowly the server answers, so many steps run: beyond that it is others who keep it busy.
const LEAST: f64 = 4.0;

impl Window {
    pub(super) fn new(slow: bool, most: usize) -> Self {
        let most = f64::from(u16::try_from(most.max(1)).unwrap_or(u16::MAX));
        Self {
            open: if slow { 1.0 } else { most },
            most,
            slow,
            starts: slow,
        }
    }

    /// True if another step may start beside those that run.
    pub(super) fn admits(&self, running: usize) -> bool {
        u16::try_from(running).is_ok_and(|running| f64::from(running) + 1.0 <= self.open)
    }

    /// A step is done; of the time that its answers took, this share was waiting (see [`super::pace`]).
    pub(super) fn succeeded(&mut self, waited: f64) {
        if self.open < 1.0 {
            return;
        }
        let waiting = self.open * waited;
        if waiting > MOST_WAITING {
            self.starts = false;
            self.open = (self.open - LOSS).max(LEAST).min(self.most);
        } else if self.starts {
            self.open = (self.open + 1.0).min(self.most);
        } else if waiting < FEW_WAITING {
            self.open = (self.open + 1.0 / self.open).min(self.most);
        }
    }

    /// A slow start ends with the first failure. Other steps have nothing to do with each other.
    pub(super) fn failed(&mut self) {
        if self.slow {
            self.close();
        }
    }

    /// Nothing more starts.
    pub(super) fn close(&mut self) {
        self.open = 0.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs steps in rounds and returns how many started in each.
    fn rounds(mut window: Window, steps: usize, fails: impl Fn(usize) -> bool) -> Vec<usize> {
        let (mut started, mut rounds) = (0, Vec::new());
        loop {
            let mut running = 0;
            while started < steps && window.admits(running) {
                running += 1;
                started += 1;
            }
            if running == 0 {
                return rounds;
            }
            for step in started - running..started {
                if fails(step) {
                    window.failed()
                } else {
                    window.succeeded(0.0)
                }
            }
            rounds.push(running);
        }
    }

    #[test]
    fn doubles_to_the_bound() {
        assert_eq!(
            rounds(Window::new(true, 8), 30, |_| false),
            [1, 2, 4, 8, 8, 7]
        );
        assert_eq!(rounds(Window::new(false, 8), 20, |_| false), [8, 8, 4]);
    }

    #[test]
    fn a_failure_ends_a_slow_start_only() {
        assert_eq!(
            rounds(Window::new(true, 8), 30, |step| step == 4),
            [1, 2, 4]
        );
        assert_eq!(rounds(Window::new(true, 8), 30, |step| step == 0), [1]);
        assert_eq!(rounds(Window::new(false, 8), 20, |_| true), [8, 8, 4]);
    }

    #[test]
    fn closed_is_closed() {
        let mut window = Window::new(false, 8);
        window.close();
        window.succeeded(0.0);
        assert!(!window.admits(0));
    }

    /// A server that does so many at once, each in one unit of time, and lets the others wait: how many run after many answers.
    fn settled(mut window: Window, at_once: f64) -> usize {
        let mut running = 0;
        for _ in 0..5_000 {
            running = (0..)
                .find(|running| !window.admits(*running))
                .unwrap_or_default();
            let took = (f64::from(u16::try_from(running).unwrap_or(u16::MAX)) / at_once).max(1.0);
            window.succeeded(1.0 - 1.0 / took);
        }
        running
    }

    #[test]
    fn as_many_run_as_the_server_does_at_once_and_a_few_more() {
        // At once => run.
        for (at_once, runs) in [
            (1.0, 4..=9),
            (2.0, 5..=10),
            (8.0, 11..=16),
            (20.0, 23..=28),
            (100.0, 32..=32),
        ] {
            for slow in [true, false] {
                let settled = settled(Window::new(slow, 32), at_once);
                assert!(
                    runs.contains(&settled),
                    "{at_once} at once, slow start {slow}: {settled}"
                );
            }
        }
        assert_eq!(
            settled(Window::new(false, 2), 0.1),
            2,
            "never more than the bound"
        );
    }
}
