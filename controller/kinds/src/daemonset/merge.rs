//! Merges revisions of the same content: the newest is kept.
//!
//! A set that is created anew before its predecessor's revisions are in the cache has two revisions
//! of the same content. So has a set for which two controllers wrote. Their pods are equal, so they
//! get the label of the revision that is kept, and none restarts. Only then the other revisions are
//! deleted: a pod without its revision would count as one of another template, and be replaced.

use std::sync::Arc;

use berth_workload::objects::pod::Pod;
use berth_workload::plan::{Action, PodPatch, Stage, Step};
use berth_workload::update::inplace::inherited;
use berth_workload::update::inplace::state::{ANNOTATION, State};
use berth_workload::update::inplace::steps;
use berth_workload::update::podset::adopt::MOST;
use berth_workload::update::revision::{self, PodLabels, REVISION_LABEL, Revision};

use super::Snapshot;

/// The stages that relabel pods to the kept revision, and delete revisions that no pod names any
/// more. Empty if there are no duplicates, or if the rest waits for pods that the set does not
/// control yet, or whose update OpenKruise began.
pub(super) fn duplicates(snapshot: &Snapshot) -> Vec<Stage> {
    let labels = snapshot.view().workload.labels;
    let (mut relabelled, mut deleted) = (Vec::new(), Vec::new());
    for (duplicate, kept) in revision::duplicates(&snapshot.revisions) {
        let steps = pods_of(duplicate, &snapshot.pods)
            .filter_map(|pod| relabel(pod, duplicate, kept, labels));
        relabelled.extend(steps);
        if !is_named(snapshot, duplicate) {
            deleted.push(delete(duplicate, kept));
        }
    }
    relabelled.truncate(MOST);
    let stages = [
        ("merge revisions", relabelled),
        ("delete merged revisions", deleted),
    ];
    let stages = stages.into_iter().filter(|(_, steps)| !steps.is_empty());
    stages
        .map(|(name, steps)| Stage {
            name,
            required: true,
            steps,
        })
        .collect()
}

/// Pods that are not being deleted and whose label names the revision.
fn pods_of<'a>(revision: &'a Revision, pods: &'a [Arc<Pod>]) -> impl Iterator<Item = &'a Arc<Pod>> {
    pods.iter().filter(|pod| {
        let label = pod.metadata.label(REVISION_LABEL).unwrap_or_default();
        pod.metadata.deletion_timestamp.is_none() && revision::same(label, &revision.metadata.name)
    })
}

/// Whether a pod names it that the set controls, or may adopt.
fn is_named(snapshot: &Snapshot, revision: &Revision) -> bool {
    let pods = [
        &snapshot.pods[..],
        &snapshot.orphans.pods[..],
        &snapshot.own.namesakes[..],
    ];
    pods.into_iter()
        .any(|pods| pods_of(revision, pods).next().is_some())
}

/// Writes the kept revision into the pod's labels and into the record of an update in place. The
/// record shows that the update was written, so the update goes on to its proof. An update that
/// OpenKruise began has its record elsewhere, and ends first.
fn relabel(pod: &Pod, duplicate: &Revision, kept: &Revision, labels: PodLabels) -> Option<Step> {
    if inherited::is_in_grace(pod) {
        return None;
    }
    let (old, new) = (&duplicate.metadata.name, &kept.metadata.name);
    let labels = labels
        .of(new)
        .map(|(key, value)| (key.to_owned(), Some(value.to_owned())));
    let mut patch = PodPatch {
        labels: labels.collect(),
        ..PodPatch::default()
    };
    if let Some(record) = State::of(pod).filter(|record| revision::same(&record.revision, old)) {
        let record = State {
            revision: new.to_string(),
            ..record
        };
        patch
            .annotations
            .insert(ANNOTATION.to_owned(), Some(record.to_annotation()));
    }
    let reason = format!(
        "pod {} is of revision {new}: {old} holds the same, and goes",
        pod.metadata.name
    );
    Some(Step::new(
        Action::PatchPod {
            target: steps::target_as_seen(pod),
            patch,
        },
        reason,
    ))
}

fn delete(duplicate: &Revision, kept: &Revision) -> Step {
    let reason = format!(
        "revision {} holds the same as {}",
        duplicate.metadata.name, kept.metadata.name
    );
    Step::new(
        Action::DeleteRevision {
            target: duplicate.target(),
        },
        reason,
    )
}
