//! How often a node may be asked about pods for the sake of time alone.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Nodes that may be asked at once.
const BURST: f64 = 12.0;
/// Until one more may be asked. A rollout of a few pods is a second or two shorter; one of thousands, where nobody waits
/// for a single pod, costs no writes worth mentioning.
const REFILL: Duration = Duration::from_secs(10);

/// A budget of early questions.
#[derive(Debug)]
pub(crate) struct Early(Mutex<(f64, Instant)>);

impl Early {
    /// A full budget.
    pub(crate) fn new() -> Early {
        Early(Mutex::new((BURST, Instant::now())))
    }

    /// May one more node be asked?
    pub(crate) fn allowed(&self) -> bool {
        self.with(|left| *left >= 1.0)
    }

    /// One was.
    pub(crate) fn spend(&self) {
        self.with(|left| *left = (*left - 1.0).max(0.0));
    }

    fn with<T>(&self, f: impl FnOnce(&mut f64) -> T) -> T {
        let mut budget = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (left, at) = &mut *budget;
        let now = Instant::now();
        *left = (*left + now.duration_since(*at).div_duration_f64(REFILL)).min(BURST);
        *at = now;
        f(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_allowed_and_then_one_now_and_then() {
        let early = Early::new();
        let spend = || {
            let mut spent = 0;
            while early.allowed() {
                early.spend();
                spent += 1;
            }
            spent
        };
        assert_eq!(spend(), 12);
        tokio::time::sleep(REFILL * 2 + Duration::from_secs(1)).await;
        assert_eq!(spend(), 2);
        tokio::time::sleep(REFILL * 1000).await;
        assert_eq!(spend(), 12);
    }
}
