//! Taking over what an earlier workload of the same name left to nobody.
//!
//! Just before, the workload is read from the apiserver: what is given to one that is being deleted, or is another by now, would
//! be deleted by garbage collection.

use std::sync::Arc;

use super::Workload;
use crate::inplace::steps;
use crate::plan::{Action, Event, Stage, Step, Target};
use crate::pod::{Metadata, Pod};
use crate::revision::{HASH_LABEL, Revision, short};
use crate::selector::Selector;

/// Objects that one plan takes over at most.
pub const MOST: usize = 64;

/// Nobody's, not going, and in the namespace of the workload.
pub fn is_nobodys(workload: &Workload<'_>, metadata: &Metadata) -> bool {
    metadata.controller().is_none()
        && metadata.deletion_timestamp.is_none()
        && workload.namespace() == &*metadata.namespace
}

/// Is it named after the workload, and selected by it? Nothing is by an empty selector.
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

/// Is the revision's name made of its hash?
pub fn is_revision(revision: &Revision) -> bool {
    revision.metadata.label(HASH_LABEL) == Some(short(&revision.metadata.name))
}

/// Takes over the revisions. Empty if there are none.
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

/// Takes over a pod.
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
        done: Some(Event {
            warning: false,
            reason: "PodAdopted",
            message,
        }),
        failed: Some(Event {
            warning: true,
            reason: "FailedAdopt",
            message: format!("failed to adopt pod {name}"),
        }),
    }
}

/// The steps, behind a look at the workload as it is.
pub fn confirmed(workload: &Workload<'_>, steps: Vec<Step>) -> Vec<Stage> {
    if steps.is_empty() {
        return Vec::new();
    }
    let target = Target::from(workload.metadata);
    let reason = format!("{} objects of nobody are to be adopted", steps.len());
    let confirm = Step::new(
        Action::Confirm {
            resource: workload.resource,
            target,
        },
        reason,
    );
    vec![
        Stage {
            name: "confirm",
            required: true,
            steps: vec![confirm],
        },
        Stage {
            name: "adopt",
            required: false,
            steps,
        },
    ]
}
