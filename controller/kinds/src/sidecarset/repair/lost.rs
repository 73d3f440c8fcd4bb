//! Workloads that a turn of repair ended badly for: they make no other pod, for they were scaled down or have no quota, or make one
//! that lacks the containers, too. Their other pods stay, and those of other workloads go on. A namespace stops where three of its
//! workloads are so, and all namespaces stop only for what happens in several of them: a tenant fills no other's share.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_api::v1beta1::sidecarset::{SidecarSetLostPod, SidecarSetRepair};
use berth_workload::pod::Pod;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::super::Snapshot;
use super::super::audit::lacking;
use super::super::names::REPAIR;
use super::super::pods::Member;
use super::{Scope, Turn, is_later, is_of, pods_of, record};

/// How long repair waits for a successor to come.
pub(super) const PATIENCE: SignedDuration = SignedDuration::from_secs(60);

/// How long a workload has for what it does itself: to follow the label, and to make the successor ready.
pub(super) const OF_WORKLOAD: SignedDuration = SignedDuration::from_mins(5);

/// How long after the first stop of a workload another of its pods is replaced, and how long at most.
const FIRST: SignedDuration = SignedDuration::from_secs(60);
const LONGEST: SignedDuration = SignedDuration::from_hours(1);

/// So many workloads of a namespace, and repair takes no pods of the namespace.
const MOST_OF_NAMESPACE: usize = 3;
/// Workloads stop in so many namespaces: something is wrong that is no tenant's.
const MOST_STOPPED: usize = 3;
/// Workloads of so many namespaces make no other pod: something is wrong that is no tenant's.
const MOST_MISSING: usize = 16;

/// The turn waits for its workload, but not for ever.
pub(super) fn waits(
    record: &SidecarSetRepair,
    what: String,
    patience: SignedDuration,
    now: Timestamp,
) -> Turn<'static> {
    let since = record.missing.as_ref().map_or(now, |since| since.0);
    // A clock that was set back makes nobody wait longer.
    let left = patience.saturating_sub(now.duration_since(since).abs());
    if left.is_positive() {
        return Turn::Missing(what, since, left);
    }
    Turn::Lost(format!(
        "its workload has made no other that is ready in place of pod {}/{}: see the workload's events; its other pods stay until it has \
         made one",
        record.namespace, record.pod
    ))
}

/// The record once its pod is waited for no more.
pub(in crate::sidecarset) fn given_up(record: SidecarSetRepair) -> SidecarSetRepair {
    noted(record, |_| (None, 0))
}

/// The record once its successor is seen to lack the containers.
pub(in crate::sidecarset) fn stopped(record: SidecarSetRepair, now: Timestamp) -> SidecarSetRepair {
    noted(record, |before| (Some(Time(now)), before.saturating_add(1)))
}

fn noted(mut record: SidecarSetRepair, stop: impl FnOnce(i32) -> (Option<Time>, i32)) -> SidecarSetRepair {
    let SidecarSetRepair { namespace, pod, owner, newest, .. } = record.clone();
    let is_its = |lost: &SidecarSetLostPod| lost.namespace == namespace && lost.owner == owner;
    let before = record.lost.iter().find(|lost| is_its(lost)).map_or(0, |lost| lost.stops);
    record.lost.retain(|lost| !is_its(lost));
    let (stopped, stops) = stop(before);
    record.lost.push(SidecarSetLostPod { namespace, pod, owner, newest, stopped, stops });
    SidecarSetRepair { over: true, ..record }
}

