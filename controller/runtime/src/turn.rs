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
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn who_waits_goes_on_before_what_follows_a_long_decision() {
        for (time, order) in [
            (BUDGET * 2, ["other", "next"]),
            (Duration::ZERO, ["next", "other"]),
        ] {
            let (said, heard) = mpsc::channel();
            let other = said.clone();
            let task = tokio::spawn(async move { other.send("other").unwrap() });
            decide(false, || std::thread::sleep(time)).await;
            said.send("next").unwrap();
            task.await.unwrap();
            assert_eq!(heard.try_iter().collect::<Vec<_>>(), order, "{time:?}");
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_large_decision_does_not_keep_the_only_thread() {
        let (said, heard) = mpsc::channel();
        let deciding = tokio::spawn(async move {
            tokio::spawn(async move { said.send("other").unwrap() });
            // Waits for what cannot be said unless another thread takes over.
            decide(true, move || heard.recv().unwrap()).await
        });
        assert_eq!(deciding.await.unwrap(), "other");
    }
}
