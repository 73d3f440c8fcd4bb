//! Which revision nodes have that a rollout leaves out.
//!
//! No node remembers what it had when its pod is gone, so the others that are left out say it. The newest revision beside the
//! update's would be wrong: after a rollback that is the one that was just taken back.

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

/// What a pod gets that is made anew on a node that is left out.
pub(super) struct Held {
    pub(super) revision: Arc<Revision>,
    /// Do at least as many such nodes have it as have the update revision? Else a rollout was stopped, and none was taken back.
    pub(super) prevails: bool,
    /// Which nodes its own template is for. That of the update may be for more.
    fits: Fits,
}

impl Held {
    /// Is its own template for this node?
    pub(super) fn fits(&self, node: &Node) -> bool {
        self.fits.of(node) == Fit::Wanted
    }
}

/// With the annotation, a node that an update leaves out keeps its revision when its pod is made anew.
pub fn holds_revision(set: &DaemonSet) -> bool {
    let annotations = set.metadata.annotations.as_ref();
    annotations
        .and_then(|all| all.get(DAEMONSET_HOLD_REVISION))
        .is_some_and(|value| value == "true")
}

/// Revisions of which a node may get a pod where nodes keep theirs, from all of the DaemonSet, sorted oldest first: those that its pods
/// have, or, where it has none, the newest two, of which one is the update's.
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

/// The newest revision beside the updated one that pods have.
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

/// What nodes that are left out have, where that is not the update revision.
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

/// One from before the update that most of the nodes have, or, where a rollback makes an older revision the update, the younger one
/// that most have. Where none has a pod that says it, the newest from before. Beside it, whether it prevails.
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

/// The one that most have, and of equals the oldest.
fn most(of: Vec<(usize, &Arc<Revision>)>) -> Option<(usize, &Arc<Revision>)> {
    of.into_iter()
        .max_by_key(|(count, one)| (*count, Reverse(one.revision)))
}

/// All but the updated one, the newest first.
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
