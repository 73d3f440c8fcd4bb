//! Whose turn an update is: the namespaces take turns, and a pod whose patch the apiserver refused
//! is set aside for a while. The leader keeps this in memory, because a tenant writes the
//! annotations of its pods. A new leader begins without it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_workload::plan::{Action, Failure, Outcome, Plan, Target};
use berth_workload::pod::Pod;
use jiff::{SignedDuration, Timestamp};

use super::Snapshot;
use super::decide::UPDATE;
use super::events::failure;

/// The time that a pod is set aside after its first refusal, and the longest such time.
const FIRST: SignedDuration = SignedDuration::from_mins(1);
const LONGEST: SignedDuration = SignedDuration::from_mins(60);
/// The most characters of the apiserver's words.
const SHOWN: usize = 300;

/// The memory of the leader for one SidecarSet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Turns {
    /// The number of turns so far.
    count: u64,
    /// By namespace: the number of its last turn.
    last: BTreeMap<Box<str>, u64>,
    /// By uid: the pods whose last patch was refused.
    refused: BTreeMap<Box<str>, Refused>,
    /// By namespace: the name of the pod that repair took last.
    repaired: BTreeMap<Box<str>, Box<str>>,
}

/// A pod whose patch the apiserver refused.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Refused {
    /// Namespace and name.
    pod: String,
    /// The hash that it was to get: other images may be let through.
    hash: String,
    tries: u32,
    at: Timestamp,
    why: String,
}

impl Refused {
    fn left(&self, hash: &str, now: Timestamp) -> Option<SignedDuration> {
        let wait = FIRST.saturating_mul(1 << (self.tries.saturating_sub(1)).min(6)).min(LONGEST);
        // A clock that is set back must not lengthen the wait.
        let left = wait.saturating_sub(now.duration_since(self.at).abs());
        (self.hash == hash && left.is_positive()).then_some(left)
    }
}

impl Turns {
    /// The reason why the pod with this uid is set aside for this hash, and the time that is left.
    pub(super) fn held(&self, uid: &str, hash: &str, now: Timestamp) -> Option<(String, SignedDuration)> {
        let refused = self.refused.get(uid)?;
        let left = refused.left(hash, now)?;
        let minutes = (left.as_secs() + 59) / 60;
        Some((format!("the apiserver refused its update: {}; tried again within {minutes} min", refused.why), left))
    }

    /// The pods in the order of their turns. Each namespace has one pod in each round, first the
    /// namespace whose last turn is the longest ago. Within a namespace the order stays. Pods that
    /// are set aside come last.
    pub(super) fn by_namespace(&self, pods: Vec<Arc<Pod>>, hash: &str, now: Timestamp) -> Vec<Arc<Pod>> {
        let mut rounds = BTreeMap::new();
        let mut place = |pod: &Pod| {
            let is_aside = self.held(&pod.metadata.uid, hash, now).is_some();
            let round: &mut usize = rounds.entry((is_aside, pod.metadata.namespace.clone())).or_default();
            *round += 1;
            (is_aside, *round, self.last.get(&pod.metadata.namespace).copied())
        };
        let mut placed: Vec<_> = pods.into_iter().map(|pod| (place(&pod), pod)).collect();
        // Stable: where the rest is equal the order stays.
        placed.sort_by_key(|(place, _)| *place);
        placed.into_iter().map(|(_, pod)| pod).collect()
    }

    /// The pod of this namespace that repair took last.
    pub(super) fn last_repaired(&self, namespace: &str) -> Option<&str> {
        self.repaired.get(namespace).map(|pod| &**pod)
    }

    /// The turns after the execution of a plan.
    #[must_use]
    pub fn after(&self, snapshot: &Snapshot, plan: &Plan, outcome: &Outcome, now: Timestamp) -> Self {
        let mut next = self.clone();
        let updates = plan.stages.iter().filter(|stage| stage.name == UPDATE).flat_map(|stage| &stage.steps);
        for action in updates.flat_map(|step| &step.actions) {
            if let Action::PatchPod { target, .. } = action {
                next.note(target, failure(outcome, target), (&snapshot.hashes.hash, now));
            }
        }
        if let Some(last) = snapshot.set.status.as_ref().and_then(|status| status.repair.as_ref()) {
            next.repaired.insert(last.namespace.as_str().into(), last.pod.as_str().into());
        }
        let uids: BTreeSet<&str> = snapshot.pods.iter().map(|pod| &*pod.metadata.uid).collect();
        let namespaces: BTreeSet<&str> = snapshot.pods.iter().map(|pod| &*pod.metadata.namespace).collect();
        next.refused.retain(|uid, _| uids.contains(&**uid));
        next.last.retain(|namespace, _| namespaces.contains(&**namespace));
        next.repaired.retain(|namespace, _| namespaces.contains(&**namespace));
        next
    }

    fn note(&mut self, target: &Target, failure: Option<&Failure>, (hash, now): (&str, Timestamp)) {
        let is_refused = failure.is_some_and(is_refusal);
        if failure.is_some() && !is_refused {
            return;
        }
        self.count += 1;
        self.last.insert(target.namespace.as_str().into(), self.count);
        let before = self.refused.remove(target.uid.as_str()).filter(|before| before.hash == hash);
        if let Some(failure) = failure {
            let refused = Refused {
                pod: format!("{}/{}", target.namespace, target.name),
                hash: hash.to_owned(),
                tries: before.map_or(0, |before| before.tries).saturating_add(1),
                at: now,
                why: failure.message.chars().take(SHOWN).collect(),
            };
            self.refused.insert(target.uid.as_str().into(), refused);
        }
    }

    /// Has the apiserver refused any patch since then?
    pub fn has_new_refusals(&self, before: &Self) -> bool {
        self.refused.iter().any(|(uid, refused)| before.refused.get(uid) != Some(refused))
    }

    /// The message about refused pods: the first one, the cause and the remedy.
    pub(super) fn told(&self, set: &str, hash: &str) -> Option<String> {
        let aside = || self.refused.values().filter(|refused| refused.hash == hash);
        let first = aside().min_by(|one, other| one.pod.cmp(&other.pod))?;
        let more = aside().count() - 1;
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        Some(format!(
            "SidecarSet {set}: pod {}{more} is not updated, because the apiserver refused the patch: {}; correct what refuses it, or \
             delete the pod; other pods go on, and the controller tries this one again after a minute, and up to an hour later each time",
            first.pod, first.why
        ))
    }
}

/// Will the apiserver refuse the same patch again? A budget allows the patch later, and a conflict
/// leads to a new decision.
pub(super) fn is_refusal(failure: &Failure) -> bool {
    failure.permanent && !failure.outdated && !failure.is_of_budget()
}

#[cfg(test)]
mod tests;
