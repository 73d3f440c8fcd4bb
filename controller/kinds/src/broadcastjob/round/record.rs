//! Pods that ended, and whether their end is recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::v1beta1::broadcastjob::BroadcastJob;
use berth_workload::objects::node::Node;
use berth_workload::objects::pod::Pod;

use super::{Stage, is_on, name, node_of, stage};
use crate::broadcastjob::mark;

/// Whether the pod ended by itself, and no longer shows its end, because it is gone now, or looks
/// like a pod that was disrupted. Its node gets no other pod.
pub fn hides_its_end(old: &Pod, new: Option<&Pod>) -> bool {
    let has_ended = |pod: &Pod| matches!(stage(pod, None), Stage::Ended(_));
    has_ended(old) && !new.is_some_and(|new| new.metadata.uid == old.metadata.uid && has_ended(new))
}

/// The pods that [hide their end](hides_its_end) whose nodes exist and are not in the job's status
/// yet.
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

/// The mark of the node that the status lacks because this pod does not show its end
/// ([`hides_its_end`]). `None` if the job's status has the node, or if the pod belongs to no
/// existing node. `node` is the node with the name of [the pod's node](node_of).
pub fn missed(job: &BroadcastJob, pod: &Pod, node: &Node) -> Option<String> {
    let mark = mark_of(node);
    let is_of_node = match mark::in_name(name(job), &pod.metadata.name) {
        Some(in_name) => in_name == mark,
        None => is_on(pod, node),
    };
    (is_of_node && !is_recorded(job, &mark)).then_some(mark)
}

/// The mark that stands for a node in the status of a job.
pub fn mark_of(node: &Node) -> String {
    mark::hash(&node.metadata.uid)
}

/// Whether the job's status has the node with this mark.
pub fn is_recorded(job: &BroadcastJob, mark: &str) -> bool {
    job.status
        .as_ref()
        .is_some_and(|status| mark::has(&status.ended_nodes, mark))
}
