//! Leader election on a `Lease`, with the semantics of the Go client, so that both can compete for
//! the same lease.

mod lease;
mod settings;
mod terms;
mod watched;

pub use settings::Settings;
pub(crate) use settings::Taken;

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::expectations::Versions;
use crate::metrics::Metrics;
use crate::object::LEASES;

/// Whether this process leads, and until when.
#[derive(Debug, Clone)]
pub struct Leadership {
    /// `None` leads without an election.
    elected: Option<Elected>,
}

/// The channels between an election and the rest of the process.
#[derive(Debug, Clone)]
struct Elected {
    /// The time until which this process leads unless it renews, or `None`.
    term: watch::Receiver<Option<Instant>>,
    /// The lease as it was taken, while this process leads.
    taken: watch::Receiver<Option<Taken>>,
    /// The time until which the lease must be long enough for slow writes.
    slow_until: Arc<watch::Sender<Option<Instant>>>,
}

/// The time for a write of a leader without an election.
const UNCONTESTED: Duration = Duration::from_secs(60);

impl Leadership {
    /// Leads without an election.
    pub fn always() -> Self {
        Self { elected: None }
    }

    #[cfg(test)]
    pub(crate) fn with_term() -> (watch::Sender<Option<Instant>>, Self) {
        let (sender, term) = watch::channel(None);
        let elected = Elected {
            term,
            taken: watch::channel(None).1,
            slow_until: Arc::new(watch::channel(None).0),
        };
        (
            sender,
            Self {
                elected: Some(elected),
            },
        )
    }

    #[cfg(test)]
    pub(crate) fn with_lease() -> (watch::Sender<Option<Taken>>, Self) {
        let (sender, taken) = watch::channel(None);
        let elected = Elected {
            term: watch::channel(None).1,
            taken,
            slow_until: Arc::new(watch::channel(None).0),
        };
        (
            sender,
            Self {
                elected: Some(elected),
            },
        )
    }

    /// When leadership ends unless it is renewed, measured from before the last renewal was sent.
    /// `None` if another process leads. No write may last longer.
    pub fn deadline(&self) -> Option<Instant> {
        let now = Instant::now();
        match &self.elected {
            None => Some(now + UNCONTESTED),
            Some(elected) => elected.term.borrow().filter(|deadline| *deadline > now),
        }
    }

    /// As [`Self::deadline`], but waits for a renewal until the deadline is at least this far away,
    /// or for the end of leadership.
    pub async fn deadline_after(&self, least: Duration) -> Option<Instant> {
        let mut term = self.elected.as_ref().map(|elected| elected.term.clone());
        loop {
            let deadline = self.deadline()?;
            let Some(term) = term.as_mut().filter(|_| deadline < Instant::now() + least) else {
                return Some(deadline);
            };
            tokio::select! {
                () = tokio::time::sleep_until(deadline) => {}
                changed = term.changed() => if changed.is_err() {
                    // The election has ended and renews no more.
                    return None;
                }
            }
        }
    }

    /// Makes the lease long for some minutes, because a write needed more time than the lease
    /// leaves.
    pub fn needs_time(&self) {
        let Some(elected) = &self.elected else { return };
        let now = Instant::now();
        if elected
            .slow_until
            .send_if_modified(|until| terms::extend(until, now))
        {
            tracing::info!("writes take long: the lease is taken for longer, for some minutes");
        }
    }

    /// The lease as it was taken, while this process leads. `None` without an election.
    pub(crate) fn taken(&self) -> Option<watch::Receiver<Option<Taken>>> {
        self.elected.as_ref().map(|elected| elected.taken.clone())
    }

    /// True while this process leads.
    pub fn is_leader(&self) -> bool {
        self.deadline().is_some()
    }

    /// Waits until this process leads.
    pub async fn acquired(&self) {
        let Some(mut term) = self.elected.as_ref().map(|elected| elected.term.clone()) else {
            return;
        };
        let leads =
            |deadline: &Option<Instant>| deadline.is_some_and(|deadline| deadline > Instant::now());
        if term.wait_for(leads).await.is_err() {
            // The election has ended, and this process will not lead any more.
            std::future::pending::<()>().await;
        }
    }

    /// Waits until this process does not lead.
    pub async fn lost(&self) {
        let Some(mut term) = self.elected.as_ref().map(|elected| elected.term.clone()) else {
            return std::future::pending().await;
        };
        while let Some(deadline) = self.deadline() {
            tokio::select! {
                () = tokio::time::sleep_until(deadline) => {}
                changed = term.changed() => if changed.is_err() {
                    return tokio::time::sleep_until(deadline).await;
                }
            }
        }
    }
}

/// Competes for the lease until `stop`, then gives it back and records the result of `seen` for the
/// next leader. Poll the future all the time, because it holds the lease.
pub fn run(
    client: Client,
    settings: Settings,
    metrics: Arc<Metrics>,
    seen: impl Fn() -> Versions + Send + Sync + 'static,
    stop: CancellationToken,
) -> (Leadership, impl Future<Output = ()> + Send + 'static) {
    let (sender, term) = watch::channel(None);
    let (taken_sender, taken) = watch::channel(None);
    let (slow_until, slow) = watch::channel(None);
    let (changed, news) = watch::channel(());
    let watching = watched::follow(
        client.clone(),
        &settings,
        metrics.feed(LEASES.kind),
        changed,
        stop.clone(),
    );
    let candidate = lease::Candidate::new(
        client,
        settings,
        &metrics,
        lease::Channels {
            term: sender,
            taken: taken_sender,
            news,
            slow,
        },
        Box::new(seen),
    );
    let standing = async move {
        tokio::join!(candidate.run(stop), watching);
    };
    (
        Leadership {
            elected: Some(Elected {
                term,
                taken,
                slow_until: Arc::new(slow_until),
            }),
        },
        standing,
    )
}

#[cfg(test)]
mod tests;
