//! Ended pods count as no replicas: the controller deletes each, and creates another in its place.
//!
//! If the successor ends, too, it rests in its place before it is deleted, each time for longer.
//! Otherwise a pod that fails at once would be created and deleted without end. Only pods that are
//! younger than the last replacement are successors. Older pods, such as the others of a node that
//! evicts one after the other, are deleted at once.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_workload::blocked::{Cause, Grade};
use berth_workload::objects::pod::Pod;
use berth_workload::objects::pod::lifecycle::{self, PREPARING_DELETE};
use berth_workload::plan::{Action, Plan, Step};
use berth_workload::update::podset::ended::{self, OFTEN, PODS_FAIL, has_ended};
use berth_workload::update::podset::history::Revisions;
use berth_workload::update::podset::{Uids, hooks};
use berth_workload::update::rollout::Numbers;
use jiff::{SignedDuration, Timestamp};

use super::Snapshot;

/// Most pods that one plan deletes.
const MOST: usize = 256;
/// The event for a failed pod, with the name that Kubernetes' StatefulSets use.
const EVENT: &str = "RecreatingFailedPod";

/// How often in a row the pods of a CloneSet ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// The number of times.
    pub count: ended::Ended,
    /// When the youngest pod of the last replacement was created, by the apiserver's clock: younger
    /// pods are successors.
    pub youngest: Option<Timestamp>,
}

/// The steps for ended pods, and those that stay.
#[derive(Default)]
pub(super) struct Ending {
    /// Steps that delete pods, or notify their hooks.
    pub(super) steps: Vec<Step>,
    /// Pods that stay a while.
    pub(super) resting: Vec<Arc<Pod>>,
}

/// Decides which ended pods are deleted now, and which stay.
pub(super) fn ending(snapshot: &Snapshot, plan: &mut Plan, now: Timestamp) -> Ending {
    let view = snapshot.view();
    let mut ending = Ending::default();
    for pod in snapshot.pods.iter().filter(|pod| has_ended(pod)) {
        let reason = ended::reason(pod);
        let rest = rest(snapshot, pod, now);
        if rest.is_positive() {
            let seconds = rest.as_secs().saturating_add(1);
            plan.look_again_after(rest);
            plan.wait_for_pod(
                pod,
                format!("is replaced in {seconds} s: {reason} soon after others"),
            );
            ending.resting.push(Arc::clone(pod));
        } else if ending.steps.len() == MOST {
            plan.look_again_after(SignedDuration::from_secs(1));
            plan.wait_for_pod(pod, format!("is to be deleted ({reason}), after others"));
        } else {
            ending
                .steps
                .extend(ended::delete(&view, pod, (&reason, EVENT), plan, now));
        }
    }
    ending
}

impl Ending {
    /// Counts each pod that stays as the next pod, so that none is created in its place.
    pub(super) fn keep_places(&self, revisions: &Revisions, numbers: &mut Numbers) {
        for pod in &self.resting {
            if numbers.create_later > 0 {
                numbers.create_later -= 1;
            } else {
                numbers.fill(revisions.is_updated(pod));
            }
        }
    }

    /// The pods that stay.
    pub(super) fn resting(&self) -> Uids {
        self.resting
            .iter()
            .map(|pod| pod.metadata.uid.clone())
            .collect()
    }
}

/// How much longer an ended pod rests. A pod that waits for hook preDelete has a successor already.
fn rest(snapshot: &Snapshot, pod: &Pod, now: Timestamp) -> SignedDuration {
    let known = snapshot
        .ended
        .filter(|ended| ended.is_of(snapshot, pod, now));
    let is_replaced = lifecycle::state(pod) == PREPARING_DELETE;
    known
        .filter(|_| !is_replaced)
        .map_or(SignedDuration::ZERO, |ended| ended.count.rest(now))
}

/// The generation of the template: a number that rises with each change of it.
fn generation(snapshot: &Snapshot) -> i64 {
    snapshot
        .revisions
        .last()
        .map_or(0, |newest| newest.revision)
}

impl Ended {
    /// Whether the pod is a successor of the ended pods.
    fn is_of(&self, snapshot: &Snapshot, pod: &Pod, now: Timestamp) -> bool {
        self.count.is_recent(generation(snapshot), now)
            && pod.metadata.creation_timestamp > self.youngest
    }
}

/// The cause if pods fail one after the other. Between two of them it stays, because the problem is
/// not solved yet.
pub(super) fn failing(snapshot: &Snapshot, now: Timestamp) -> Option<Cause> {
    let known = snapshot.ended.filter(|ended| ended.count.times >= OFTEN)?;
    let workload = snapshot.view().workload;
    let next: Vec<_> = snapshot
        .pods
        .iter()
        .filter(|pod| known.is_of(snapshot, pod, now))
        .collect();
    let failed = next
        .iter()
        .filter(|pod| ended::has_failed(pod))
        .min_by_key(|pod| &pod.metadata.name);
    let reported = || {
        workload
            .blocked
            .filter(|reported| reported.reason == PODS_FAIL)
            .map(|reported| reported.message.to_owned())
    };
    let message = match failed {
        Some(pod) => {
            let node = &pod.spec.node_name;
            format!(
                "{workload}: pods fail one after the other; node {node} says: {}",
                ended::cause(pod)
            )
        }
        None if next.iter().any(|pod| ended::has_not_begun(pod, now)) => reported()?,
        None => return None,
    };
    Some(Cause::new(Grade::Failing, PODS_FAIL, message, now))
}

/// The record of ended pods after this plan; `None` if it stays the same.
pub(super) fn noted(snapshot: &Snapshot, plan: &Plan, now: Timestamp) -> Option<Ended> {
    let of_action = |action: &Action| match action {
        Action::DeletePod { target } => Some(target.uid.clone()),
        Action::PatchPodStatus { target, patch, .. } if hooks::is_to_be_held(patch) => {
            Some(target.uid.clone())
        }
        _ => None,
    };
    let begun: BTreeSet<_> = plan.actions().filter_map(of_action).collect();
    let is_counted = |pod: &Arc<Pod>| {
        let known = snapshot
            .ended
            .filter(|ended| ended.count.is_recent(generation(snapshot), now));
        let is_next = known.is_none_or(|ended| ended.is_of(snapshot, pod, now));
        is_next
            && has_ended(pod)
            && lifecycle::state(pod) != PREPARING_DELETE
            && begun.contains(&*pod.metadata.uid)
    };
    if begun.is_empty() || !snapshot.pods.iter().any(is_counted) {
        return None;
    }
    let count = ended::Ended::again(
        snapshot.ended.map(|ended| ended.count),
        generation(snapshot),
        now,
    );
    let youngest = snapshot
        .pods
        .iter()
        .filter_map(|pod| pod.metadata.creation_timestamp)
        .max();
    Some(Ended { count, youngest })
}
