//! Which changes of nodes concern a job.

use berth_api::v1beta1::broadcastjob::BroadcastJob;
use berth_workload::objects::node::Node;

use super::place::{Answer, Where};

/// What of a job says which changes of nodes are to be decided on. It is read from the template once, and asked at every change of every
/// node.
#[derive(Debug)]
pub struct News(Where);

impl News {
    /// To be made anew when the template changes. Of a job that is [over](super::is_over) nothing is asked.
    pub fn new(job: &BroadcastJob) -> Self {
        Self(Where::of(&job.spec.template.value()))
    }

    /// Does a change of a node that [is news](is_news) matter to the job? `None` before the node was there, and after it was gone.
    pub fn is_one(&self, old: Option<&Node>, new: Option<&Node>) -> bool {
        let answer =
            |node: Option<&Node>| node.map_or(Answer::Unwanted, |node| self.0.answer(node));
        let (before, after) = (answer(old), answer(new));
        // A pod that was disrupted is followed by another once its node is ready.
        let facts = |node: Option<&Node>| node.map(|node| (node.ready, node.metadata.uid.clone()));
        before != after || after == Answer::Wanted && facts(old) != facts(new)
    }
}

/// Does a change of a node matter to any job? Most do not: the kubelet renews its conditions all the time.
pub fn is_news(old: Option<&Node>, new: Option<&Node>) -> bool {
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
