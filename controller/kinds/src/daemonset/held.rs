//! The revision on nodes that a rollout leaves out.
//!
//! A node whose pod is gone does not record the pod's revision, so the revision of other left-out
//! nodes counts. The newest revision beside the update's would be wrong: after a rollback that is
//! the revision that was rolled back.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::names::annotation::DAEMONSET_HOLD_REVISION;
use berth_api::v1beta1::daemonset::DaemonSet;
use berth_workload::objects::node::Node;
use berth_workload::objects::node::placement::Fit;
use berth_workload::objects::pod::Pod;
use berth_workload::update::podset::history::Revisions;
use berth_workload::update::revision::{self, REVISION_LABEL, Revision};

use super::Snapshot;
use super::places::{Fits, Place, Places, is_updated};

/// The revision for a new pod on a left-out node.
pub(super) struct Held {
    pub(super) revision: Arc<Revision>,
    /// Whether at least as many such nodes have it as have the update revision. Otherwise a rollout
    /// was stopped, and not rolled back.
    pub(super) prevails: bool,
    /// The nodes that its own template matches. The template of the update may match more.
    fits: Fits,
}

impl Held {
    /// Whether its own template matches this node.
    pub(super) fn fits(&self, node: &Node) -> bool {
        self.fits.of(node) == Fit::Wanted
    }
}

/// Whether the annotation makes nodes that an update leaves out keep their revision for new pods.
pub fn holds_revision(set: &DaemonSet) -> bool {
    let annotations = set.metadata.annotations.as_ref();
    annotations
        .and_then(|all| all.get(DAEMONSET_HOLD_REVISION))
        .is_some_and(|value| value == "true")
}

/// The revisions with which a node may get a pod if nodes keep their revision. `revisions` has all
/// of the DaemonSet, sorted oldest first. The result has those of its pods, or, if it has no pods,
/// the newest two, including the update's.
pub fn kept(pods: &[Arc<Pod>], revisions: &[Arc<Revision>]) -> Vec<Arc<Revision>> {
    let active = pods.iter().filter(|pod| pod.is_active());
    let labels: BTreeSet<&str> = active
        .filter_map(|pod| pod.metadata.label(REVISION_LABEL))
        .collect();
    let is_used = |one: &Revision| {
        labels
            .iter()
            .any(|label| revision::same(label, &one.metadata.name))
    };
    let used: Vec<_> = revisions
        .iter()
        .filter(|one| is_used(one))
        .cloned()
        .collect();
    if used.is_empty() {
        revisions.iter().rev().take(2).cloned().collect()
    } else {
        used
    }
}

/// The newest revision, except the update revision, that pods have.
pub(super) fn former(snapshot: &Snapshot, revisions: &Revisions) -> Option<Arc<Revision>> {
    let has = |pod: &Arc<Pod>, one: &Revision| {
        pod.metadata
            .label(REVISION_LABEL)
            .is_some_and(|label| revision::same(label, &one.metadata.name))
    };
    let is_used = |one: &&Arc<Revision>| {
        snapshot
            .pods
            .iter()
            .any(|pod| pod.is_active() && has(pod, one))
    };
    others(snapshot, revisions).find(is_used).cloned()
}

/// The revision of left-out nodes, if that is not the update revision.
pub(super) fn held(
    snapshot: &Snapshot,
    places: &Places<'_>,
    revisions: &Revisions,
    is_left_out: impl Fn(&str) -> bool,
) -> Option<Held> {
    let (revision, prevails) = of_left_out(snapshot, places, revisions, is_left_out)?;
    let fits = Fits::new(&snapshot.set, &revision.template());
    Some(Held {
        revision: revision.clone(),
        prevails,
        fits,
    })
}

/// The revision older than the update that most of the nodes have. If a rollback makes an older
/// revision the update, it is the younger revision that most nodes have. If no node has a pod with
/// such a revision, it is the newest older one. The result also says whether the revision prevails.
fn of_left_out<'a>(
    snapshot: &'a Snapshot,
    places: &Places<'_>,
    revisions: &Revisions,
    is_left_out: impl Fn(&str) -> bool,
) -> Option<(&'a Arc<Revision>, bool)> {
    let left_out: Vec<_> = places
        .wanted()
        .filter(|(name, _)| is_left_out(name))
        .map(|(_, place)| place)
        .collect();
    if left_out.is_empty() {
        return None;
    }
    let mut of_others: BTreeMap<&str, (usize, &Arc<Revision>)> = BTreeMap::new();
    let mut updated = 0;
    for pod in left_out.into_iter().flat_map(Place::active) {
        if is_updated(snapshot, revisions, pod) {
            updated += 1;
        } else if let Some(own) = revision_of(snapshot, pod) {
            of_others.entry(&own.metadata.name).or_insert((0, own)).0 += 1;
        }
    }
    let is_from_before = |one: &Revision| {
        one.metadata.creation_timestamp <= revisions.updated.metadata.creation_timestamp
    };
    if updated == 0 && of_others.is_empty() {
        let newest = others(snapshot, revisions).find(|one| is_from_before(one))?;
        return Some((newest, false));
    }
    let (older, younger): (Vec<_>, Vec<_>) = of_others
        .into_values()
        .partition(|(_, one)| is_from_before(one));
    let found = most(older).or_else(|| most(younger).filter(|(count, _)| *count > updated));
    found.map(|(count, one)| (one, count >= updated))
}

/// The revision of most nodes; if several have equally many, the oldest of them.
fn most(of: Vec<(usize, &Arc<Revision>)>) -> Option<(usize, &Arc<Revision>)> {
    of.into_iter()
        .max_by_key(|(count, one)| (*count, Reverse(one.revision)))
}

/// All revisions but the update revision, the newest first.
fn others<'a>(
    snapshot: &'a Snapshot,
    revisions: &Revisions,
) -> impl Iterator<Item = &'a Arc<Revision>> {
    snapshot
        .revisions
        .iter()
        .rev()
        .filter(|one| one.metadata.name != revisions.updated.metadata.name)
}

fn revision_of<'a>(snapshot: &'a Snapshot, pod: &Pod) -> Option<&'a Arc<Revision>> {
    revision::of_label(pod.metadata.label(REVISION_LABEL)?, &snapshot.revisions)
}
