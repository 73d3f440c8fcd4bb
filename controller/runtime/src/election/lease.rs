//! One candidate for a lease.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use kube::Client;
use prometheus_client::metrics::gauge::Gauge;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Settings;
use crate::client::{self, Failed};
use crate::metrics::Metrics;
use crate::object::LEASES;

pub(super) struct Candidate {
    client: Client,
    settings: Settings,
    term: watch::Sender<Option<Instant>>,
    leads: Gauge,
    /// The lease as last read or written.
    lease: Option<Value>,
    /// Another's lease, and when it was first seen in this version.
    rival: Option<Rival>,
    /// Tells of changes of the lease.
    news: watch::Receiver<()>,
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
}

/// What a lease means for a candidate.
#[derive(Debug, PartialEq)]
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
        metrics: Arc<Metrics>,
        term: watch::Sender<Option<Instant>>,
        news: watch::Receiver<()>,
    ) -> Self {
        let leads = metrics.leader(&settings.name);
        leads.set(0);
        Self { client, settings, term, leads, lease: None, rival: None, news }
    }

    pub(super) async fn run(mut self, stop: CancellationToken) {
        loop {
            let wait = tokio::select! {
                () = stop.cancelled() => break,
                wait = self.turn() => wait,
            };
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(wait) => {}
                () = self.changed() => {}
            }
        }
        self.release().await;
    }

    /// Waits until the lease of another changes: it may be free. A leader knows what its own is.
    async fn changed(&mut self) {
        if self.term.borrow().is_some() || self.news.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// One attempt to get or keep the lease. Returns the wait until the next.
    async fn turn(&mut self) -> Duration {
        let sent = Instant::now();
        let Settings { identity, namespace, name, renew, retry, .. } = self.settings.clone();
        let led = self.term.borrow().is_some();
        match self.attempt().await {
            Ok(true) => {
                if !led {
                    tracing::info!(namespace, name, identity, "became leader");
                }
                self.leads.set(1);
                self.term.send_replace(Some(sent + renew));
                return retry;
            }
            Ok(false) => self.step_down("another process holds the lease"),
            Err(failed) => {
                tracing::warn!(namespace, name, identity, error = %failed, "cannot renew or take the lease");
                // What the server has is unknown now.
                self.lease = None;
                if self.term.borrow().is_some_and(|deadline| deadline <= Instant::now()) {
                    self.step_down("the lease could not be renewed in time");
                }
            }
        }
        let end = self.rival.as_ref().map(|rival| (rival.since + rival.lease).duration_since(Instant::now()));
        let try_again = retry.mul_f64(1.0 + 1.2 * fastrand::f64());
        if led { retry } else { end.filter(|end| !end.is_zero()).map_or(try_again, |end| end.min(try_again)) }
    }

    /// True if the lease is ours now.
    async fn attempt(&mut self) -> Result<bool, Failed> {
        if self.term.borrow().is_some()
            && let Some(lease) = self.lease.clone()
        {
            match self.write(lease, Claim::Renew).await {
                Err(failed) if failed.code == 409 => {}
                done => return done.map(|()| true),
            }
        }
        let path = LEASES.path(&self.settings.namespace, &self.settings.name);
        let lease =
            match client::send(&self.client, client::request(Method::GET, &path, "", Vec::new())?, self.patience())
                .await
            {
                Ok(body) => client::decode::<Value>(&body)?,
                Err(failed) if failed.code == 404 => Value::Null,
                Err(failed) => return Err(failed),
            };
        let claim = claim(&lease, &self.settings.identity, &mut self.rival, Instant::now());
        if claim == Claim::Wait {
            return Ok(false);
        }
        match self.write(lease, claim).await {
            // Another candidate was faster.
            Err(failed) if failed.code == 409 => Ok(false),
            done => done.map(|()| true),
        }
    }

    async fn write(&mut self, lease: Value, claim: Claim) -> Result<(), Failed> {
        let Settings { namespace, name, identity, lease: duration, .. } = &self.settings;
        let body = held(lease, (namespace, name), identity, *duration, &claim, Timestamp::now());
        let exists = body["metadata"]["resourceVersion"].is_string();
        let (method, path) = match exists {
            true => (Method::PUT, LEASES.path(namespace, name)),
            false => (Method::POST, LEASES.collection(namespace)),
        };
        let request = client::request(method, &path, "application/json", body.to_string().into_bytes())?;
        let answer = client::send(&self.client, request, self.patience()).await?;
        self.lease = Some(client::decode(&answer)?);
        self.rival = None;
        Ok(())
    }

    /// Two requests fit between two renewals.
    fn patience(&self) -> Instant {
        Instant::now() + self.settings.renew / 2
    }

    fn step_down(&mut self, why: &str) {
        if self.term.send_replace(None).is_some() {
            let Settings { namespace, name, identity, .. } = &self.settings;
            tracing::warn!(namespace, name, identity, why, "no longer leader");
        }
        self.leads.set(0);
    }

    /// Gives the lease back, so that others need not wait for its end.
    async fn release(&mut self) {
        self.leads.set(0);
        let Some(deadline) = self.term.send_replace(None) else { return };
        let Some(mut lease) = self.lease.take().filter(|_| deadline > Instant::now()) else { return };
        lease["spec"]["holderIdentity"] = Value::Null;
        lease["spec"]["leaseDurationSeconds"] = json!(1);
        let (namespace, name) = (&self.settings.namespace, &self.settings.name);
        let body = lease.to_string().into_bytes();
        let released = match client::request(Method::PUT, &LEASES.path(namespace, name), "application/json", body) {
            Ok(request) => client::send(&self.client, request, deadline).await.map(|_| ()),
            Err(failed) => Err(failed),
        };
        match released {
            Ok(()) => tracing::info!(namespace, name, "released the lease"),
            Err(failed) => tracing::warn!(namespace, name, error = %failed, "cannot release the lease"),
        }
    }
}

