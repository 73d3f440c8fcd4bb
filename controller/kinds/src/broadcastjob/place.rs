//! The nodes on which a job's pods may run.

use berth_workload::objects::node::Node;
use berth_workload::objects::node::placement::{Fit, Placement};
use serde_json::Value;

use super::requests::Requests;

/// The demands of a template on a node.
#[derive(Debug)]
pub(super) struct Where {
    placement: Placement,
    tolerates_cordon: bool,
    requests: Requests,
}

/// The relation of a node to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// It gets a pod.
    Wanted,
    /// It gets no pod now, and an existing pod stays: it is cordoned or tainted, or too small.
    MayStay,
    /// It does not belong to the job, by its name or labels.
    Unwanted,
}

impl Where {
    /// The demands of a job's template.
    pub(super) fn of(template: &Value) -> Self {
        let placement = Placement::of(template);
        let tolerates_cordon = placement.tolerates_cordon();
        Self {
            placement,
            tolerates_cordon,
            requests: Requests::of(template),
        }
    }

    pub(super) fn answer(&self, node: &Node) -> Answer {
        let is_leaving = node.metadata.deletion_timestamp.is_some();
        match self.placement.fit(node) {
            // Other controllers evict a pod from a node with a taint that the pod does not
            // tolerate, at the time that they choose.
            Fit::Unwanted if !self.placement.selects(node) => Answer::Unwanted,
            Fit::Wanted if !is_leaving && !self.is_cordoned(node) && self.requests.fit(node) => {
                Answer::Wanted
            }
            _ => Answer::MayStay,
        }
    }

    /// The reason why the node gets no pod; `None` if it gets one.
    pub(super) fn why_not(&self, node: &Node) -> Option<String> {
        if !self.placement.selects(node) {
            return Some("nodeName, nodeSelector or the required node affinity".to_owned());
        }
        if self.is_cordoned(node) {
            return Some("its cordon".to_owned());
        }
        if self.placement.fit(node) != Fit::Wanted {
            return Some("a taint that the template does not tolerate".to_owned());
        }
        let lacking = self
            .requests
            .lacking(node)
            .map(|resource| format!("too little allocatable {resource}"));
        lacking.or_else(|| {
            node.metadata
                .deletion_timestamp
                .map(|_| "its deletion".to_owned())
        })
    }

    fn is_cordoned(&self, node: &Node) -> bool {
        node.cordoned && !self.tolerates_cordon
    }
}
