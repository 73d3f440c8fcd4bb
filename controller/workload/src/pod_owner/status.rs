//! The status of an owner of pods, from the observed objects and the outcome of the plan.

use jiff::Timestamp;

use super::{PodOwner, Snapshot};
use crate::blocked;
use crate::plan::{Outcome, Plan};
use crate::update::podset::history::{self, Revisions};
use crate::update::revision::Recognised;
use berth_api::fields::condition::WorkloadStatus;

/// The status to write: equal to the present one if nothing changed. While the revision of a new
/// template is being written, the status keeps the old generation. Otherwise a client that waits
/// for the new one would take the old revision's numbers for it.
pub fn status<K: PodOwner>(
    snapshot: &Snapshot<K>,
    plan: &Plan,
    outcome: &Outcome,
    now: Timestamp,
) -> Option<K::Status> {
    let view = snapshot.view();
    let present = K::status(&snapshot.set).as_ref();
    let mut status = present.cloned().unwrap_or_default();
    // Parsed again and not kept since the decision, because writes take time and a tree takes
    // memory.
    let template = view.workload.template.value();
    let places = K::places(snapshot, &template);
    // While an object is unreadable, the numbers stay as they were.
    if snapshot.unreadable.is_empty() {
        let updated = match history::recognise(&view, &template) {
            Recognised::Newest(updated) | Recognised::Older(updated, _) => Some(updated),
            Recognised::New(_) => None,
        };
        let collisions = history::collisions(view.workload.collisions, outcome);
        if updated.is_none() && plan.refusal.is_none() && !outcome.has_failed() {
            return history::with_collisions(present, collisions);
        }
        *status.observed_generation() = view.workload.metadata.generation.unwrap_or_default();
        *status.collision_count() = Some(collisions);
        let revisions = updated.map(|updated| Revisions::new(&view, updated));
        let read = (&template, &places);
        K::count(
            snapshot,
            read,
            revisions.as_ref(),
            outcome,
            &mut status,
            now,
        );
    }
    let causes = K::causes(snapshot, &places, (plan, outcome), &status, now);
    blocked::set_blocked(status.conditions(), &view.workload, causes, now);
    Some(status)
}
