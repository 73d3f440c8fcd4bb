//! The turns of namespaces and pods. The namespaces take turns, and a pod whose change fails
//! repeatedly is set aside for a while. The leader keeps the turns in memory, because a tenant
//! writes the annotations of its pods. A new leader begins without them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_workload::objects::pod::Pod;
use berth_workload::plan::{Action, Failure, Outcome, Plan, Target};
use jiff::{SignedDuration, Timestamp};

use super::stages::{REPAIR, UPDATE};
use super::tried::{failure, tried_steps};
use crate::sidecarset::Snapshot;

/// The time that a pod is set aside after its second failed try, and the longest such time.
const FIRST: SignedDuration = SignedDuration::from_mins(1);
const LONGEST: SignedDuration = SignedDuration::from_mins(60);
/// The failed try from which on a pod is set aside. A single one may be an outage.
const ASIDE: u32 = 2;
/// The most characters of the apiserver's message.
const SHOWN: usize = 300;

/// The memory of the leader for one SidecarSet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Turns {
    /// The number of turns so far.
    count: u64,
    /// By namespace: the number of its last turn.
    last: BTreeMap<Box<str>, u64>,
    /// By uid: the pods whose last update or replacement failed.
    failed: BTreeMap<Box<str>, Failed>,
    /// By namespace: the name of the pod that repair took last.
    repaired: BTreeMap<Box<str>, Box<str>>,
}

/// A pod whose last update or replacement failed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Failed {
    /// Namespace and name.
    pod: String,
    /// The hash that the pod was to get: other images may be allowed.
    hash: String,
    /// The failed tries in a row; 0 if a budget holds the pod, because a budget sets no pod aside.
    /// A conflict does not count, because the pod's own workload, or another SidecarSet, wrote
    /// first.
    tries: u32,
    /// The number of its last turn.
    turn: u64,
    at: Timestamp,
    why: String,
}

impl Failed {
    /// The rest of the time that the pod is set aside.
    fn left(&self, now: Timestamp) -> Option<SignedDuration> {
        let doubled = self.tries.checked_sub(ASIDE)?.min(6);
        let wait = FIRST.saturating_mul(1 << doubled).min(LONGEST);
        // A clock that is set back must not lengthen the wait.
        let left = wait.saturating_sub(now.duration_since(self.at).abs());
        left.is_positive().then_some(left)
    }
}

impl Turns {
    fn failed(&self, uid: &str, hash: &str) -> Option<&Failed> {
        self.failed.get(uid).filter(|failed| failed.hash == hash)
    }

    /// The reason why the pod with this uid is set aside for this hash, and the time that is left.
    pub(in crate::sidecarset) fn held(
        &self,
        uid: &str,
        hash: &str,
        now: Timestamp,
    ) -> Option<(String, SignedDuration)> {
        let failed = self.failed(uid, hash)?;
        let left = failed.left(now)?;
        let minutes = (left.as_secs() + 59) / 60;
        let Failed { tries, why, .. } = failed;
        Some((
            format!(
                "is set aside after {tries} failed tries: {why}; tried again within {minutes} min"
            ),
            left,
        ))
    }

    /// The reason why the pod's last try failed, and the time of that try, if it was in the turn
    /// that began then.
    pub(in crate::sidecarset) fn failed_since(
        &self,
        uid: &str,
        since: Option<Timestamp>,
    ) -> Option<(&str, Timestamp)> {
        let failed = self
            .failed
            .get(uid)
            .filter(|failed| since.is_none_or(|since| failed.at >= since))?;
        Some((&failed.why, failed.at))
    }

    /// The pods in the order of their turns. Each namespace has one pod in each round, first the
    /// namespace whose last turn is the longest ago. Within a namespace the order stays. Pods whose
    /// last try failed come after all others, the longest ago first, and pods that are set aside
    /// come last.
    pub(in crate::sidecarset) fn by_namespace(
        &self,
        mut pods: Vec<Arc<Pod>>,
        hash: &str,
        now: Timestamp,
    ) -> Vec<Arc<Pod>> {
        let failed = |pod: &Pod| self.failed(&pod.metadata.uid, hash);
        // Stable, so that pods with equal keys keep their order.
        pods.sort_by_key(|pod| failed(pod).map(|failed| failed.turn));
        let mut rounds = BTreeMap::new();
        let mut place = |pod: &Pod| {
            let failed = failed(pod);
            let rank = (
                failed.is_some(),
                failed.is_some_and(|failed| failed.left(now).is_some()),
            );
            let round: &mut usize = rounds
                .entry((rank, pod.metadata.namespace.clone()))
                .or_default();
            *round += 1;
            (
                rank,
                *round,
                self.last.get(&pod.metadata.namespace).copied(),
            )
        };
        let mut placed: Vec<_> = pods.into_iter().map(|pod| (place(&pod), pod)).collect();
        placed.sort_by_key(|(place, _)| *place);
        placed.into_iter().map(|(_, pod)| pod).collect()
    }

