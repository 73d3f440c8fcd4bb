//! The tasks of which a process consists. One that ends before it is asked to ends the process: what goes on with a store that
//! stands still, or without an election, does harm and looks well.

use std::borrow::Cow;
use std::fmt::Display;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A task that ended when it should not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the {task} {how}: the process ends")]
pub struct Ended {
    /// Which.
    pub task: Cow<'static, str>,
    /// `ended by itself`, or that it failed or panicked, and with which words.
    pub how: String,
}

/// Knows the tasks of a process by name. Clones share them.
#[derive(Clone)]
pub struct Supervisor {
    stop: CancellationToken,
    watched: TaskTracker,
    first: Arc<Mutex<Option<Ended>>>,
}

impl Supervisor {
    /// No tasks yet. `stop` asks them all to end, and is cancelled when one ends before that.
    pub fn new(stop: CancellationToken) -> Self {
        Self {
            stop,
            watched: TaskTracker::new(),
            first: Arc::default(),
        }
    }

    /// Asks all tasks to end.
    pub fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// Starts a task that is to run until [`Self::stop`].
    pub fn spawn(
        &self,
        task: impl Into<Cow<'static, str>>,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        self.watch(task, tokio::spawn(work));
    }

    /// Starts a task that is to run until `asked`, which is later than [`Self::stop`].
    pub fn spawn_until(
        &self,
        asked: &CancellationToken,
        task: impl Into<Cow<'static, str>>,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        let handle = tokio::spawn(work);
        self.supervise(task.into(), asked.clone(), async {
            handle.await.map_err(describe)
        });
    }

    /// Starts a task that is to run until [`Self::stop`], and may fail.
    pub fn spawn_fallible<E: Display>(
        &self,
        task: impl Into<Cow<'static, str>>,
        work: impl Future<Output = Result<(), E>> + Send + 'static,
    ) {
        let work = async { work.await.map_err(|error| format!("failed: {error}")) };
        let handle = tokio::spawn(work);
        self.supervise(task.into(), self.stop.clone(), async {
            handle.await.map_err(describe)?
        });
    }

    /// Watches a task that was started elsewhere and is to run until [`Self::stop`].
    pub fn watch(&self, task: impl Into<Cow<'static, str>>, handle: JoinHandle<()>) {
        self.supervise(task.into(), self.stop.clone(), async {
            handle.await.map_err(describe)
        });
    }

    fn supervise(
        &self,
        task: Cow<'static, str>,
        asked: CancellationToken,
        end: impl Future<Output = Result<(), String>> + Send + 'static,
    ) {
        let all = self.clone();
        self.watched.spawn(async move {
            let how = match end.await {
                Ok(()) if asked.is_cancelled() => return,
                Ok(()) => "ended by itself".to_owned(),
                Err(how) => how,
            };
            all.ended(Ended { task, how });
        });
    }

    fn ended(&self, ended: Ended) {
        let mut first = self.first.lock();
        if first.is_none() {
            let Ended { task, how } = &ended;
            tracing::error!(%task, how, "a task ended: the process ends");
            *first = Some(ended);
        }
        drop(first);
        self.stop.cancel();
    }

    /// Waits until all tasks have ended.
    ///
    /// # Errors
    /// The first task that ended before it was asked to, or that panicked.
    pub async fn join(self) -> Result<(), Ended> {
        self.watched.close();
        self.watched.wait().await;
        self.first.lock().take().map_or(Ok(()), Err)
    }
}

fn describe(error: JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else {
        return "was aborted".to_owned();
    };
    let words = panic
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| panic.downcast_ref().cloned());
    format!(
        "panicked: {}",
        words.unwrap_or_else(|| "without words".to_owned())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn supervisor() -> Supervisor {
        Supervisor::new(CancellationToken::new())
    }

    #[tokio::test]
    async fn a_task_that_panics_stops_the_others_and_is_named() {
        let all = supervisor();
        all.spawn("feed of Pod", all.stop().clone().cancelled_owned());
        all.spawn("feed of Node", async { panic!("odd object") });
        let ended = all.join().await.unwrap_err();
        assert_eq!(
            ended.to_string(),
            "the feed of Node panicked: odd object: the process ends"
        );
    }

    #[tokio::test]
    async fn a_task_that_ends_by_itself_stops_the_others_and_is_named() {
        let all = supervisor();
        all.spawn("feed of Pod", all.stop().clone().cancelled_owned());
        all.spawn("election", async {});
        let ended = all.join().await.unwrap_err();
        assert_eq!((&*ended.task, &*ended.how), ("election", "ended by itself"));
    }

    #[tokio::test]
    async fn tasks_that_end_when_they_are_asked_to_are_no_failure() {
        let all = supervisor();
        for task in ["feed of Pod", "election"] {
            all.spawn(task, all.stop().clone().cancelled_owned());
        }
        all.stop().cancel();
        assert_eq!(all.join().await, Ok(()));
    }

    #[tokio::test]
    async fn a_panic_while_the_process_ends_is_told_all_the_same() {
        let all = supervisor();
        let stop = all.stop().clone();
        all.spawn("feed of Pod", async move {
            stop.cancelled().await;
            panic!("late");
        });
        all.stop().cancel();
        assert_eq!(all.join().await.unwrap_err().how, "panicked: late");
    }

    #[tokio::test]
    async fn a_task_that_fails_is_told_with_its_error() {
        let all = supervisor();
        all.spawn_fallible("webhooks", async { Err("no port") });
        assert_eq!(all.join().await.unwrap_err().how, "failed: no port");
    }

    #[tokio::test]
    async fn a_task_that_is_asked_to_end_last_is_no_failure_then_and_one_before() {
        for is_asked in [true, false] {
            let (all, last) = (supervisor(), CancellationToken::new());
            if is_asked {
                last.cancel();
            }
            all.stop().cancel();
            all.spawn_until(&last, "election", async {});
            assert_eq!(all.join().await.is_ok(), is_asked);
        }
    }

    #[tokio::test]
    async fn a_task_that_was_started_elsewhere_is_watched_as_well() {
        let all = supervisor();
        all.watch("webhooks", tokio::spawn(async {}));
        assert_eq!(all.join().await.unwrap_err().task, "webhooks");
    }
}
