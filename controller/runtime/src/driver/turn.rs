//! Yields the thread after a long decision.

use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::time::Instant;

/// A longer decision is followed by a yield, so that other tasks of the thread run first.
const BUDGET: Duration = Duration::from_millis(10);

/// Decides, and yields to other tasks after a long decision.
pub async fn decide<T>(is_large: bool, decide: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let decided = alone(is_large, decide);
    if began.elapsed() > BUDGET {
        tokio::task::yield_now().await;
    }
    decided
}

/// Runs long work. If `is_large`, the work has its thread to itself: another thread takes over the
/// tasks that wait for this one.
pub fn alone<T>(is_large: bool, work: impl FnOnce() -> T) -> T {
    let can_move =
        || Handle::try_current().is_ok_and(|on| on.runtime_flavor() == RuntimeFlavor::MultiThread);
    if is_large && can_move() {
        tokio::task::block_in_place(work)
    } else {
        work()
    }
}

#[cfg(test)]
mod tests;
