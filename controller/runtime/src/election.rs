//! Leader election on a `Lease`, with the semantics of the Go client, so that both can stand for the same lease.

mod lease;
mod watched;

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use crate::object::LEASES;

/// The lease and its times.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Namespace of the lease.
    pub namespace: String,
    /// Name of the lease.
    pub name: String,
    /// Who this candidate is, unique among all: the pod's name and something random.
    pub identity: String,
    /// How long others leave a lease alone that is not renewed (4 s).
    pub lease: Duration,
    /// How long a leader goes on without a renewal (3 s); less than `lease`, the difference is for clocks that differ.
    pub renew: Duration,
    /// How often a lease is renewed (1 s). A candidate sees by a watch that it is given back or not renewed any more; how
    /// often it looks without one follows from this, too.
    pub retry: Duration,
}

impl Settings {
    /// The usual times for this lease.
    pub fn new(namespace: &str, name: &str, identity: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: identity.to_owned(),
            lease: Duration::from_secs(4),
            renew: Duration::from_secs(3),
            retry: Duration::from_secs(1),
        }
    }
}

/// Whether this process leads, and until when.
#[derive(Debug, Clone)]
pub struct Leadership {
    /// Until when this process leads unless it renews, or `None`.
    term: Option<watch::Receiver<Option<Instant>>>,
}

/// What a leader without an election is granted for a write.
const UNCONTESTED: Duration = Duration::from_secs(60);

impl Leadership {
    /// Leads without an election.
    pub fn always() -> Self {
        Self { term: None }
    }

    #[cfg(test)]
    pub(crate) fn with_term() -> (watch::Sender<Option<Instant>>, Self) {
        let (sender, term) = watch::channel(None);
        (sender, Self { term: Some(term) })
    }

    /// The moment when leadership ends unless it is renewed, measured from before the last renewal was sent. `None` when another
    /// process leads. No write may outlive it.
    pub fn deadline(&self) -> Option<Instant> {
        let now = Instant::now();
        match &self.term {
            None => Some(now + UNCONTESTED),
            Some(term) => term.borrow().filter(|deadline| *deadline > now),
        }
    }

    /// True while this process leads.
    pub fn is_leader(&self) -> bool {
        self.deadline().is_some()
    }

    /// Waits until this process leads.
    pub async fn acquired(&self) {
        let Some(mut term) = self.term.clone() else { return };
        let leads = |deadline: &Option<Instant>| deadline.is_some_and(|deadline| deadline > Instant::now());
        if term.wait_for(leads).await.is_err() {
            // The election has ended and will not be won any more.
            std::future::pending::<()>().await;
        }
    }

    /// Waits until this process does not lead.
    pub async fn lost(&self) {
        let Some(mut term) = self.term.clone() else { return std::future::pending().await };
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

/// Stands for election until `stop`, then gives the lease back. Poll the future all the time: it holds the lease.
pub fn run(
    client: Client,
    settings: Settings,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
) -> (Leadership, impl Future<Output = ()> + Send + 'static) {
    let (sender, term) = watch::channel(None);
    let (changed, news) = watch::channel(());
    let watching = watched::follow(client.clone(), &settings, metrics.feed(LEASES.kind), changed, stop.clone());
    let candidate = lease::Candidate::new(client, settings, metrics, sender, news);
    let standing = async move {
        tokio::join!(candidate.run(stop), watching);
    };
    (Leadership { term: Some(term) }, standing)
}
