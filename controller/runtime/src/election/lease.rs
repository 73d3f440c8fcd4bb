//! One candidate for a lease.

mod record;

use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use kube::Client;
use prometheus_client::metrics::gauge::Gauge;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::settings::{Settings, Taken};
use super::terms::Terms;
use crate::client::{self, Failed};
use crate::expectations::Versions;
use crate::metrics::Metrics;
use crate::object::LEASES;
use record::{Claim, Rival, claim, given_back, held, tell_successor, version};

pub(super) struct Candidate {
    client: Client,
    settings: Settings,
    terms: Terms,
    channels: Channels,
    leads: Gauge,
    /// The lease as last read or written.
    lease: Option<Value>,
    /// The lease that is being taken, if the previous holder gave it back.
    given_back: Option<Taken>,
    /// The versions that the lease records for the next leader when it is given back.
    seen: Box<dyn Fn() -> Versions + Send + Sync>,
    /// The lease of another holder, and when this version of it was first seen.
    rival: Option<Rival>,
}

/// A failed renewal is retried after this fraction of the time between two renewals.
const SOONER: u32 = 5;

/// The channels between a candidate and the rest of the process.
pub(super) struct Channels {
    /// The time until which this process leads.
    pub(super) term: watch::Sender<Option<Instant>>,
    /// The lease as it was taken.
    pub(super) taken: watch::Sender<Option<Taken>>,
    /// Signals changes of the lease.
    pub(super) news: watch::Receiver<()>,
    /// The time until which writes need more time than a short lease leaves.
    pub(super) slow: watch::Receiver<Option<Instant>>,
}

impl Candidate {
    pub(super) fn new(
        client: Client,
        settings: Settings,
        metrics: &Metrics,
        channels: Channels,
        seen: Box<dyn Fn() -> Versions + Send + Sync>,
    ) -> Self {
        let leads = metrics.leader(&settings.name);
        leads.set(0);
        let terms = Terms::new(&settings);
        Self {
            client,
            settings,
            terms,
            channels,
            leads,
            lease: None,
            given_back: None,
            seen,
            rival: None,
        }
    }

