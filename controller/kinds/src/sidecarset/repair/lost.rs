//! Workloads whose turn of repair failed: they create no other pod, because they were scaled down
//! or have no quota, or they create one that lacks the containers, too. Their other pods stay, and
//! repair continues with pods of other workloads. Repair of a namespace stops if three of its
//! workloads are in this list. Repair as a whole stops only for workloads of several namespaces, so
//! that one tenant cannot stop it.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_api::v1beta1::sidecarset::{SidecarSetLostPod, SidecarSetRepair};
use berth_workload::objects::pod::Pod;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::super::Snapshot;
use super::super::names::REPAIR;
use super::audit::lacking;
use super::turn::{Scope, Turn, is_later, is_of, pods_of, record};
use crate::sidecarset::update::pods::Member;

/// The time that repair waits for a successor to be created.
pub(super) const PATIENCE: SignedDuration = SignedDuration::from_secs(60);

/// The time that a workload has to follow the label, and to make the successor ready.
pub(super) const OF_WORKLOAD: SignedDuration = SignedDuration::from_mins(5);

/// The pause after the first stop of a workload, and the longest pause.
const FIRST: SignedDuration = SignedDuration::from_secs(60);
const LONGEST: SignedDuration = SignedDuration::from_hours(1);

/// The number of lost workloads at which repair takes no more pods of a namespace.
const MOST_OF_NAMESPACE: usize = 3;
/// The number of namespaces with stopped workloads at which repair stops as a whole.
const MOST_STOPPED: usize = 3;
/// The number of namespaces whose workloads create no other pod at which repair stops as a whole.
const MOST_MISSING: usize = 16;

/// The turn while it waits for its workload, which ends after `patience`.
pub(super) fn waits(
    record: &SidecarSetRepair,
    what: String,
    patience: SignedDuration,
    now: Timestamp,
) -> Turn<'static> {
    let since = record.missing.as_ref().map_or(now, |since| since.0);
    // A clock that is set back must not lengthen the wait.
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

/// The record when repair no longer waits for a successor.
pub(in crate::sidecarset) fn given_up(record: SidecarSetRepair) -> SidecarSetRepair {
    noted(record, |_| (None, 0))
}

/// The record when the successor lacks the containers.
pub(in crate::sidecarset) fn stopped(record: SidecarSetRepair, now: Timestamp) -> SidecarSetRepair {
    noted(record, |before| (Some(Time(now)), before.saturating_add(1)))
}

fn noted(
    mut record: SidecarSetRepair,
    stop: impl FnOnce(i32) -> (Option<Time>, i32),
) -> SidecarSetRepair {
    let SidecarSetRepair {
        namespace,
        pod,
        owner,
        newest,
        ..
    } = record.clone();
    let is_its = |lost: &SidecarSetLostPod| lost.namespace == namespace && lost.owner == owner;
    let before = record
        .lost
        .iter()
        .find(|lost| is_its(lost))
        .map_or(0, |lost| lost.stops);
    record.lost.retain(|lost| !is_its(lost));
    let (stopped, stops) = stop(before);
    record.lost.push(SidecarSetLostPod {
        namespace,
        pod,
        owner,
        newest,
        stopped,
        stops,
    });
    SidecarSetRepair {
        over: true,
        ..record
    }
}

/// The pods that repair took and for which the workload has not yet created another pod that serves
/// and has the containers. Only workloads with more pods that repair could take count.
pub(super) fn still_lost(
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
        let serves = |pod: &Arc<Pod>| {
            pod.is_active() && pod.is_true("Ready") && !lacks.contains(&*pod.metadata.uid)
        };
        let mut all = pods_of(snapshot, &lost.namespace, &lost.owner);
        all.any(|pod| serves(pod) && is_later(pod, &lost.pod, newest))
    };
    let matters = |lost: &SidecarSetLostPod| {
        let mut wanted = lacking.iter().filter(|(_, lack)| scope.has(*lack));
        wanted.any(|(pod, _)| is_of(pod, &lost.namespace, &lost.owner))
    };
    known
        .iter()
        .filter(|lost| matters(lost) && !has_come(lost))
        .cloned()
        .collect()
}

