//! Unreadable pods, claims and revisions of a workload, which block the workload until they are
//! readable.
//!
//! An uncounted pod is created once more, so that an unreadable pod must never look like a missing
//! one. Otherwise a type that a new Kubernetes release changes would make the controller create
//! pods forever.

use super::workload_view::{Unreadable, WorkloadView};
use crate::plan::Refusal;

/// Why the workload is held, if anything of it cannot be read.
pub fn refusal(view: &WorkloadView<'_>) -> Option<Refusal> {
    let Unreadable { kind, name, error } = view.unreadable.iter().min()?;
    let others = match view.unreadable.len() {
        1 => String::new(),
        count => format!(" (and {} others)", count - 1),
    };
    let (workload, owner) = (&view.workload, view.workload.resource.kind);
    Some(Refusal {
        reason: "Unreadable",
        message: format!(
            "{workload}: {kind} {name}{others} cannot be read, and until then no pod is created, updated or deleted: \
             {error}; correct it, delete it, or take the {owner} off its ownerReferences"
        ),
    })
}
