//! Revisions of one content become one: the newest is kept.
//!
//! A set that is made anew before its predecessor's revisions are seen has two of them, and so has one for which two controllers
//! wrote. Pods of either are the same pods, so they get the label of the one that is kept, and nothing restarts. Only then the
//! others go: a pod whose revision is gone would be taken for one of another template, and be replaced.

use std::sync::Arc;

use berth_workload::objects::pod::Pod;
use berth_workload::plan::{Action, PodPatch, Stage, Step};
use berth_workload::update::inplace::inherited;
use berth_workload::update::inplace::state::{ANNOTATION, State};
use berth_workload::update::inplace::steps;
use berth_workload::update::podset::adopt::MOST;
use berth_workload::update::revision::{self, PodLabels, REVISION_LABEL, Revision};

use super::Snapshot;

/// What brings pods to the revision that is kept, and deletes those that no pod names any more. Empty where each is there once, or
/// what is left waits for pods that are not the set's yet, or are under way as OpenKruise began it.
pub(super) fn duplicates(snapshot: &Snapshot) -> Vec<Stage> {
    let labels = snapshot.scene().workload.labels;
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

/// Pods that stay and whose label names the revision.
fn pods_of<'a>(revision: &'a Revision, pods: &'a [Arc<Pod>]) -> impl Iterator<Item = &'a Arc<Pod>> {
    pods.iter().filter(|pod| {
        let label = pod.metadata.label(REVISION_LABEL).unwrap_or_default();
        pod.metadata.deletion_timestamp.is_none() && revision::same(label, &revision.metadata.name)
    })
}

/// Does a pod name it that is the set's, or may become so?
fn is_named(snapshot: &Snapshot, revision: &Revision) -> bool {
    let pods = [
        &snapshot.pods[..],
        &snapshot.orphans.pods[..],
        &snapshot.own.namesakes[..],
    ];
    pods.into_iter()
        .any(|pods| pods_of(revision, pods).next().is_some())
}

/// The record of an update in place names the revision, too: by it the update is known to have been written, and goes on to its
/// proof. One that OpenKruise began has it elsewhere, and is brought to its end first.
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
