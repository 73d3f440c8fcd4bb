//! Pods that end again and again on a node: the next one is given more time each time.

use berth_workload::plan::{Action, Plan};
use berth_workload::pod::Pod;
use jiff::{SignedDuration, Timestamp};

use super::Snapshot;
use super::places::node_of;

/// How often in a row pods of one generation ended on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// The `metadata.generation` of the DaemonSet.
    pub generation: i64,
    /// So often.
    pub times: u32,
    /// When the last one was deleted.
    pub last: Timestamp,
}

const FIRST: SignedDuration = SignedDuration::from_secs(1);
const MOST: SignedDuration = SignedDuration::from_mins(15);

impl Ended {
    /// How long the next one stays before it is deleted: 1 s, doubled each time, up to 15 minutes.
    fn stays(&self) -> SignedDuration {
        let factor = 1_i32.checked_shl(self.times.saturating_sub(1)).filter(|factor| *factor > 0);
        factor.and_then(|factor| FIRST.checked_mul(factor)).map_or(MOST, |time| time.min(MOST))
    }

    /// Another one ended and was deleted. After half an hour of peace they are counted anew.
    fn again(before: Option<Self>, generation: i64, now: Timestamp) -> Self {
        let is_recent = |ended: &Self| ended.generation == generation && now.duration_since(ended.last) < MOST * 2;
        let times = before.filter(is_recent).map_or(0, |ended| ended.times);
        Self { generation, times: times.saturating_add(1), last: now }
    }
}

/// Has the pod ended by itself? Such a one is replaced.
pub(super) fn has_ended(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_none() && !pod.is_active()
}

/// How often in a row pods of the present template ended on the node.
pub(super) fn times(snapshot: &Snapshot, node: &str) -> u32 {
    of_node(snapshot, node).map_or(0, |ended| ended.times)
}

fn of_node<'a>(snapshot: &'a Snapshot, node: &str) -> Option<&'a Ended> {
    let generation = snapshot.set.metadata.generation.unwrap_or_default();
    snapshot.ended.get(node).filter(|ended| ended.generation == generation)
}

/// How long a pod that has ended stays yet.
pub(super) fn rest(snapshot: &Snapshot, pod: &Pod, now: Timestamp) -> SignedDuration {
    let rest = of_node(snapshot, node_of(pod))
        .map_or(SignedDuration::ZERO, |ended| ended.stays() - now.duration_since(ended.last));
    rest.max(SignedDuration::ZERO)
}

/// By node: what is known of ended pods once this plan was carried out.
pub fn noted(snapshot: &Snapshot, plan: &Plan, now: Timestamp) -> Vec<(Box<str>, Ended)> {
    let generation = snapshot.set.metadata.generation.unwrap_or_default();
    let actions = plan.stages.iter().flat_map(|stage| &stage.steps).flat_map(|step| &step.actions);
    let deleted = actions.filter_map(|action| match action {
        Action::DeletePod { target } => Some(&target.uid),
        _ => None,
    });
    let ended = deleted.filter_map(|uid| snapshot.pods.iter().find(|pod| *pod.metadata.uid == **uid && has_ended(pod)));
    let note = |node: &str| (node.into(), Ended::again(snapshot.ended.get(node).copied(), generation, now));
    ended.map(|pod| note(node_of(pod))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_that_ends_again_stays_longer_each_time_up_to_fifteen_minutes() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let mut ended = Ended::again(None, 1, at(0));
        let mut waits = Vec::new();
        for second in 1..40 {
            waits.push(ended.stays().as_secs());
            ended = Ended::again(Some(ended), 1, at(second));
        }
        assert_eq!(waits[..11], [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900]);
        assert!(waits[11..].iter().all(|wait| *wait == 900));
        assert_eq!(Ended::again(Some(ended), 2, at(40)).times, 1, "another template");
        assert_eq!(Ended::again(Some(ended), 1, at(40 + 1800)).times, 1, "half an hour later");
    }
}
