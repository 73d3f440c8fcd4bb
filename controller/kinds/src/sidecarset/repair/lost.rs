//! Pods in whose place their workloads make no other: one that was scaled down meanwhile makes none, nor one whose quota is used up.

use std::sync::Arc;

use berth_api::v1beta1::sidecarset::{SidecarSetLostPod, SidecarSetRepair};
use berth_workload::pod::Pod;
use jiff::{SignedDuration, Timestamp};

use super::super::Snapshot;
use super::super::names::REPAIR;
use super::{Turn, is_later, is_of, pods_of, record};

/// How long a successor is waited for.
const PATIENCE: SignedDuration = SignedDuration::from_secs(60);

/// Where so many workloads have made no other pod it is no accident, and nothing more is taken of any.
const MOST: usize = 16;

/// Nothing has come in the pod's place: it is waited for, but not for ever.
pub(super) fn missing(record: &SidecarSetRepair, now: Timestamp) -> Turn<'static> {
    let name = format!("{}/{}", record.namespace, record.pod);
    let since = record.missing.as_ref().map_or(now, |since| since.0);
    // A clock that was set back makes nobody wait longer.
    let left = PATIENCE.saturating_sub(now.duration_since(since).abs());
    if left.is_positive() {
        let what = format!("its workload has made no other in place of pod {name} yet: see the workload's events");
        Turn::Missing(what, since, left)
    } else {
        Turn::Lost(format!(
            "its workload has made no other in place of pod {name}: see the workload's events; its other pods stay until it has made one"
        ))
    }
}

/// The record once its pod is waited for no more.
pub(in crate::sidecarset) fn given_up(mut record: SidecarSetRepair) -> SidecarSetRepair {
    let SidecarSetRepair { namespace, pod, owner, newest, .. } = record.clone();
    record.lost.retain(|lost| lost.namespace != namespace || lost.owner != owner);
    record.lost.push(SidecarSetLostPod { namespace, pod, owner, newest });
    SidecarSetRepair { over: true, ..record }
}

/// The pods in whose place their workloads have made no other to this day, or none that serves.
pub(in crate::sidecarset) fn still_lost(snapshot: &Snapshot) -> Vec<SidecarSetLostPod> {
    let has_come = |lost: &SidecarSetLostPod| {
        let newest = lost.newest.as_ref().map(|newest| newest.0);
        let is_it = |pod: &Arc<Pod>| pod.is_active() && pod.is_true("Ready") && is_later(pod, &lost.pod, newest);
        pods_of(snapshot, &lost.namespace, &lost.owner).any(is_it)
    };
    let known = record(snapshot).into_iter().flat_map(|record| &record.lost);
    known.filter(|lost| !has_come(lost)).cloned().collect()
}

/// Why a pod stays of whose workload one was lost.
pub(super) fn stays(lost: &[SidecarSetLostPod], pod: &Pod) -> Option<String> {
    let lost = lost.iter().find(|lost| is_of(pod, &lost.namespace, &lost.owner))?;
    Some(format!(
        "stays, for its workload has made no other in place of pod {}: see the workload's events; to try again, set \
         metadata.annotations[{REPAIR}] to None and back",
        lost.pod
    ))
}

/// Why no pod of any workload is taken where these were lost.
pub(super) fn too_many(lost: &[SidecarSetLostPod]) -> Option<String> {
    let first = lost.first().filter(|_| lost.len() >= MOST)?;
    Some(format!(
        "{} workloads have made no other pod in place of one that was replaced, of {}/{} among them: see their events; to try again, \
         set metadata.annotations[{REPAIR}] to None and back",
        lost.len(),
        first.namespace,
        first.pod
    ))
}
