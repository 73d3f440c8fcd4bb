//! The history of a workload: the two revisions of a rollout, the revision of a new template, and
//! the revisions to drop.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::names::annotation::CHANGE_CAUSE;
use berth_api::v1beta1::cloneset::{DEFAULT_REVISION_HISTORY_LIMIT, MAX_REVISION_HISTORY_LIMIT};
use serde_json::{Value, json};

use super::{WorkloadView, claim_template};
use crate::objects::pod::Pod;
use crate::objects::resource::CONTROLLER_REVISIONS;
use crate::plan::{Action, Body, Event, Failure, Outcome, Plan, Stage, Step, Verb, Write};
use crate::update::revision::{self, REVISION_LABEL, Recognised, Revision};
use berth_api::fields::condition::WorkloadStatus;

/// The longest change cause that a revision gets, in bytes.
const MAX_CHANGE_CAUSE: usize = 1024;

/// The revisions of a rollout, for one decision. The templates of these two are parsed at most once
/// and dropped with this value.
pub struct Revisions {
    /// The revision of updated pods.
    pub updated: Arc<Revision>,
    /// The revision of pods inside the partition.
    pub current: Arc<Revision>,
    updated_template: OnceCell<Value>,
    current_template: OnceCell<Value>,
}

impl Revisions {
    /// The revision that pods are updated to, and the current revision in the workload's status.
    pub fn new(view: &WorkloadView<'_>, updated: Arc<Revision>) -> Self {
        let named = view.workload.current_revision;
        let current = revision::of_label(named, view.revisions)
            .unwrap_or(&updated)
            .clone();
        Self {
            updated,
            current,
            updated_template: OnceCell::new(),
            current_template: OnceCell::new(),
        }
    }

    pub(crate) fn updated_template(&self) -> &Value {
        self.updated_template
            .get_or_init(|| self.updated.template())
    }

    pub(crate) fn current_template(&self) -> &Value {
        if self.differ() {
            self.current_template
                .get_or_init(|| self.current.template())
        } else {
            self.updated_template()
        }
    }

    /// The template of a revision. Templates of other revisions are not kept, because there may be
    /// many.
    pub fn template_of(&self, revision: &Revision) -> Cow<'_, Value> {
        match &revision.metadata.name {
            name if *name == self.updated.metadata.name => Cow::Borrowed(self.updated_template()),
            name if *name == self.current.metadata.name => Cow::Borrowed(self.current_template()),
            _ => Cow::Owned(revision.template()),
        }
    }

    /// Whether the pod has the revision that pods are updated to.
    pub fn is_updated(&self, pod: &Pod) -> bool {
        is_of(pod, &self.updated)
    }

    /// Whether the pod has the revision of pods inside the partition.
    pub fn is_current(&self, pod: &Pod) -> bool {
        is_of(pod, &self.current)
    }

    /// Whether a rollout is under way, so that there is a revision to roll back to.
    pub fn differ(&self) -> bool {
        !revision::same(&self.updated.metadata.name, &self.current.metadata.name)
    }
}

fn is_of(pod: &Pod, revision: &Revision) -> bool {
    let label = pod.metadata.label(REVISION_LABEL).unwrap_or_default();
    revision::same(label, &revision.metadata.name)
}

/// The place of a template in the history of the workload.
pub fn recognise(view: &WorkloadView<'_>, template: &Value) -> Recognised {
    match revision::recognise(template, view.revisions) {
        Recognised::New(number) if view.workload.meets_by_meaning => {
            revision::recognise_meaning(template, view.revisions).unwrap_or(Recognised::New(number))
        }
        recognised => recognised,
    }
}

/// The number of collisions: one more if the name of a new revision is taken, so that the next try
/// uses another name. It wraps around.
pub fn collisions(before: i32, outcome: &Outcome) -> i32 {
    let is_taken = |failure: &Failure| {
        failure.write == Write::of(Verb::Create, CONTROLLER_REVISIONS) && failure.taken
    };
    if outcome.failures.iter().any(is_taken) {
        before.checked_add(1).unwrap_or(0)
    } else {
        before
    }
}

/// The status until the revision of a new template is written: the present one, with the number of
/// collisions if that differs.
pub fn with_collisions<S: WorkloadStatus>(present: Option<&S>, collisions: i32) -> Option<S> {
    let mut status = present.cloned().unwrap_or_default();
    let known = status.collision_count();
    if known.unwrap_or(0) == collisions {
        return present.cloned();
    }
    *known = Some(collisions);
    Some(status)
}

