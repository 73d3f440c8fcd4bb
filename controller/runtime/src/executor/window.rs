//! How many steps of a stage may run at once.

/// Slow start: one at first, and one more with every success, which doubles them in every round. When the server refuses pods,
/// for a quota or a webhook, it refuses a few and not thousands.
#[derive(Debug)]
pub(super) struct Window {
    open: usize,
    most: usize,
    slow: bool,
}

impl Window {
    pub(super) fn new(slow: bool, most: usize) -> Self {
        let most = most.max(1);
        Self { open: if slow { 1 } else { most }, most, slow }
    }

    /// True if another step may start beside those that run.
    pub(super) fn admits(&self, running: usize) -> bool {
        running < self.open
    }

    pub(super) fn succeeded(&mut self) {
        if self.open > 0 {
            self.open = (self.open + 1).min(self.most);
        }
    }

    /// A slow start ends with the first failure. Other steps have nothing to do with each other.
    pub(super) fn failed(&mut self) {
        if self.slow {
            self.open = 0;
        }
    }

    /// Nothing more starts.
    pub(super) fn close(&mut self) {
        self.open = 0;
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
                if fails(step) { window.failed() } else { window.succeeded() }
            }
            rounds.push(running);
        }
    }

    #[test]
    fn doubles_to_the_bound() {
        assert_eq!(rounds(Window::new(true, 8), 30, |_| false), [1, 2, 4, 8, 8, 7]);
        assert_eq!(rounds(Window::new(false, 8), 20, |_| false), [8, 8, 4]);
    }

    #[test]
    fn a_failure_ends_a_slow_start_only() {
        assert_eq!(rounds(Window::new(true, 8), 30, |step| step == 4), [1, 2, 4]);
        assert_eq!(rounds(Window::new(true, 8), 30, |step| step == 0), [1]);
        assert_eq!(rounds(Window::new(false, 8), 20, |_| true), [8, 8, 4]);
    }

    #[test]
    fn closed_is_closed() {
        let mut window = Window::new(false, 8);
        window.close();
        window.succeeded();
        assert!(!window.admits(0));
    }
}
