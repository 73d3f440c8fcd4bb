//! BroadcastJob: a pod on each node, once.
//!
//! Whose turn has come says the node, and not the pod: the status keeps a short hash of the uid of each node whose pod has ended,
//! and the name of a new pod is made from it. So a node gets no second pod, whatever becomes of the first; and a creation whose
//! answer was lost is made good by the next, of the same name.

mod blocked;
mod decide;
mod mark;
mod new_pod;
mod place;
mod requests;
mod round;
mod settings;
mod status;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::names::condition;
use berth_api::v1beta1::broadcastjob::{BroadcastJob, BroadcastJobStatus, phase};
use berth_workload::gates::Gates;
use berth_workload::inplace::resize::Ability;
use berth_workload::node::Node;
use berth_workload::node::image::NodeImage;
use berth_workload::pod::Pod;
use berth_workload::podset::{Blocked, Phases, Scene, Unreadable, Workload};
use berth_workload::resource::BROADCAST_JOBS;
use berth_workload::revision::PodLabels;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use place::{Answer, Where};

pub use decide::decide;
pub use round::{hides_its_end, unrecorded};
pub use status::{is_urgent, status};

/// All that a decision about one job reads.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The job.
    pub job: Arc<BroadcastJob>,
    /// Every pod that it controls, those being deleted included.
    pub pods: Vec<Arc<Pod>>,
    /// Pods of it that [hide their end](hides_its_end), as they were before, as long as its status does not have their nodes.
    pub gone: Vec<Arc<Pod>>,
    /// Every node, in any order.
    pub nodes: Vec<Arc<Node>>,
    /// Its pods that exist and cannot be read.
    pub unreadable: Vec<Unreadable>,
    /// Where pods are in their updates: nowhere, they are never updated.
    pub phases: Phases,
    /// Feature gates.
    pub gates: Gates,
}

/// A selector of nothing: pods are known by their owner.
static NO_SELECTOR: LabelSelector = LabelSelector { match_expressions: None, match_labels: None };
/// No pod is updated or spread, so nothing of their nodes is asked.
static NO_IMAGES: BTreeMap<Box<str>, Arc<NodeImage>> = BTreeMap::new();
static NO_NODES: BTreeMap<Box<str>, Arc<Node>> = BTreeMap::new();

impl Snapshot {
    /// What of it is the same for every owner of pods.
    fn scene(&self) -> Scene<'_> {
        Scene {
            workload: workload(&self.job),
            pods: &self.pods,
            strays: &[],
            revisions: &[],
            node_images: &NO_IMAGES,
            nodes: &NO_NODES,
            jobs: None,
            unreadable: &self.unreadable,
            phases: &self.phases,
            gates: self.gates,
            resize: Ability::default(),
        }
    }
}

fn workload(job: &BroadcastJob) -> Workload<'_> {
    let mut conditions = job.status.iter().flat_map(|status| &status.conditions);
    let blocked = conditions.find(|c| c.type_ == condition::BLOCKED && c.status == "True");
    Workload {
        resource: BROADCAST_JOBS,
        metadata: &job.metadata,
        selector: &NO_SELECTOR,
        template: &job.spec.template,
        claim_templates: &[],
        lifecycle: None,
        min_ready_seconds: 0,
        pods_to_delete: &[],
        labels: PodLabels::default(),
        gates: &[],
        meets_by_meaning: false,
        tells_replacements: false,
        current_revision: "",
        collisions: 0,
        blocked: blocked.map(|blocked| Blocked { reason: &blocked.reason, message: &blocked.message }),
    }
}

/// Has the job come to its end, one way or the other?
pub fn is_finished(status: &BroadcastJobStatus) -> bool {
    let ended = |type_: &str| type_ == condition::COMPLETE || type_ == condition::FAILED;
    matches!(status.phase.as_str(), phase::COMPLETED | phase::FAILED)
        || status.conditions.iter().any(|c| ended(&c.type_) && c.status == "True")
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

/// Does a change of a node that [is news](is_news) matter to this job? `None` before the node was there, and after it was gone.
pub fn concerns(job: &BroadcastJob, old: Option<&Node>, new: Option<&Node>) -> bool {
    let is_over = job.status.as_ref().is_some_and(is_finished);
    if is_over || job.metadata.deletion_timestamp.is_some() {
        return false;
    }
    let target = Where::of(&job.spec.template.value());
    let answer = |node: Option<&Node>| node.map_or(Answer::Unwanted, |node| target.answer(node));
    let (before, after) = (answer(old), answer(new));
    // A pod that was disrupted is followed by another once its node is ready.
    let facts = |node: Option<&Node>| node.map(|node| (node.ready, node.metadata.uid.clone()));
    before != after || after == Answer::Wanted && facts(old) != facts(new)
}
