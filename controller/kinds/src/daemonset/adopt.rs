//! Adopts pods and revisions that the DaemonSet selects and that have no controller.
//!
//! A user who deletes a set with `--cascade=orphan` and applies it again, or who moves from
//! Kubernetes' own kind, keeps the same pods. Revisions come first, so that the revision of each
//! pod's label exists.

use std::sync::Arc;

use berth_api::v1beta1::daemonset::DaemonSet;
use berth_workload::feature_gates::Gates;
use berth_workload::objects::pod::Pod;
use berth_workload::objects::selector::Selector;
use berth_workload::pod_owner::PodOwner;
use berth_workload::update::podset::adopt;
use berth_workload::update::revision::{self, REVISION_LABEL};
use jiff::{SignedDuration, Timestamp};

use super::{DaemonSetOwner, Snapshot};

/// Pods that are named after the set and selected by it, and that another DaemonSet of this name
/// controls: Kubernetes' own, or an earlier one. If that one is deleted with `--cascade=orphan`,
/// this set adopts the pods, a moment later.
pub fn namesakes(set: &DaemonSet, pods: &[Arc<Pod>]) -> Vec<Arc<Pod>> {
    let Ok(selector) = Selector::new(&set.spec.selector) else {
        return Vec::new();
    };
    let workload = DaemonSetOwner::workload(set, Gates::default());
    let is_one = |pod: &Pod| {
        let metadata = &pod.metadata;
        let owner = metadata.controller().map(|owner| &*owner.uid);
        *metadata.namespace == *workload.namespace()
            && owner != set.metadata.uid.as_deref()
            && pod.is_active()
            && adopt::is_named_and_selected(&workload, &selector, metadata)
    };
    pods.iter().filter(|pod| is_one(pod)).cloned().collect()
}

/// How long after its creation a set waits for revisions that it must adopt.
const LATE: SignedDuration = SignedDuration::from_secs(10);

/// A pod that the set adopts, or is about to adopt, and whose revision is not in the cache yet, and
/// how much longer the set waits for the revision. The revision comes by another watch than the pod
/// and the set. If the set made a revision meanwhile, its name would differ from the pod's, and the
/// set would replace the pod. The wait is short, because the revision may have been deleted.
pub(super) fn awaited(snapshot: &Snapshot, now: Timestamp) -> Option<(&Arc<Pod>, SignedDuration)> {
    let created = snapshot.set.metadata.creation_timestamp.as_ref()?.0;
    let rest = LATE - now.duration_since(created);
    if !rest.is_positive() || rest > LATE {
        return None;
    }
    let is_seen = |pod: &Pod| {
        let label = pod.metadata.label(REVISION_LABEL).unwrap_or_default();
        let is_known = |revisions| revision::of_label(label, revisions).is_some();
        label.is_empty() || is_known(&snapshot.revisions) || is_known(&snapshot.orphans.revisions)
    };
    let pods = snapshot.orphans.pods.iter().chain(&snapshot.own.namesakes);
    pods.into_iter()
        .find(|pod| !is_seen(pod))
        .map(|pod| (pod, rest))
}
