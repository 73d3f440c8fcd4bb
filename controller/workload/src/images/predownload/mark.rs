//! The labels of a revision that say what became of its images.

use berth_api::names::label;
use serde_json::{Map, Value, json};

use crate::plan::{Action, Step};
use crate::update::revision::Revision;

/// Whether the revision's label records the predownload's result.
pub fn is_recorded(revision: &Revision) -> bool {
    let labels = [
        label::IMAGE_PREDOWNLOAD_CREATED,
        label::IMAGE_PREDOWNLOAD_IGNORED,
    ];
    labels
        .iter()
        .any(|label| revision.metadata.label(label).is_some())
}

/// Removes the labels from a revision that is not the new one.
pub fn forget(revision: &Revision, updated: &Revision) -> Option<Step> {
    if revision.metadata.uid == updated.metadata.uid {
        return None;
    }
    let labels = [
        label::IMAGE_PREDOWNLOAD_CREATED,
        label::IMAGE_PREDOWNLOAD_IGNORED,
    ];
    let there = labels
        .into_iter()
        .filter(|label| revision.metadata.label(label).is_some());
    let gone: Map<_, _> = there.map(|label| (label.to_owned(), Value::Null)).collect();
    let patch = json!({"metadata": {"labels": gone}});
    let reason = format!(
        "revision {} is not wanted now: its images are pulled anew next time",
        revision.metadata.name
    );
    (!gone.is_empty()).then(|| {
        Step::new(
            Action::PatchRevision {
                target: revision.target(),
                patch,
            },
            reason,
        )
    })
}

/// Notes on a revision what became of its images.
pub fn mark(revision: &Revision, label: &str) -> Action {
    Action::PatchRevision {
        target: revision.target(),
        patch: json!({"metadata": {"labels": {label: "true"}}}),
    }
}
