//! Runs reconciles: each key in one worker at a time, as many keys as there are workers, and only
//! while this process leads.

pub mod turn;

use std::fmt::Display;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::election::Leadership;
use crate::handover::Handover;
use crate::metrics::DriverMetrics;
use crate::queue::{Queue, QueueKey, Work};
use crate::store::SyncState;

/// What to do with a key after its reconcile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Wait until something changes.
    Done,
    /// Reconcile again after this time, or sooner if something changes. Not a failure.
    After(Duration),
    /// The reconcile failed for this reason: try again after a back-off that grows with every
    /// failure in a row.
    Retry(String),
    /// The objects changed during the reconcile, as this reason says. Retried as [`Self::Retry`],
    /// but no failure.
    Again(String),
}

/// The keys of one controller, and the settings for reconciling them.
pub struct Driver<K> {
    /// Its name in logs.
    pub controller: &'static str,
    /// The source of the keys.
    pub queue: Arc<Queue<K>>,
    /// How many keys may be worked on at the same time.
    pub workers: usize,
    /// Nothing is reconciled while another process leads.
    pub leadership: Leadership,
    /// Nothing is reconciled before the stores have seen the old leader's writes.
    pub handover: Handover,
    /// Nothing is reconciled before these stores are complete.
    pub stores: Vec<SyncState>,
    /// From [`crate::metrics::Metrics::driver`].
    pub metrics: DriverMetrics,
}

impl<K> Driver<K>
where
    K: QueueKey + Display + Send + Sync + 'static,
{
    /// Runs until `stop`, then lets the running reconciles end. Each worker has its own task, so
    /// that a long decision delays no other worker.
    pub async fn run<F, R>(mut self, stop: CancellationToken, reconcile: F)
    where
        F: Fn(K) -> R + Send + Sync + 'static,
        R: Future<Output = Next> + Send,
    {
        for store in &mut self.stores {
            tokio::select! {
                // An error means that the store is dropped, and the process is ending.
                _ = store.wait_for(|synced| *synced) => {}
                () = stop.cancelled() => return,
            }
        }
        let (driver, reconcile) = (Arc::new(self), Arc::new(reconcile));
        let mut workers = JoinSet::new();
        for _ in 0..driver.workers.max(1) {
            let (driver, reconcile, stop) = (driver.clone(), reconcile.clone(), stop.clone());
            workers.spawn(async move { driver.work(&stop, &*reconcile).await });
        }
        workers.join_all().await;
    }

    async fn work<R: Future<Output = Next>>(
        &self,
        stop: &CancellationToken,
        reconcile: &impl Fn(K) -> R,
    ) {
        loop {
            let work = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                work = self.next() => work,
            };
            let Some(work) = work else { return };
            self.one(work, reconcile).await;
        }
    }

    async fn next(&self) -> Option<Work<K>> {
        loop {
            self.leadership.acquired().await;
            tokio::select! {
                work = self.take() => return work,
                () = self.leadership.lost() => {}
            }
        }
    }

    /// The next key, once the stores have everything that a decision needs.
    async fn take(&self) -> Option<Work<K>> {
        loop {
            self.handover.complete().await;
            let work = self.queue.take().await?;
            if self.handover.is_complete() {
                return Some(work);
            }
            // Another process led while this worker waited for a key.
            self.queue.add(work.key.clone());
        }
    }

    async fn one<R: Future<Output = Next>>(&self, work: Work<K>, reconcile: &impl Fn(K) -> R) {
        let started = tokio::time::Instant::now();
        self.metrics.active.inc();
        // A bug with one odd object must not stop the other keys.
        let next = AssertUnwindSafe(async { reconcile(work.key.clone()).await })
            .catch_unwind()
            .await;
        self.metrics.active.dec();
        self.metrics.time.observe(started.elapsed().as_secs_f64());
        let next = next.unwrap_or_else(|_| {
            self.metrics.panics.inc();
            Next::Retry("the reconcile panicked: this is a bug".to_owned())
        });
        let (controller, key) = (self.controller, &work.key);
        let next = match next {
            // The next leader does the rest of the work.
            Next::Retry(reason) if !self.leadership.is_leader() => Next::Again(reason),
            next => next,
        };
        match next {
            Next::Done => {
                self.metrics.done.inc();
                self.queue.forget(key);
            }
            Next::After(wait) => {
                self.metrics.later.inc();
                self.queue.forget(key);
                self.queue.add_after(key.clone(), wait);
            }
            Next::Again(reason) => {
                self.metrics.again.inc();
                let wait = self.queue.retry(key.clone());
                tracing::debug!(controller, %key, ?wait, reason, "reconciled again");
            }
            Next::Retry(reason) => {
                self.metrics.failed.inc();
                self.metrics.errors.inc();
                let wait = self.queue.retry(key.clone());
                tracing::warn!(controller, %key, failures = work.failures + 1, ?wait, reason, "reconcile failed");
            }
        }
    }
}

#[cfg(test)]
mod tests;
