//! A long decision leaves others their turn.

use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::time::Instant;

/// After a decision that took longer, whoever waits for the thread goes first.
const BUDGET: Duration = Duration::from_millis(10);

/// Decides, and lets others go on after a long decision.
pub async fn decide<T>(is_large: bool, decide: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let decided = alone(is_large, decide);
    if began.elapsed() > BUDGET {
        tokio::task::yield_now().await;
    }
    decided
}

/// Does what takes its time. Where that is known to be much it has its thread to itself: another takes over what waits for
/// this one.
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