/// The revisions to work with, with the step that makes an older one the newest; or the stage that
/// writes the missing revision. A rollback does not wait for its new number, so that it starts
/// sooner. The annotations are the ones of the newest revision, which also gets the change cause.
pub fn revisions(
    view: &WorkloadView<'_>,
    template: &Value,
    mut annotations: BTreeMap<String, String>,
) -> Result<(Revisions, Option<Step>), Stage> {
    let annotations_of = view.workload.metadata.annotations.as_ref();
    let cause = annotations_of.and_then(|all| all.get(CHANGE_CAUSE));
    if let Some(cause) = cause.filter(|cause| cause.len() <= MAX_CHANGE_CAUSE) {
        annotations.insert(CHANGE_CAUSE.to_owned(), cause.clone());
    }
    let number = match recognise(view, template) {
        Recognised::Newest(updated) => return Ok((Revisions::new(view, updated), None)),
        Recognised::Older(updated, number) => {
            annotations.retain(|key, value| updated.metadata.annotation(key) != Some(value));
            let action = Action::RenumberRevision {
                target: updated.target(),
                revision: number,
                annotations,
            };
            let reason = format!(
                "the template is that of revision {}, which becomes the newest",
                updated.metadata.name
            );
            return Ok((
                Revisions::new(view, updated),
                Some(Step::new(action, reason)),
            ));
        }
        Recognised::New(number) => number,
    };
    let judged = claim_template::with_volumes(&view.workload, template.clone());
    let namespace = view.workload.namespace().to_owned();
    let validate = Action::ValidateTemplate {
        namespace,
        template: Body::from(&judged),
    };
    let mut step = Step::new(
        validate,
        format!("the template is new, and becomes revision {number}"),
    );
    let body = new_revision(view, template, number, &annotations);
    step.actions.push(Action::CreateRevision {
        body: Body::from(&body),
    });
    let message = "failed to take over spec.template".to_owned();
    step.failed = Some(Event::warning("FailedCreateRevision", message));
    Err(Stage {
        name: "revision",
        required: true,
        steps: vec![step],
    })
}

fn new_revision(
    view: &WorkloadView<'_>,
    template: &Value,
    number: i64,
    annotations: &BTreeMap<String, String>,
) -> Value {
    let workload = &view.workload;
    let taken = |name: &str| {
        view.revisions
            .iter()
            .any(|revision| *revision.metadata.name == *name)
    };
    let newest = view.revisions.last().map(AsRef::as_ref);
    let data = revision::data_like(newest, template);
    let mut hashes =
        (0..100).map(|more| revision::hash(&data, workload.collisions.wrapping_add(more)));
    let hash = hashes
        .find(|hash| !taken(&revision::revision_name(workload.name(), hash)))
        .unwrap_or_default();
    let mut labels = template
        .pointer("/metadata/labels")
        .cloned()
        .filter(Value::is_object)
        .unwrap_or_else(|| json!({}));
    labels[revision::HASH_LABEL] = json!(hash);
    if workload.labels.on_revisions {
        labels[REVISION_LABEL] = json!(hash);
    }
    json!({
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": revision::revision_name(workload.name(), &hash),
            "namespace": workload.metadata.namespace,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [workload.reference()],
        },
        "revision": number,
        "data": data,
    })
}

/// Drops unused revisions beyond the limit, but only while there is nothing else to do, because
/// that is never urgent.
pub fn drop_history(
    view: &WorkloadView<'_>,
    revisions: &Revisions,
    pods: &[Arc<Pod>],
    plan: &mut Plan,
) {
    if !plan.is_idle() {
        return;
    }
    let in_use = |name: &str| {
        revision::same(name, &revisions.updated.metadata.name)
            || revision::same(name, &revisions.current.metadata.name)
            || pods.iter().any(|pod| {
                pod.metadata
                    .label(revision::REVISION_LABEL)
                    .is_some_and(|l| revision::same(l, name))
            })
    };
    let limit = view.workload.history_limit;
    let limit = limit
        .unwrap_or(DEFAULT_REVISION_HISTORY_LIMIT)
        .min(MAX_REVISION_HISTORY_LIMIT);
    let dropped = revision::beyond_limit(view.revisions, limit, in_use);
    let steps = dropped.iter().map(|revision| {
        let reason = format!(
            "revision {} is beyond revisionHistoryLimit {}",
            revision.metadata.name, limit
        );
        Step::new(
            Action::DeleteRevision {
                target: revision.target(),
            },
            reason,
        )
    });
    plan.add_stage("drop history", steps.collect());
}
