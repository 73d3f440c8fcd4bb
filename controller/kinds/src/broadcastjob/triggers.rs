//! Changes of nodes that concern a job.

use berth_api::v1beta1::broadcastjob::BroadcastJob;
use berth_workload::objects::node::Node;

use super::place::{Answer, Where};

/// The part of a job that decides which changes of nodes trigger it. It is read from the template
/// once, and used at every change of every node.
#[derive(Debug)]
pub struct Triggers(Where);

impl Triggers {
    /// To be made anew when the template changes. Not needed for a job that is
    /// [over](super::is_over).
    pub fn new(job: &BroadcastJob) -> Self {
        Self(Where::of(&job.spec.template.value()))
    }

    /// Whether a change of a node that [is a trigger](is_trigger) matters to the job. `None` is a
    /// node that does not exist.
    pub fn is_one(&self, old: Option<&Node>, new: Option<&Node>) -> bool {
        let answer =
            |node: Option<&Node>| node.map_or(Answer::Unwanted, |node| self.0.answer(node));
        let (before, after) = (answer(old), answer(new));
        // Once its node is ready, a new pod replaces one that was disrupted.
        let facts = |node: Option<&Node>| node.map(|node| (node.ready, node.metadata.uid.clone()));
        before != after || after == Answer::Wanted && facts(old) != facts(new)
    }
}

/// Whether a change of a node matters to any job. Most do not: the kubelet renews the node's
/// conditions all the time.
pub fn is_trigger(old: Option<&Node>, new: Option<&Node>) -> bool {
    let facts = |node: &Node| (node.ready, node.cordoned, node.metadata.uid.clone());
    match (old, new) {
        (Some(old), Some(new)) => {
            facts(old) != facts(new)
                || old.metadata.labels != new.metadata.labels
                || old.taints != new.taints
                || old.allocatable != new.allocatable
        }
        (None, None) => false,
        _ => true,
    }
}
