//! Adopts objects without a controller that an earlier workload of the same name left.
//!
//! A step before reads the workload from the apiserver. If the workload is being deleted, or is
//! another by now, garbage collection would delete the adopted objects.

use std::sync::Arc;

use super::Workload;
use crate::objects::claim::Claim;
use crate::objects::pod::{Metadata, Pod};
use crate::objects::selector::Selector;
use crate::plan::{Action, Event, Plan, Stage, Step, Target};
use crate::update::inplace::steps;
use crate::update::revision::{HASH_LABEL, REVISION_LABEL, Revision, short};

/// The most objects that one plan adopts.
pub const MOST: usize = 64;

/// Whether the object has no controller, is not being deleted, and is in the namespace of the
/// workload.
fn is_orphan(workload: &Workload<'_>, metadata: &Metadata) -> bool {
    metadata.controller().is_none()
        && metadata.deletion_timestamp.is_none()
        && workload.namespace() == &*metadata.namespace
}

/// Whether the object is named after the workload and its selector matches. An empty selector
/// matches nothing.
pub fn is_named_and_selected(
    workload: &Workload<'_>,
    selector: &Selector,
    metadata: &Metadata,
) -> bool {
    let rest = metadata.name.strip_prefix(workload.name());
    rest.is_some_and(|rest| rest.starts_with('-'))
        && !selector.is_empty()
        && selector.matches(|key| metadata.label(key))
}

/// Whether the revision's name ends in its hash.
fn is_revision(workload: &Workload<'_>, revision: &Revision) -> bool {
    let label = |key| revision.metadata.label(key);
    // Revisions of Kubernetes' and OpenKruise's DaemonSets have the label of their pods.
    let of_pods = || workload.labels.on_revisions.then(|| label(REVISION_LABEL));
    let hash = label(HASH_LABEL).or_else(|| of_pods().flatten());
    hash == Some(short(&revision.metadata.name))
}

/// Objects without a controller that a workload may adopt, in no order.
#[derive(Debug, Clone, Default)]
pub struct Orphans {
    /// Pods.
    pub pods: Vec<Arc<Pod>>,
    /// Claims.
    pub claims: Vec<Arc<Claim>>,
    /// Revisions.
    pub revisions: Vec<Arc<Revision>>,
}

impl Orphans {
    /// Keeps the objects that an earlier workload of this name may have left: claims that `is_left`
    /// accepts, and pods and revisions that are also named after the workload and selected by it.
    pub fn of(
        self,
        workload: &Workload<'_>,
        is_left: impl Fn(&Metadata) -> bool,
        is_pod: impl Fn(&Pod) -> bool,
    ) -> Self {
        // This is the case in nearly every decision.
        if self.pods.is_empty() && self.claims.is_empty() && self.revisions.is_empty() {
            return self;
        }
        let Ok(selector) = Selector::new(workload.selector) else {
            return Self::default();
        };
        let is_left = |metadata: &Metadata| is_orphan(workload, metadata) && is_left(metadata);
        let is_ours = |metadata: &Metadata| {
            is_left(metadata) && is_named_and_selected(workload, &selector, metadata)
        };
        let Self {
            mut pods,
            mut claims,
            mut revisions,
        } = self;
        pods.retain(|pod| is_ours(&pod.metadata) && is_pod(pod));
        claims.retain(|claim| is_left(&claim.metadata));
        revisions.retain(|revision| is_ours(&revision.metadata) && is_revision(workload, revision));
        Self {
            pods,
            claims,
            revisions,
        }
    }

    /// Whether a pod of this name is to be adopted.
    pub fn has_pod(&self, name: &str) -> bool {
        self.pods.iter().any(|pod| *pod.metadata.name == *name)
    }
}

/// The stages that adopt the revisions. Empty if there are none.
pub fn revisions(workload: &Workload<'_>, orphans: &[Arc<Revision>]) -> Vec<Stage> {
    let kind = workload.resource.kind;
    let adopt = |revision: &Arc<Revision>| {
        let target = Target::as_seen(&revision.metadata);
        let reason = format!(
            "revision {} is adopted: an earlier {kind} of this name left it",
            target.name
        );
        Step::new(
            Action::AdoptRevision {
                target,
                owner: workload.reference(),
            },
            reason,
        )
    };
    confirmed(workload, orphans.iter().take(MOST).map(adopt).collect())
}

/// Adopts pods before any is created, deleted or updated.
pub fn pods(workload: &Workload<'_>, orphans: &[Arc<Pod>], plan: &mut Plan) {
    let steps = orphans
        .iter()
        .take(MOST)
        .map(|orphan| pod(workload, orphan));
    plan.stages.extend(confirmed(workload, steps.collect()));
}

/// The step that adopts a pod.
pub fn pod(workload: &Workload<'_>, pod: &Pod) -> Step {
    let name = &pod.metadata.name;
    let message = format!(
        "pod {name} is adopted: an earlier {} of this name left it",
        workload.resource.kind
    );
    Step {
        actions: vec![Action::AdoptPod {
            target: steps::target_as_seen(pod),
            owner: workload.reference(),
        }],
        reason: message.clone(),
        done: Some(Event::normal("PodAdopted", message)),
        failed: Some(Event::warning(
            "FailedAdopt",
            format!("failed to adopt pod {name}"),
        )),
    }
}

/// The steps, after a stage that reads the workload from the apiserver.
pub fn confirmed(workload: &Workload<'_>, steps: Vec<Step>) -> Vec<Stage> {
    if steps.is_empty() {
        return Vec::new();
    }
    let target = Target::from(workload.metadata);
    let reason = format!(
        "{} objects without a controller are to be adopted",
        steps.len()
    );
    vec![
        Stage::confirm(workload.resource, target, reason),
        Stage {
            name: "adopt",
            required: false,
            steps,
        },
    ]
}
