//! Pods and revisions that nobody controls and that are named after the StatefulSet are taken over.
//!
//! Whoever deletes a set with `--cascade=orphan` and applies it again, or moves from another kind of StatefulSet, finds the
//! same pods in it. Revisions come first, so that a pod's label finds its own.

use std::sync::Arc;

use berth_api::v1beta1::statefulset::StatefulSet;
use berth_workload::ordinals::ordinal_of;
use berth_workload::plan::{Plan, Stage};
use berth_workload::pod::{Metadata, Pod};
use berth_workload::podset::adopt::{self, MOST};
use berth_workload::revision::Revision;
use berth_workload::selector::Selector;

use super::{Snapshot, workload};

/// Objects that nobody controls and that the StatefulSet may take over.
#[derive(Debug, Clone, Default)]
pub struct Orphans {
    pods: Vec<Arc<Pod>>,
    revisions: Vec<Arc<Revision>>,
}

impl Orphans {
    /// Those of these objects without a controller that are named after the set and selected by it. In no order.
    pub fn of(set: &StatefulSet, pods: Vec<Arc<Pod>>, revisions: Vec<Arc<Revision>>) -> Self {
        if pods.is_empty() && revisions.is_empty() {
            return Self::default();
        }
        let Ok(selector) = Selector::new(&set.spec.selector) else {
            return Self::default();
        };
        let workload = workload(set);
        let is_ours = |metadata: &Metadata| {
            adopt::is_nobodys(&workload, metadata)
                && adopt::is_named_and_selected(&workload, &selector, metadata)
        };
        let is_pod = |pod: &Pod| {
            is_ours(&pod.metadata) && ordinal_of(workload.name(), &pod.metadata.name).is_some()
        };
        let is_revision =
            |revision: &Revision| is_ours(&revision.metadata) && adopt::is_revision(revision);
        Self {
            pods: pods.into_iter().filter(|pod| is_pod(pod)).collect(),
            revisions: revisions
                .into_iter()
                .filter(|revision| is_revision(revision))
                .collect(),
        }
    }

    /// Is a pod of this name to be taken over?
    pub(super) fn has_pod(&self, name: &str) -> bool {
        self.pods.iter().any(|pod| *pod.metadata.name == *name)
    }
}

/// Takes over the revisions. Empty if there are none.
pub(super) fn revisions(snapshot: &Snapshot) -> Vec<Stage> {
    adopt::revisions(&snapshot.scene().workload, &snapshot.orphans.revisions)
}

/// Takes over the pods, before any is created, deleted or updated.
pub(super) fn pods(snapshot: &Snapshot, plan: &mut Plan) {
    let workload = snapshot.scene().workload;
    let steps = snapshot
        .orphans
        .pods
        .iter()
        .take(MOST)
        .map(|pod| adopt::pod(&workload, pod));
    plan.stages
        .extend(adopt::confirmed(&workload, steps.collect()));
}