    pub(super) async fn run(mut self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            // A turn is never cut short, because a renewal whose answer was not read could not be
            // given back.
            let wait = self.turn().await;
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(wait) => {}
                () = self.changed() => {}
            }
        }
        self.release().await;
    }

    /// Waits until the lease of another holder changes, because it may be free. A leader knows its
    /// own lease; it waits for a request for more time.
    async fn changed(&mut self) {
        let leads = self.channels.term.borrow().is_some();
        let ended = match leads {
            true => self.channels.slow.changed().await.is_err(),
            false => self.channels.news.changed().await.is_err(),
        };
        if ended {
            std::future::pending::<()>().await;
        }
    }

    /// One attempt to get or keep the lease. Returns the wait until the next.
    async fn turn(&mut self) -> Duration {
        let sent = Instant::now();
        let Settings {
            identity,
            namespace,
            name,
            retry,
            ..
        } = self.settings.clone();
        let led = self.channels.term.borrow().is_some();
        let renew = self
            .terms
            .at(sent, *self.channels.slow.borrow_and_update())
            .renew;
        match self.attempt(sent).await {
            Ok(Some(claim)) => {
                if !led {
                    tracing::info!(namespace, name, identity, "became leader");
                }
                // Also if another process led between two renewals.
                if !led || claim == Claim::Take {
                    // A holder that gives the lease back has ended its writes before. The last
                    // write of any other holder may be newer.
                    let taken = self.given_back.take();
                    let unsaid = |version| Taken {
                        version,
                        seen: Versions::new(),
                    };
                    let taken = taken.or_else(|| self.lease.as_ref().and_then(version).map(unsaid));
                    self.channels.taken.send_replace(taken);
                }
                self.leads.set(1);
                self.channels.term.send_replace(Some(sent + renew));
                return retry;
            }
            Ok(None) => self.step_down("another process holds the lease"),
            Err(failed) => {
                tracing::warn!(namespace, name, identity, error = %failed, "cannot renew or take the lease");
                // The server's version of the lease is unknown now.
                self.lease = None;
                let deadline = *self.channels.term.borrow();
                match deadline {
                    // There is time for another try, and the cause of the failure may pass soon.
                    Some(deadline) if deadline > Instant::now() => return retry / SOONER,
                    Some(_) => self.step_down("the lease could not be renewed in time"),
                    None => {}
                }
            }
        }
        let end = self
            .rival
            .as_ref()
            .map(|rival| (rival.since + rival.lease).duration_since(Instant::now()));
        let try_again = retry.mul_f64(1.0 + 1.2 * fastrand::f64());
        if led {
            retry
        } else {
            end.filter(|end| !end.is_zero())
                .map_or(try_again, |end| end.min(try_again))
        }
    }

    /// The claim by which this process holds the lease; `None` while another process holds it. The
    /// term counts from `sent`.
    async fn attempt(&mut self, sent: Instant) -> Result<Option<Claim>, Failed> {
        if self.channels.term.borrow().is_some()
            && let Some(lease) = self.lease.clone()
        {
            match self.write(lease, Claim::Renew, sent).await {
                Err(failed) if failed.code == 409 => {}
                done => return done.map(|()| Some(Claim::Renew)),
            }
        }
        let path = LEASES.path(&self.settings.namespace, &self.settings.name)?;
        let lease = match client::send(
            &self.client,
            client::request(Method::GET, &path, "", Vec::new())?,
            self.patience(),
        )
        .await
        {
            Ok(body) => client::decode::<Value>(&body)?,
            Err(failed) if failed.code == 404 => Value::Null,
            Err(failed) => return Err(failed),
        };
        let longest = self.terms.longest_believed();
        let claim = claim(
            &lease,
            (&self.settings.identity, longest),
            &mut self.rival,
            Instant::now(),
        );
        if claim == Claim::Wait {
            return Ok(None);
        }
        self.given_back = given_back(&lease);
        match self.write(lease, claim, sent).await {
            // Another candidate was faster.
            Err(failed) if failed.code == 409 => Ok(None),
            done => done.map(|()| Some(claim)),
        }
    }

    async fn write(&mut self, lease: Value, claim: Claim, sent: Instant) -> Result<(), Failed> {
        let Settings {
            namespace,
            name,
            identity,
            ..
        } = &self.settings;
        let duration = self.terms.at(sent, *self.channels.slow.borrow()).lease;
        let body = held(
            lease,
            (namespace, name),
            identity,
            duration,
            claim,
            Timestamp::now(),
        );
        let exists = body["metadata"]["resourceVersion"].is_string();
        let (method, path) = match exists {
            true => (Method::PUT, LEASES.path(namespace, name)?),
            false => (Method::POST, LEASES.collection(namespace)?),
        };
        let request = client::request(
            method,
            &path,
            "application/json",
            body.to_string().into_bytes(),
        )?;
        let answer = client::send(&self.client, request, self.patience()).await?;
        self.lease = Some(client::decode(&answer)?);
        self.rival = None;
        Ok(())
    }

    /// The deadline of a request: two requests fit between two renewals.
    fn patience(&self) -> Instant {
        let now = Instant::now();
        now + self.terms.at(now, *self.channels.slow.borrow()).renew / 2
    }

    fn step_down(&mut self, why: &str) {
        self.channels.taken.send_replace(None);
        if self.channels.term.send_replace(None).is_some() {
            let Settings {
                namespace,
                name,
                identity,
                ..
            } = &self.settings;
            tracing::warn!(namespace, name, identity, why, "no longer leader");
        }
        self.leads.set(0);
    }

    /// Gives the lease back, so that other candidates need not wait for its end.
    async fn release(&mut self) {
        self.leads.set(0);
        self.channels.taken.send_replace(None);
        let Some(deadline) = self.channels.term.send_replace(None) else {
            return;
        };
        let Some(mut lease) = self.lease.take().filter(|_| deadline > Instant::now()) else {
            return;
        };
        lease["spec"]["holderIdentity"] = Value::Null;
        lease["spec"]["leaseDurationSeconds"] = json!(1);
        tell_successor(&mut lease, (self.seen)());
        let (namespace, name) = (&self.settings.namespace, &self.settings.name);
        let body = lease.to_string().into_bytes();
        let request = LEASES.path(namespace, name).map_err(Failed::from);
        let request =
            request.and_then(|path| client::request(Method::PUT, &path, "application/json", body));
        let released = match request {
            Ok(request) => client::send(&self.client, request, deadline)
                .await
                .map(|_| ()),
            Err(failed) => Err(failed),
        };
        match released {
            Ok(()) => tracing::info!(namespace, name, "released the lease"),
            Err(failed) => {
                tracing::warn!(namespace, name, error = %failed, "cannot release the lease")
            }
        }
    }
}

#[cfg(test)]
mod tests;
