//! The course of a turn that has begun: its pod is deleted, and its workload creates another.

use std::sync::Arc;

use berth_api::names::label::SPECIFIED_DELETE;
use berth_api::v1beta1::sidecarset::SidecarSetRepair;
use berth_workload::budget::surge::is_leftover;
use berth_workload::objects::pod::Pod;
use jiff::{SignedDuration, Timestamp};

use super::super::Snapshot;
use super::audit::Lack;
use super::how::How;
use super::lost;
use super::stays::{held, stays};
use super::turn::{REFUSED, Turn, is_later, pods_of};
use crate::sidecarset::update::pods::Member;
use crate::sidecarset::update::settings::Settings;

/// The longest time that repair waits for a deleted pod, because any pod may ask for days.
const LONGEST_END: SignedDuration = SignedDuration::from_mins(10);

/// How long a deleted pod still takes at most; `None` for other pods, and for a pod that should be
/// gone.
fn ends_after(pod: &Pod, now: Timestamp) -> Option<SignedDuration> {
    let left = pod.metadata.deletion_timestamp?.duration_since(now);
    let given = SignedDuration::from_secs(pod.spec.termination_grace_period_seconds.max(0));
    let left = if given > LONGEST_END {
        left.saturating_sub(given.saturating_sub(LONGEST_END))
    } else {
        left
    };
    left.is_positive().then_some(left)
}

pub(super) fn go_on<'a>(
    snapshot: &'a Snapshot,
    (members, lacking): (&[Member<'a>], &[(&'a Arc<Pod>, Lack)]),
    (record, settings, now): (&SidecarSetRepair, &Settings, Timestamp),
    (unavailable, most): (usize, usize),
) -> Turn<'a> {
    let name = format!("{}/{}", record.namespace, record.pod);
    let repaired = snapshot
        .repaired
        .as_ref()
        .filter(|pod| *pod.metadata.uid == *record.uid);
    if let Some(left) = repaired.and_then(|pod| ends_after(pod, now)) {
        return Turn::UnderWay(format!("pod {name} ends"), Some(left));
    }
    match repaired {
        Some(pod) if pod.is_active() => {
            let found = lacking
                .iter()
                .find(|(known, _)| known.metadata.uid == pod.metadata.uid);
            let Some((pod, lack)) = found else {
                return Turn::Over;
            };
            // A budget may have had the pod taken from its ReplicaSet, which has created another
            // since.
            let how = if is_leftover(pod) {
                Ok(How::Eviction)
            } else {
                How::of(pod)
            };
            let Ok(how) = how else { return Turn::Over };
            if how == How::Label && pod.metadata.label(SPECIFIED_DELETE).is_some() {
                let what = format!(
                    "pod {name} is to be deleted by its workload, by the label {SPECIFIED_DELETE}"
                );
                return lost::waits(record, what, lost::OF_WORKLOAD, now);
            }
            // A canary may exist since.
            if !is_leftover(pod) && stays(snapshot, settings, pod, *lack).is_some() {
                return Turn::Over;
            }
            if let Some(why) = held(snapshot) {
                return Turn::Waits(why);
            }
            if let Some(why) = &snapshot.fruitless {
                return Turn::Fruitless(format!(
                    "pod {name} stays for now, for its successor would lack the containers: {why}"
                ));
            }
            if unavailable > most {
                return Turn::Waits(format!(
                    "pod {name} waits for spec.updateStrategy.maxUnavailable: {unavailable} of {most} that may be are out of service"
                ));
            }
            after_failure(snapshot, record, pod, now).unwrap_or(Turn::Replaces(pod, *lack, how))
        }
        _ => successor(snapshot, (members, lacking), (record, now)),
    }
}

/// The turn after a failed try; `None` if the pod is tried now. The pod has not changed since,
/// because a round begins only when all writes of the controller are in the cache.
fn after_failure<'a>(
    snapshot: &Snapshot,
    record: &SidecarSetRepair,
    pod: &Pod,
    now: Timestamp,
) -> Option<Turn<'a>> {
    let name = format!("{}/{}", record.namespace, record.pod);
    let since = record.since.as_ref().map(|since| since.0);
    let failed = snapshot.turns.failed_since(&pod.metadata.uid, since);
    if record.missing.is_none() {
        let (why, _) = failed?;
        return Some(Turn::Fruitless(format!("pod {name} stays for now: {why}")));
    }
    // Its budget lets it go when another pod has come.
    let what = format!("pod {name} goes when another has come in its place");
    let paused = failed.map(|(_, at)| REFUSED.saturating_sub(now.duration_since(at).abs()));
    match lost::waits(record, what, lost::OF_WORKLOAD, now) {
        Turn::Missing(what, since, left) => {
            let paused = paused.filter(|paused| paused.is_positive())?;
            Some(Turn::Missing(what, since, left.min(paused)))
        }
        lost => Some(lost),
    }
}

/// The turn when the pod is gone, or should be. One of the pods that its workload has created since
/// is its successor.
fn successor<'a>(
    snapshot: &'a Snapshot,
    (members, lacking): (&[Member<'a>], &[(&'a Arc<Pod>, Lack)]),
    (record, now): (&SidecarSetRepair, Timestamp),
) -> Turn<'a> {
    let name = format!("{}/{}", record.namespace, record.pod);
    let newest = record.newest.as_ref().map(|newest| newest.0);
    let is_new = |pod: &&Arc<Pod>| {
        pod.is_active() && *pod.metadata.uid != *record.uid && is_later(pod, &record.pod, newest)
    };
    let mut new = pods_of(snapshot, &record.namespace, &record.owner)
        .filter(is_new)
        .peekable();
    if new.peek().is_none() {
        let what = format!(
            "its workload has made no other in place of pod {name} yet: see the workload's events"
        );
        return lost::waits(record, what, lost::PATIENCE, now);
    }
    for pod in new {
        let found = lacking
            .iter()
            .find(|(known, _)| known.metadata.uid == pod.metadata.uid);
        let of_pod = format!("{}/{}", pod.metadata.namespace, pod.metadata.name);
        if let Some((_, lack)) = found {
            return Turn::Stops(format!(
                "pod {of_pod}, which came in place of {name}, {}: see the condition InjectionReady and the logs of \
                 kruise-controller-manager; the other pods of its workload stay until that pod is deleted and another has the containers, \
                 or until repair tries its workload again",
                lack.words()
            ));
        }
        let member = members
            .iter()
            .find(|member| member.pod.metadata.uid == pod.metadata.uid);
        // A pod that a canary has taken gets no containers of this SidecarSet.
        if member.is_none() && snapshot.taken.contains_key(&pod.metadata.uid) {
            continue;
        }
        if !member.is_some_and(|member| member.is_ready && member.unproven.is_none()) {
            let what = format!("pod {of_pod}, which comes in place of {name}, is not ready yet");
            return lost::waits(record, what, lost::OF_WORKLOAD, now);
        }
    }
    Turn::Over
}