/// The rest of the pause of a stopped workload; `None` after the pause, or if the workload has not
/// stopped.
fn left(lost: &SidecarSetLostPod, now: Timestamp) -> Option<SignedDuration> {
    let doubled = 1_i32
        .checked_shl(lost.stops.saturating_sub(1).clamp(0, 16).unsigned_abs())
        .unwrap_or(i32::MAX);
    let pause = FIRST.saturating_mul(doubled).min(LONGEST);
    // A clock that is set back must not lengthen the wait.
    let left = pause.saturating_sub(now.duration_since(lost.stopped.as_ref()?.0).abs());
    left.is_positive().then_some(left)
}

/// Whether repair tries another pod of a workload that has stopped.
pub(super) fn is_tried_again(lost: &[SidecarSetLostPod], pod: &Pod, now: Timestamp) -> bool {
    let its = lost
        .iter()
        .find(|lost| is_of(pod, &lost.namespace, &lost.owner));
    its.is_some_and(|its| its.stopped.is_some() && left(its, now).is_none())
}

/// The reason why a pod stays, because its workload or its namespace is lost.
pub(super) fn stays(lost: &[SidecarSetLostPod], pod: &Pod, now: Timestamp) -> Option<String> {
    if is_tried_again(lost, pod, now) {
        return None;
    }
    let again =
        format!("to try again at once, set metadata.annotations[{REPAIR}] to None and back");
    if let Some(its) = lost
        .iter()
        .find(|lost| is_of(pod, &lost.namespace, &lost.owner))
    {
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
    let of_namespace = lost
        .iter()
        .filter(|lost| *lost.namespace == *pod.metadata.namespace)
        .count();
    (of_namespace >= MOST_OF_NAMESPACE).then(|| {
        format!("stays, because {of_namespace} workloads of its namespace have made no other pod with the containers; {again}")
    })
}

/// The time until the first stopped workload is tried again.
pub(in crate::sidecarset) fn next_try(
    lost: &[SidecarSetLostPod],
    now: Timestamp,
) -> Option<SignedDuration> {
    lost.iter().filter_map(|lost| left(lost, now)).min()
}

/// The reason why repair takes no pods of other workloads: workloads of several namespaces have
/// stopped.
pub(super) fn stopped_everywhere(lost: &[SidecarSetLostPod]) -> Option<String> {
    let (namespaces, first) = namespaces(lost, true, MOST_STOPPED)?;
    Some(format!(
        "pods that came in place of others lack the containers, too, in {namespaces} namespaces, in place of {first} among them: see \
         the condition InjectionReady and the logs of kruise-controller-manager; repair tries these workloads again after a minute, and \
         up to an hour later each time; to try again at once, set metadata.annotations[{REPAIR}] to None and back"
    ))
}

/// The reason why repair takes no pod of any workload: workloads of many namespaces create no other
/// pod.
pub(super) fn missing_everywhere(lost: &[SidecarSetLostPod]) -> Option<String> {
    let (namespaces, first) = namespaces(lost, false, MOST_MISSING)?;
    Some(format!(
        "workloads of {namespaces} namespaces have made no other pod in place of one that was replaced, of {first} among them: see \
         their events; to try again, set metadata.annotations[{REPAIR}] to None and back"
    ))
}

/// The number of namespaces with lost workloads of a kind, if it is at least `many`, and the first
/// pod.
fn namespaces(
    lost: &[SidecarSetLostPod],
    is_stopped: bool,
    many: usize,
) -> Option<(usize, String)> {
    let such = || {
        lost.iter()
            .filter(|lost| lost.stopped.is_some() == is_stopped)
    };
    let namespaces = such()
        .map(|lost| &lost.namespace)
        .collect::<BTreeSet<_>>()
        .len();
    let first = such().next().filter(|_| namespaces >= many)?;
    Some((namespaces, format!("{}/{}", first.namespace, first.pod)))
}