    /// The pod of this namespace that repair took last.
    pub(in crate::sidecarset) fn last_repaired(&self, namespace: &str) -> Option<&str> {
        self.repaired.get(namespace).map(|pod| &**pod)
    }

    /// The turns after the execution of a plan.
    #[must_use]
    pub fn after(
        &self,
        snapshot: &Snapshot,
        plan: &Plan,
        outcome: &Outcome,
        now: Timestamp,
    ) -> Self {
        let mut next = self.clone();
        for stage in [UPDATE, REPAIR] {
            let tried = tried_steps(plan, outcome, stage);
            for action in tried.into_iter().flat_map(|step| &step.actions) {
                let (Action::PatchPod { target, .. } | Action::EvictPod { target }) = action else {
                    continue;
                };
                let failure = failure(outcome, target);
                if stage == UPDATE && failure.is_some_and(|failure| failure.outdated) {
                    // Another writer was first, and may have taken the pod out of service: no other
                    // pod of the namespace is updated before the next decision about this one.
                    next.end_turn(target);
                } else {
                    next.note(target, failure, (&snapshot.hashes.hash, now));
                }
            }
        }
        if let Some(last) = snapshot
            .set
            .status
            .as_ref()
            .and_then(|status| status.repair.as_ref())
        {
            next.repaired
                .insert(last.namespace.as_str().into(), last.pod.as_str().into());
        }
        let uids: BTreeSet<&str> = snapshot.pods.iter().map(|pod| &*pod.metadata.uid).collect();
        let namespaces: BTreeSet<&str> = snapshot
            .pods
            .iter()
            .map(|pod| &*pod.metadata.namespace)
            .collect();
        next.failed.retain(|uid, _| uids.contains(&**uid));
        next.last
            .retain(|namespace, _| namespaces.contains(&**namespace));
        next.repaired
            .retain(|namespace, _| namespaces.contains(&**namespace));
        next
    }

    fn end_turn(&mut self, target: &Target) {
        self.count += 1;
        self.last
            .insert(target.namespace.as_str().into(), self.count);
    }

    /// Records a try, which ends the turn of the pod's namespace also if it fails.
    fn note(&mut self, target: &Target, failure: Option<&Failure>, (hash, now): (&str, Timestamp)) {
        self.end_turn(target);
        let before = self
            .failed
            .remove(target.uid.as_str())
            .filter(|before| before.hash == hash);
        let Some(failure) = failure else { return };
        let before = before.map_or(0, |before| before.tries);
        let tries = match failure {
            failure if failure.is_of_budget() => 0,
            failure if failure.outdated => before,
            _ => before.saturating_add(1),
        };
        let failed = Failed {
            pod: format!("{}/{}", target.namespace, target.name),
            hash: hash.to_owned(),
            tries,
            turn: self.count,
            at: now,
            why: failure.message.chars().take(SHOWN).collect(),
        };
        self.failed.insert(target.uid.as_str().into(), failed);
    }

    /// Whether another try of a pod has failed since `before`. A pod that a budget holds is retried
    /// regardless of this.
    pub fn has_new_failures(&self, before: &Self) -> bool {
        let tries =
            |turns: &Self, uid: &str| turns.failed.get(uid).map_or(0, |failed| failed.tries);
        self.failed
            .keys()
            .any(|uid| tries(self, uid) > tries(before, uid))
    }

    /// Whether the pod with this uid is set aside, or was until its next try.
    pub(in crate::sidecarset) fn is_aside(&self, uid: &str) -> bool {
        self.failed
            .get(uid)
            .is_some_and(|failed| failed.tries >= ASIDE)
    }

    /// The message about pods that are set aside: the first one, the cause and the remedy.
    pub(in crate::sidecarset) fn aside_message(&self, set: &str, hash: &str) -> Option<String> {
        let aside = || {
            self.failed
                .values()
                .filter(|failed| failed.tries >= ASIDE && failed.hash == hash)
        };
        let first = aside().min_by(|one, other| one.pod.cmp(&other.pod))?;
        let more = aside().count() - 1;
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        let Failed { pod, why, .. } = first;
        // A deletion first writes a time into the object, so an object of the largest size cannot
        // be deleted, either.
        let remedy = if why.contains("too large") {
            "remove annotations or labels from the pod"
        } else {
            "correct what refuses it, or delete the pod"
        };
        Some(format!(
            "SidecarSet {set}: pod {pod}{more} stays as it is, because the apiserver did not take the change: {why}; {remedy}; other \
             pods go on, and the controller tries this one again after a minute, and up to an hour later each time"
        ))
    }
}

#[cfg(test)]
mod tests;
