//! The tasks of a process. A task that ends before the process stops ends the whole process. A
//! process with a frozen store or without an election would do harm and look healthy.

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
    /// The name of the task.
    pub task: Cow<'static, str>,
    /// `ended by itself`, or that it failed or panicked, with the message.
    pub how: String,
}

/// The tasks of a process, by name. Clones share them.
#[derive(Clone)]
pub struct Supervisor {
    stop: CancellationToken,
    watched: TaskTracker,
    first: Arc<Mutex<Option<Ended>>>,
}

impl Supervisor {
    /// Without tasks yet. `stop` asks all tasks to end. The supervisor cancels it when a task ends
    /// earlier.
    pub fn new(stop: CancellationToken) -> Self {
        Self {
            stop,
            watched: TaskTracker::new(),
            first: Arc::default(),
        }
    }

    /// The token that asks all tasks to end.
    pub fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// Starts a task that must run until [`Self::stop`].
    pub fn spawn(
        &self,
        task: impl Into<Cow<'static, str>>,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        self.watch(task, tokio::spawn(work));
    }

    /// Starts a task that must run until `token` is cancelled, which happens later than
    /// [`Self::stop`].
    pub fn spawn_until(
        &self,
        token: &CancellationToken,
        task: impl Into<Cow<'static, str>>,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        let handle = tokio::spawn(work);
        self.supervise(task.into(), token.clone(), async {
            handle.await.map_err(describe)
        });
    }

    /// Starts a task that must run until [`Self::stop`], and may fail.
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

    /// Watches a task that was started elsewhere and must run until [`Self::stop`].
    pub fn watch(&self, task: impl Into<Cow<'static, str>>, handle: JoinHandle<()>) {
        self.supervise(task.into(), self.stop.clone(), async {
            handle.await.map_err(describe)
        });
    }

    fn supervise(
        &self,
        task: Cow<'static, str>,
        token: CancellationToken,
        end: impl Future<Output = Result<(), String>> + Send + 'static,
    ) {
        let all = self.clone();
        self.watched.spawn(async move {
            let how = match end.await {
                Ok(()) if token.is_cancelled() => return,
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
    /// The first task that ended too early or panicked.
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
mod tests;
