//! How many steps of a stage may run at once.

/// Two rules apply, and the stricter one counts.
///
/// Slow start: one step at first, and one more with every success, which doubles the steps in every
/// round. When the server refuses pods because of a quota or a webhook, it refuses a few and not
/// thousands.
///
/// No queue: an overloaded server answers later, not more often, and other clients wait in the same
/// queue. So fewer steps run if most of an answer's time is waiting, and more if little is.
#[derive(Debug)]
pub(super) struct Window {
    open: f64,
    most: f64,
    slow: bool,
    starts: bool,
}

/// How many requests of a plan may wait at the server: enough to keep it busy at any time.
const MOST_WAITING: f64 = 8.0;
/// If fewer requests wait, one more step runs with each round.
const FEW_WAITING: f64 = 4.0;
/// The part of a window that it loses with each answer while too many requests wait: half of it
/// within two or three rounds.
const LOSS: f64 = 0.25;
/// The minimum of steps that run with a slow server, because then other clients keep it busy.
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

    /// Whether another step may start in addition to the running ones.
    pub(super) fn admits(&self, running: usize) -> bool {
        u16::try_from(running).is_ok_and(|running| f64::from(running) + 1.0 <= self.open)
    }

    /// Handles a finished step. `waited` is the share of its answers' time that was waiting (see
    /// [`super::pace`]).
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

    /// Handles a failed step. A slow start ends with the first failure; other steps are independent
    /// of each other.
    pub(super) fn failed(&mut self) {
        if self.slow {
            self.close();
        }
    }

    /// Lets no more steps start.
    pub(super) fn close(&mut self) {
        self.open = 0.0;
    }
}

#[cfg(test)]
mod tests;
