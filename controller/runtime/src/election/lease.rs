//! One candidate for a lease.

use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use kube::Client;
use prometheus_client::metrics::gauge::Gauge;
use serde::{Deserialize, Serialize};
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
use berth_api::names::annotation::HANDOVER;

pub(super) struct Candidate {
    client: Client,
    settings: Settings,
    terms: Terms,
    channels: Channels,
    leads: Gauge,
    /// The lease as last read or written.
    lease: Option<Value>,
    /// The lease that is being taken, where the holder before gave it back.
    given_back: Option<Taken>,
    /// What the next leader is told when the lease is given back.
    seen: Box<dyn Fn() -> Versions + Send + Sync>,
    /// Another's lease, and when it was first seen in this version.
    rival: Option<Rival>,
}

/// A renewal that failed is tried again in this part of the time between two.
const SOONER: u32 = 5;

/// What a candidate tells the rest of the process, and is told.
pub(super) struct Channels {
    /// Until when this process leads.
    pub(super) term: watch::Sender<Option<Instant>>,
    /// The lease as it was taken.
    pub(super) taken: watch::Sender<Option<Taken>>,
    /// Tells of changes of the lease.
    pub(super) news: watch::Receiver<()>,
    /// Until when writes need more time than a short lease leaves.
    pub(super) slow: watch::Receiver<Option<Instant>>,
}

/// Another holder. Its clock is not trusted: its time runs from when its last renewal was first seen here.
#[derive(Debug, Clone, PartialEq)]
struct Rival {
    version: String,
    since: Instant,
    lease: Duration,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    holder_identity: Option<String>,
    lease_duration_seconds: Option<u64>,
    lease_transitions: Option<i64>,
    acquire_time: Option<String>,
    renew_time: Option<String>,
}

/// What a lease means for a candidate.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Claim {
    /// It is ours already.
    Renew,
    /// Nobody's, or the holder's time is over.
    Take,
    /// Another's.
    Wait,
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
            // Never cut short: a renewal that was carried out unheard could not be given back.
            let wait = self.turn().await;
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(wait) => {}
                () = self.changed() => {}
            }
        }
        self.release().await;
    }

    /// Waits until the lease of another changes: it may be free. A leader knows what its own is; it waits until somebody asks
    /// for more time.
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
                // Also when somebody else led between two renewals.
                if !led || claim == Claim::Take {
                    // Who gives it back has ended its writes before. Of whom does not, the last one may be newer.
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
                // What the server has is unknown now.
                self.lease = None;
                let deadline = *self.channels.term.borrow();
                match deadline {
                    // There is time for another try, and what the next one finds may be over soon.
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

    /// How the lease became ours, or stayed so; `None` while it is another's. What it grants counts from `sent`.
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

    /// Two requests fit between two renewals.
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

    /// Gives the lease back, so that others need not wait for its end.
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

fn version(lease: &Value) -> Option<Box<str>> {
    lease["metadata"]["resourceVersion"].as_str().map(Box::from)
}

/// What a holder that gives the lease back tells the next one, in an annotation.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct LastWords {
    /// The lease's own at that moment: another holder renews it, and may leave the annotation as it is.
    renew_time: String,
    seen: Versions,
}

fn tell_successor(lease: &mut Value, seen: Versions) {
    let words = LastWords {
        renew_time: spec(lease).renew_time.unwrap_or_default(),
        seen,
    };
    let metadata = &mut lease["metadata"];
    if !metadata["annotations"].is_object() {
        metadata["annotations"] = json!({});
    }
    metadata["annotations"][HANDOVER] = json!(serde_json::to_string(&words).unwrap_or_default());
}

/// A holder that ends leaves the lease without one; that it is there at all says that there was one.
fn given_back(lease: &Value) -> Option<Taken> {
    let spec = spec(lease);
    let version =
        version(lease).filter(|_| spec.holder_identity.is_none_or(|holder| holder.is_empty()))?;
    let words = lease["metadata"]["annotations"][HANDOVER].as_str();
    let words = words.and_then(|words| serde_json::from_str::<LastWords>(words).ok());
    let words = words.filter(|words| spec.renew_time.as_ref() == Some(&words.renew_time));
    Some(Taken {
        version,
        seen: words.map(|words| words.seen).unwrap_or_default(),
    })
}

fn spec(lease: &Value) -> Spec {
    Spec::deserialize(&lease["spec"]).unwrap_or_default()
}

/// Another's lease is believed for `longest` at most: a foreign length of years would leave everybody without a leader.
fn claim(
    lease: &Value,
    (identity, longest): (&str, Duration),
    rival: &mut Option<Rival>,
    now: Instant,
) -> Claim {
    let spec = spec(lease);
    let holder = spec.holder_identity.unwrap_or_default();
    if holder == identity {
        return Claim::Renew;
    }
    if holder.is_empty() {
        return Claim::Take;
    }
    let version = lease["metadata"]["resourceVersion"]
        .as_str()
        .unwrap_or_default();
    if let Some(rival) = rival.as_ref().filter(|rival| rival.version == version) {
        return if now >= rival.since + rival.lease {
            Claim::Take
        } else {
            Claim::Wait
        };
    }
    let lease = Duration::from_secs(spec.lease_duration_seconds.unwrap_or(0)).min(longest);
    *rival = Some(Rival {
        version: version.to_owned(),
        since: now,
        lease,
    });
    Claim::Wait
}

/// The lease as this candidate writes it.
fn held(
    mut lease: Value,
    (namespace, name): (&str, &str),
    identity: &str,
    duration: Duration,
    claim: Claim,
    now: Timestamp,
) -> Value {
    let now = now.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
    let old = spec(&lease);
    let transitions = old.lease_transitions.unwrap_or(0);
    let (acquired, transitions) = match claim {
        Claim::Renew => (old.acquire_time.unwrap_or_else(|| now.clone()), transitions),
        _ if lease.is_null() => (now.clone(), 0),
        _ => (now.clone(), transitions + 1),
    };
    if lease.is_null() {
        lease = json!({
            "apiVersion": LEASES.api_version(), "kind": LEASES.kind,
            "metadata": {"namespace": namespace, "name": name},
        });
    }
    if let Some(annotations) = lease["metadata"]["annotations"].as_object_mut() {
        annotations.remove(HANDOVER);
    }
    lease["spec"] = json!({
        "holderIdentity": identity,
        "leaseDurationSeconds": seconds(duration),
        "acquireTime": acquired,
        "renewTime": now,
        "leaseTransitions": transitions,
    });
    lease
}

/// Whole seconds, rounded up: others must not take a lease before this process has stopped to act on it.
fn seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests;
