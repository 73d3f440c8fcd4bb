//! Pods that ended, and whether their end is recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::v1beta1::broadcastjob::BroadcastJob;
use berth_workload::objects::node::Node;
use berth_workload::objects::pod::Pod;

use super::{Stage, is_on, name, node_of, stage};
use crate::broadcastjob::mark;

/// Had the pod come to an end of its own, and does not show that any more? It is gone now, or looks like one that was taken away
/// before its end. Its node has had its turn.
pub fn hides_its_end(old: &Pod, new: Option<&Pod>) -> bool {
    let has_ended = |pod: &Pod| matches!(stage(pod, None), Stage::Ended(_));
    has_ended(old) && !new.is_some_and(|new| new.metadata.uid == old.metadata.uid && has_ended(new))
}

/// Of pods that [hide their end](hides_its_end), those whose nodes are there and not in the job's status yet.
pub fn unrecorded(job: &BroadcastJob, nodes: &[Arc<Node>], gone: Vec<Arc<Pod>>) -> Vec<Arc<Pod>> {
    if gone.is_empty() {
        return gone;
    }
    let records = job
        .status
        .as_ref()
        .map(|status| mark::read(&status.ended_nodes))
        .unwrap_or_default();
    let there: BTreeMap<_, _> = nodes
        .iter()
        .map(|node| (&*node.metadata.name, node))
        .collect();
    let hashes: BTreeSet<_> = nodes
        .iter()
        .map(|node| mark::hash(&node.metadata.uid))
        .collect();
    let of_node = |pod: &Pod| {
        there
            .get(node_of(pod)?)
            .filter(|node| is_on(pod, node))
            .map(|node| mark::hash(&node.metadata.uid))
    };
    let hash = |pod: &Pod| match mark::in_name(name(job), &pod.metadata.name) {
        Some(hash) => Some(hash.to_owned()),
        None => of_node(pod),
    };
    let is_open = |hash: String| hashes.contains(&hash) && !records.contains_key(&*hash);
    gone.into_iter()
        .filter(|pod| hash(pod).is_some_and(is_open))
        .collect()
}

/// The mark of the node whose turn is missed with the end of this pod, which [hides it](hides_its_end). `None` where the job's status has
/// the node, or where the pod is of no node that is there. `node` is the one that has the name of [its node](node_of).
pub fn missed(job: &BroadcastJob, pod: &Pod, node: &Node) -> Option<String> {
    let mark = mark_of(node);
    let is_of_node = match mark::in_name(name(job), &pod.metadata.name) {
        Some(in_name) => in_name == mark,
        None => is_on(pod, node),
    };
    (is_of_node && !is_recorded(job, &mark)).then_some(mark)
}

/// By what a node is known in the status of a job.
pub fn mark_of(node: &Node) -> String {
    mark::hash(&node.metadata.uid)
}

/// Has the job's status the node with this mark?
pub fn is_recorded(job: &BroadcastJob, mark: &str) -> bool {
    job.status
        .as_ref()
        .is_some_and(|status| mark::has(&status.ended_nodes, mark))
}
