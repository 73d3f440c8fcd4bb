//! Runs reconciles: one key at a time each, as many at once as there are workers, only while this process leads.

use std::fmt::Display;
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use tokio_util::sync::CancellationToken;

use crate::election::Leadership;
use crate::metrics::DriverMetrics;
use crate::queue::{Queue, Work};
use crate::store::SyncState;

/// What to do with a key after its reconcile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Nothing until something changes.
    Done,
    /// Look again after this time, or sooner if something changes. Not a failure.
    After(Duration),
    /// It failed for this reason: look again after a back-off that grows with every failure in a row.
    Retry(String),
    /// What was decided on is not what was there, for this reason: as [`Self::Retry`], and no failure.
    Again(String),
}

/// The keys of one controller and how to work on them.
pub struct Driver<K> {
    /// For logs.
    pub controller: &'static str,
    /// Where the keys come from.
    pub queue: Arc<Queue<K>>,
    /// How many keys may be worked on at the same time.
    pub workers: usize,
    /// Nothing is reconciled while another process leads.
    pub leadership: Leadership,
    /// Nothing is reconciled before these stores hold everything.
    pub stores: Vec<SyncState>,
    /// From [`crate::metrics::Metrics::driver`].
    pub metrics: DriverMetrics,
}

impl<K> Driver<K>
where
    K: Clone + Eq + Hash + Display + Send + 'static,
{
    /// Works until `stop`, then lets the reconciles that are under way end.
    pub async fn run(mut self, stop: CancellationToken, reconcile: impl AsyncFn(K) -> Next) {
        for store in &mut self.stores {
            tokio::select! {
                // An error means that the store is gone, and with it the process.
                _ = store.wait_for(|synced| *synced) => {}
                () = stop.cancelled() => return,
            }
        }
        join_all((0..self.workers.max(1)).map(|_| self.work(&stop, &reconcile))).await;
    }

    async fn work(&self, stop: &CancellationToken, reconcile: &impl AsyncFn(K) -> Next) {
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
                work = self.queue.take() => return work,
                () = self.leadership.lost() => {}
            }
        }
    }

    async fn one(&self, work: Work<K>, reconcile: &impl AsyncFn(K) -> Next) {
        let started = tokio::time::Instant::now();
        self.metrics.active.inc();
        // A bug that an odd object brings to light must not stop the others.
        let next = AssertUnwindSafe(reconcile(work.key.clone())).catch_unwind().await;
        self.metrics.active.dec();
        self.metrics.time.observe(started.elapsed().as_secs_f64());
        let next = next.unwrap_or_else(|_| {
            self.metrics.panics.inc();
            Next::Retry("the reconcile panicked: this is a bug".to_owned())
        });
        let (controller, key) = (self.controller, &work.key);
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
