//! The Lease as it is read and written: its holder, its duration, and the previous holder's record.

use crate::election::settings::Taken;
use crate::expectations::Versions;
use crate::object::LEASES;
use berth_api::names::annotation::HANDOVER;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

/// Another holder. Its clock is not trusted, so that its time runs from when its last renewal was
/// first seen here.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Rival {
    pub(super) version: String,
    pub(super) since: Instant,
    pub(super) lease: Duration,
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

/// The claim of a candidate to a lease.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Claim {
    /// The candidate holds the lease already.
    Renew,
    /// The lease has no holder, or the holder's time is over.
    Take,
    /// Another process holds the lease.
    Wait,
}

pub(super) fn version(lease: &Value) -> Option<Box<str>> {
    lease["metadata"]["resourceVersion"].as_str().map(Box::from)
}

/// The record that a holder leaves in an annotation for the next one when it gives the lease back.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct LastWords {
    /// The lease's own renew time at that moment. Another holder renews it, and may leave the
    /// annotation unchanged.
    renew_time: String,
    seen: Versions,
}

pub(super) fn tell_successor(lease: &mut Value, seen: Versions) {
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

/// A holder that ends leaves the lease without a holder. The existence of the lease shows that
/// there was one.
pub(super) fn given_back(lease: &Value) -> Option<Taken> {
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

/// The lease of another holder is trusted for `longest` at most, because a duration of years would
/// leave the cluster without a leader.
pub(super) fn claim(
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
pub(super) fn held(
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

/// Whole seconds, rounded up, because others must not take a lease before this process has stopped
/// acting on it.
fn seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}
