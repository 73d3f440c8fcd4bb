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
mod tests;
