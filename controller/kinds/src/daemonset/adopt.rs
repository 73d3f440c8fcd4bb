//! Pods and revisions that nobody controls and that the DaemonSet selects are taken over.
//!
//! Whoever deletes a set with `--cascade=orphan` and applies it again, or moves from Kubernetes' own kind, finds the same pods in
//! it. Revisions come first, so that a pod's label finds its own.

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

/// Pods that are named after the set and selected by it, and that another DaemonSet of this name controls: Kubernetes' own, or an
/// earlier one. Whoever deletes that with `--cascade=orphan` leaves them to this one, which may be seen a moment later.
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

/// So long after its creation a set waits for revisions that it is to take over.
const LATE: SignedDuration = SignedDuration::from_secs(10);

/// A pod that is left to the set, or about to be, and whose revision is not seen yet, and for how long it is waited for: it comes
/// by another watch than the pod and the set, and a revision that is made meanwhile would be another one than the pod's, and
/// replace it. Not for long, for somebody may have deleted it.
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
