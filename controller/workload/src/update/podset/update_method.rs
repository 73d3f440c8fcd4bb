//! How pods get from one revision to another: in place, by recreation, or not at all.

use std::collections::BTreeMap;

use super::WorkloadView;
use super::claim_template;
use super::history::Revisions;
use crate::objects::pod::Pod;
use crate::plan::{PodPatch, Refusal};
use crate::update::inplace::change::{self, Change};
use crate::update::inplace::steps;
use crate::update::revision::{self, REVISION_LABEL, Revision};

/// `podUpdatePolicy`: how pods are updated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Always by recreation.
    ReCreate,
    /// In place if the change allows it, otherwise by recreation.
    InPlaceIfPossible,
    /// In place or not at all.
    InPlaceOnly,
}

/// How a pod gets to the new revision.
pub(crate) enum UpdateMethod<'a> {
    InPlace(&'a PodPatch),
    Recreate(&'a str),
    Refused(&'a Refusal),
    /// In place, but it waits, because another pod, named here, still lacks the same resources.
    Waits(&'a str),
}

/// The update methods from each revision, computed once per revision and not per pod.
pub struct UpdateMethods {
    by_revision: BTreeMap<String, Result<Change, String>>,
    refusals: BTreeMap<String, Refusal>,
    /// Why a pod must be recreated, independent of its revision, by the pod's uid.
    replaced: BTreeMap<Box<str>, String>,
    refusal_to_replace: Option<Refusal>,
    /// A pod of the new revision that lacks its resources. A resize that its node refuses, another
    /// node may refuse as well.
    lacking: Option<Box<str>>,
    policy: Policy,
    /// The text of the spec's field that asks for new pods.
    reason: &'static str,
}

impl UpdateMethods {
    /// The update methods to `target`. If `recreates` returns a change for a revision, the pods of
    /// that revision take it.
    pub fn new(
        view: &WorkloadView<'_>,
        policy: Policy,
        revisions: &Revisions,
        target: &Revision,
        recreates: impl Fn(&Revision) -> Option<Change>,
    ) -> Self {
        let mut methods = Self {
            by_revision: BTreeMap::new(),
            refusals: BTreeMap::new(),
            replaced: BTreeMap::new(),
            refusal_to_replace: None,
            lacking: lacking(view, target),
            policy,
            reason: "podUpdatePolicy is ReCreate",
        };
        let labels = view
            .pods
            .iter()
            .filter_map(|pod| pod.metadata.label(REVISION_LABEL));
        for label in labels {
            if methods.by_revision.contains_key(label) {
                continue;
            }
            let old = revision::of_label(label, view.revisions);
            let change = old
                .map(|old| recreates(old).unwrap_or_else(|| between(view, revisions, old, target)));
            let change =
                change.ok_or_else(|| format!("revision {label} is not in the history any more"));
            // A template that differs only in notation makes the same pod, so that only the pod's
            // label changes.
            if policy == Policy::ReCreate
                && !matches!(&change, Ok(Change::InPlace(p)) if *p == PodPatch::default())
            {
                continue;
            }
            if policy == Policy::InPlaceOnly
                && let Some(refusal) = refusal(view, label, &change)
            {
                methods.refusals.insert(label.to_owned(), refusal);
            }
            methods.by_revision.insert(label.to_owned(), change);
        }
        if policy == Policy::InPlaceOnly {
            let unlabelled = view
                .pods
                .iter()
                .find(|pod| pod.metadata.label(REVISION_LABEL).is_none());
            methods
                .refusals
                .extend(unlabelled.map(|pod| (String::new(), without_label(view, pod))));
        }
        methods
    }

    /// Sets the text of the spec's field that asks for new pods.
    #[must_use]
    pub fn with_reason(self, reason: &'static str) -> Self {
        Self { reason, ..self }
    }

    /// Makes these pods change only by recreation, for this reason.
    #[must_use]
    pub fn with_replaced(mut self, uids: impl IntoIterator<Item = Box<str>>, reason: &str) -> Self {
        self.replaced
            .extend(uids.into_iter().map(|uid| (uid, reason.to_owned())));
        self
    }

    /// Recreates pods that lack the volume of a claim template, or refuses if recreation is not
    /// allowed, because volumes of a pod never change.
    #[must_use]
    pub fn with_volumes(mut self, view: &WorkloadView<'_>) -> Self {
        for pod in view.pods.iter().filter(|pod| pod.is_active()) {
            let Some(template) = claim_template::without_volume(&view.workload, pod) else {
                continue;
            };
            if self.policy == Policy::InPlaceOnly && self.refusal_to_replace.is_none() {
                self.refusal_to_replace = Some(without_volume(view, pod, template));
            }
            self.replaced.insert(
                pod.metadata.uid.clone(),
                format!("it has no volume of claim template {template}"),
            );
        }
        self
    }

    pub(crate) fn of(&self, pod: &Pod) -> UpdateMethod<'_> {
        if let Some(reason) = self.replaced.get(&pod.metadata.uid) {
            return self
                .refusal_to_replace
                .as_ref()
                .map_or(UpdateMethod::Recreate(reason), UpdateMethod::Refused);
        }
        let label = pod.metadata.label(REVISION_LABEL).unwrap_or_default();
        match (self.by_revision.get(label), self.refusals.get(label)) {
            (Some(Ok(Change::InPlace(patch))), _) => match &self.lacking {
                Some(name) if !patch.resources.is_empty() => UpdateMethod::Waits(name),
                _ => UpdateMethod::InPlace(patch),
            },
            (_, Some(refusal)) => UpdateMethod::Refused(refusal),
            (Some(Ok(Change::Recreate { fields })), _) => {
                UpdateMethod::Recreate(fields.first().map_or("", String::as_str))
            }
            (Some(Err(reason)), _) => UpdateMethod::Recreate(reason),
            (None, _) if self.policy == Policy::ReCreate => UpdateMethod::Recreate(self.reason),
            (None, _) => UpdateMethod::Recreate("it has no revision label"),
        }
    }
}

/// The first pod, by name, of this revision that lacks the resources of its update.
fn lacking(view: &WorkloadView<'_>, target: &Revision) -> Option<Box<str>> {
    let is_of_target = |pod: &Pod| {
        let label = pod.metadata.label(REVISION_LABEL).unwrap_or_default();
        pod.is_active() && revision::same(label, &target.metadata.name)
    };
    let lacking = view
        .pods
        .iter()
        .filter(|pod| is_of_target(pod) && steps::lacks_resources(pod));
    lacking.map(|pod| pod.metadata.name.clone()).min()
}

/// The change from a pod's template to another. Most pods have the target revision already, so that
/// nothing is read for them.
fn between(
    view: &WorkloadView<'_>,
    revisions: &Revisions,
    old: &Revision,
    target: &Revision,
) -> Change {
    if old.metadata.name == target.metadata.name {
        return Change::InPlace(PodPatch::default());
    }
    let (old, new) = (revisions.template_of(old), revisions.template_of(target));
    change::between(&old, &new, view.resize)
        .gate_variables(view.gates)
        .gate_restarts(view.gates)
}

/// The refusal for a pod whose revision is unknown.
fn without_label(view: &WorkloadView<'_>, pod: &Pod) -> Refusal {
    Refusal {
        reason: "InPlaceOnly",
        message: format!(
            "{}: pod {} has no label {REVISION_LABEL}, so that nothing tells what differs from the template, and \
             podUpdatePolicy is InPlaceOnly; give the label back, delete the pod, or set podUpdatePolicy to InPlaceIfPossible",
            view.workload, pod.metadata.name
        ),
    }
}

fn without_volume(view: &WorkloadView<'_>, pod: &Pod, template: &str) -> Refusal {
    Refusal {
        reason: "InPlaceOnly",
        message: format!(
            "{}: pod {} has no volume of spec.volumeClaimTemplates[{template}], which only a new pod can have, and podUpdatePolicy is \
             InPlaceOnly; delete the pod, take the claim template back, or set podUpdatePolicy to InPlaceIfPossible",
            view.workload, pod.metadata.name
        ),
    }
}

fn refusal(
    view: &WorkloadView<'_>,
    label: &str,
    change: &Result<Change, String>,
) -> Option<Refusal> {
    let problem = match change {
        Ok(Change::InPlace(_)) => return None,
        Ok(Change::Recreate { fields }) => format!("spec.{} changed", fields.join(", spec.")),
        Err(reason) => reason.clone(),
    };
    Some(Refusal {
        reason: "InPlaceOnly",
        message: format!(
            "{}: pods of revision {label} cannot be updated in place: {problem}, and podUpdatePolicy is \
             InPlaceOnly; change images, labels and annotations only, or set podUpdatePolicy to InPlaceIfPossible",
            view.workload
        ),
    })
}
