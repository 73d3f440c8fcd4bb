//! Pods that end repeatedly on a node: the next one is delayed longer each time.

use std::collections::BTreeMap;

use berth_workload::objects::pod::Pod;
use berth_workload::plan::{Action, Plan};
use berth_workload::update::podset::ended::{Ended, has_ended};
use jiff::{SignedDuration, Timestamp};

use super::Snapshot;
use super::places::node_of;

/// How often in a row pods of the present template ended on the node.
pub(super) fn times(snapshot: &Snapshot, node: &str) -> u32 {
    of_node(snapshot, node).map_or(0, |ended| ended.times)
}

fn of_node<'a>(snapshot: &'a Snapshot, node: &str) -> Option<&'a Ended> {
    let generation = snapshot.set.metadata.generation.unwrap_or_default();
    snapshot
        .ended
        .get(node)
        .filter(|ended| ended.generation == generation)
}

/// How much longer an ended pod stays.
pub(super) fn rest(snapshot: &Snapshot, pod: &Pod, now: Timestamp) -> SignedDuration {
    of_node(snapshot, node_of(pod)).map_or(SignedDuration::ZERO, |ended| ended.rest(now))
}

/// By node: the record of ended pods after this plan; `None` if it stays the same.
pub(super) fn noted(
    snapshot: &Snapshot,
    plan: &Plan,
    now: Timestamp,
) -> Option<BTreeMap<Box<str>, Ended>> {
    let generation = snapshot.set.metadata.generation.unwrap_or_default();
    let deleted = plan.actions().filter_map(|action| match action {
        Action::DeletePod { target } => Some(&target.uid),
        _ => None,
    });
    let mut ended = deleted
        .filter_map(|uid| {
            snapshot
                .pods
                .iter()
                .find(|pod| *pod.metadata.uid == **uid && has_ended(pod))
        })
        .peekable();
    ended.peek()?;
    let mut all = snapshot.ended.clone();
    all.extend(ended.map(|pod| {
        let node = node_of(pod);
        let known = snapshot.ended.get(node).copied();
        (node.into(), Ended::again(known, generation, now))
    }));
    Some(all)
}