fn spec(lease: &Value) -> Spec {
    Spec::deserialize(&lease["spec"]).unwrap_or_default()
}

fn claim(lease: &Value, identity: &str, rival: &mut Option<Rival>, now: Instant) -> Claim {
    let spec = spec(lease);
    let holder = spec.holder_identity.unwrap_or_default();
    if holder == identity {
        return Claim::Renew;
    }
    if holder.is_empty() {
        return Claim::Take;
    }
    let version = lease["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    if let Some(rival) = rival.as_ref().filter(|rival| rival.version == version) {
        return if now >= rival.since + rival.lease { Claim::Take } else { Claim::Wait };
    }
    // The API holds 32 bits; what a server says otherwise must not be beyond the clock.
    let lease = Duration::from_secs(spec.lease_duration_seconds.unwrap_or(0).min(u32::MAX.into()));
    *rival = Some(Rival { version: version.to_owned(), since: now, lease });
    Claim::Wait
}

/// The lease as this candidate writes it.
fn held(
    mut lease: Value,
    (namespace, name): (&str, &str),
    identity: &str,
    duration: Duration,
    claim: &Claim,
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
    lease["spec"] = json!({
        "holderIdentity": identity,
        "leaseDurationSeconds": duration.as_secs(),
        "acquireTime": acquired,
        "renewTime": now,
        "leaseTransitions": transitions,
    });
    lease
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(holder: &str, version: &str) -> Value {
        json!({
            "metadata": {"resourceVersion": version, "labels": {"kept": "yes"}},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 3, "acquireTime": "then"},
        })
    }

    #[test]
    fn a_rivals_time_runs_from_its_last_renewal_as_seen_here() {
        let (start, mut rival) = (Instant::now(), None);
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(claim(&lease("b", "1"), "a", &mut rival, at(0)), Claim::Wait);
        assert_eq!(claim(&lease("b", "1"), "a", &mut rival, at(14)), Claim::Wait);
        // Renewed at the last moment.
        assert_eq!(claim(&lease("b", "2"), "a", &mut rival, at(15)), Claim::Wait);
        assert_eq!(claim(&lease("b", "2"), "a", &mut rival, at(29)), Claim::Wait);
        assert_eq!(claim(&lease("b", "2"), "a", &mut rival, at(30)), Claim::Take);
        let mut endless = lease("b", "3");
        endless["spec"]["leaseDurationSeconds"] = json!(u64::MAX);
        for seconds in [30, 1_000_000] {
            assert_eq!(claim(&endless, "a", &mut rival, at(seconds)), Claim::Wait);
        }
    }

    #[test]
    fn nobodys_and_ours_are_taken_at_once() {
        let now = Instant::now();
        assert_eq!(claim(&lease("", "1"), "a", &mut None, now), Claim::Take);
        assert_eq!(claim(&Value::Null, "a", &mut None, now), Claim::Take);
        assert_eq!(claim(&lease("a", "1"), "a", &mut None, now), Claim::Renew);
    }

    #[test]
    fn transitions_count_changes_of_the_holder() {
        let now: Timestamp = "2026-01-02T03:04:05.000006Z".parse().unwrap();
        let write = |old, claim| held(old, ("n", "l"), "a", Duration::from_secs(15), &claim, now);
        let taken = write(lease("b", "1"), Claim::Take);
        assert_eq!(taken["spec"]["leaseTransitions"], 4);
        assert_eq!(taken["spec"]["acquireTime"], "2026-01-02T03:04:05.000006Z");
        assert_eq!(taken["metadata"]["labels"]["kept"], "yes");
        let renewed = write(lease("a", "1"), Claim::Renew);
        assert_eq!(
            (&renewed["spec"]["leaseTransitions"], &renewed["spec"]["acquireTime"]),
            (&json!(3), &json!("then"))
        );
        let first = write(Value::Null, Claim::Take);
        assert_eq!((&first["spec"]["leaseTransitions"], &first["metadata"]["name"]), (&json!(0), &json!("l")));
    }
}
