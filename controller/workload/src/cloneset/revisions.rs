//! The two revisions of a rollout.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::sync::Arc;

use serde_json::Value;

use super::Snapshot;
use crate::pod::Pod;
use crate::revision::{self, REVISION_LABEL, Revision};

/// The revisions of a rollout, for one decision: the templates of these two are read once at most, and gone with it.
pub(super) struct Revisions {
    /// Where updated pods are.
    pub updated: Arc<Revision>,
    /// Where pods inside the partition are created.
    pub current: Arc<Revision>,
    updated_template: OnceCell<Value>,
    current_template: OnceCell<Value>,
}

impl Revisions {
    pub(super) fn new(snapshot: &Snapshot, updated: Arc<Revision>) -> Self {
        let named = snapshot.set.status.as_ref().map_or("", |status| &status.current_revision);
        let current = revision::of_label(named, &snapshot.revisions).unwrap_or(&updated).clone();
        Self { updated, current, updated_template: OnceCell::new(), current_template: OnceCell::new() }
    }

    pub(super) fn updated_template(&self) -> &Value {
        self.updated_template.get_or_init(|| self.updated.template())
    }

    pub(super) fn current_template(&self) -> &Value {
        if self.differ() {
            self.current_template.get_or_init(|| self.current.template())
        } else {
            self.updated_template()
        }
    }

    /// Those of other revisions are not kept, for there may be many.
    pub(super) fn template_of(&self, revision: &Revision) -> Cow<'_, Value> {
        match &revision.metadata.name {
            name if *name == self.updated.metadata.name => Cow::Borrowed(self.updated_template()),
            name if *name == self.current.metadata.name => Cow::Borrowed(self.current_template()),
            _ => Cow::Owned(revision.template()),
        }
    }

    pub(super) fn is_updated(&self, pod: &Pod) -> bool {
        is_of(pod, &self.updated)
    }

    pub(super) fn is_current(&self, pod: &Pod) -> bool {
        is_of(pod, &self.current)
    }

    /// A rollout is under way: there is a revision to go back to.
    pub(super) fn differ(&self) -> bool {
        !revision::same(&self.updated.metadata.name, &self.current.metadata.name)
    }
}

fn is_of(pod: &Pod, revision: &Revision) -> bool {
    let label = pod.metadata.label(REVISION_LABEL).unwrap_or_default();
    revision::same(label, &revision.metadata.name)
}