/// The pods in whose place their workloads have made no other to this day that serves and has the containers, of workloads of which
/// something else could be taken.
pub(in crate::sidecarset) fn still_lost(
    snapshot: &Snapshot,
    members: &[Member<'_>],
    now: Timestamp,
) -> Vec<SidecarSetLostPod> {
    let known = record(snapshot).map_or(&[][..], |record| &record.lost);
    if known.is_empty() {
        return Vec::new();
    }
    let scope = Scope::of(snapshot);
    let lacking = lacking(snapshot, members, now);
    let lacks: BTreeSet<_> = lacking.iter().map(|(pod, _)| &*pod.metadata.uid).collect();
    let has_come = |lost: &SidecarSetLostPod| {
        let newest = lost.newest.as_ref().map(|newest| newest.0);
        let serves = |pod: &Arc<Pod>| pod.is_active() && pod.is_true("Ready") && !lacks.contains(&*pod.metadata.uid);
        let mut all = pods_of(snapshot, &lost.namespace, &lost.owner);
        all.any(|pod| serves(pod) && is_later(pod, &lost.pod, newest))
    };
    let matters = |lost: &SidecarSetLostPod| {
        let mut wanted = lacking.iter().filter(|(_, lack)| scope.has(*lack));
        wanted.any(|(pod, _)| is_of(pod, &lost.namespace, &lost.owner))
    };
    known.iter().filter(|lost| matters(lost) && !has_come(lost)).cloned().collect()
}

/// How long a workload that has stopped is still left alone; `None` where it is tried again, or has not stopped.
fn left(lost: &SidecarSetLostPod, now: Timestamp) -> Option<SignedDuration> {
    let doubled = 1_i32.checked_shl(lost.stops.saturating_sub(1).clamp(0, 16).unsigned_abs()).unwrap_or(i32::MAX);
    let pause = FIRST.saturating_mul(doubled).min(LONGEST);
    // A clock that was set back makes nobody wait longer.
    let left = pause.saturating_sub(now.duration_since(lost.stopped.as_ref()?.0).abs());
    left.is_positive().then_some(left)
}

/// Does repair try another pod of a workload that has stopped?
pub(super) fn is_tried_again(lost: &[SidecarSetLostPod], pod: &Pod, now: Timestamp) -> bool {
    let its = lost.iter().find(|lost| is_of(pod, &lost.namespace, &lost.owner));
    its.is_some_and(|its| its.stopped.is_some() && left(its, now).is_none())
}

/// Why a pod stays of whose workload one was lost, or of whose namespace several were.
pub(super) fn stays(lost: &[SidecarSetLostPod], pod: &Pod, now: Timestamp) -> Option<String> {
    if is_tried_again(lost, pod, now) {
        return None;
    }
    let again = format!("to try again at once, set metadata.annotations[{REPAIR}] to None and back");
    if let Some(its) = lost.iter().find(|lost| is_of(pod, &lost.namespace, &lost.owner)) {
        let of_its = &its.pod;
        return Some(if its.stopped.is_some() {
            format!(
                "stays, because the pod that its workload made in place of pod {of_its} lacks the containers, too: see the condition \
                 InjectionReady; {again}"
            )
        } else {
            format!(
                "stays, for its workload has made no other in place of pod {of_its}: see the workload's events; {again}"
            )
        });
    }
    let of_namespace = lost.iter().filter(|lost| *lost.namespace == *pod.metadata.namespace).count();
    (of_namespace >= MOST_OF_NAMESPACE).then(|| {
        format!("stays, because {of_namespace} workloads of its namespace have made no other pod with the containers; {again}")
    })
}

/// How long until a workload that has stopped is tried again, the first one.
pub(in crate::sidecarset) fn next_try(lost: &[SidecarSetLostPod], now: Timestamp) -> Option<SignedDuration> {
    lost.iter().filter_map(|lost| left(lost, now)).min()
}

/// Why repair takes pods of no workload but those that are tried again: workloads of several namespaces have stopped.
pub(super) fn stopped_everywhere(lost: &[SidecarSetLostPod]) -> Option<String> {
    let (namespaces, first) = namespaces(lost, true, MOST_STOPPED)?;
    Some(format!(
        "pods that came in place of others lack the containers, too, in {namespaces} namespaces, in place of {first} among them: see \
         the condition InjectionReady and the logs of kruise-controller-manager; repair tries these workloads again after a minute, and \
         up to an hour later each time; to try again at once, set metadata.annotations[{REPAIR}] to None and back"
    ))
}

/// Why repair takes no pod of any workload: those of many namespaces make no other.
pub(super) fn missing_everywhere(lost: &[SidecarSetLostPod]) -> Option<String> {
    let (namespaces, first) = namespaces(lost, false, MOST_MISSING)?;
    Some(format!(
        "workloads of {namespaces} namespaces have made no other pod in place of one that was replaced, of {first} among them: see \
         their events; to try again, set metadata.annotations[{REPAIR}] to None and back"
    ))
}

/// Of how many namespaces workloads are lost, where they are so many, and the first pod.
fn namespaces(lost: &[SidecarSetLostPod], is_stopped: bool, many: usize) -> Option<(usize, String)> {
    let such = || lost.iter().filter(|lost| lost.stopped.is_some() == is_stopped);
    let namespaces = such().map(|lost| &lost.namespace).collect::<BTreeSet<_>>().len();
    let first = such().next().filter(|_| namespaces >= many)?;
    Some((namespaces, format!("{}/{}", first.namespace, first.pod)))
}
