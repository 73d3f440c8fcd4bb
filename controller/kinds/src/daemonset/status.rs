//! The numbers of a DaemonSet's status.

use berth_api::v1beta1::daemonset::DaemonSetStatus;
use berth_workload::objects::condition::number;
use berth_workload::objects::pod::{Pod, availability};
use berth_workload::update::inplace::steps;
use berth_workload::update::podset::history::Revisions;
use berth_workload::update::revision::{self, REVISION_LABEL, short};
use jiff::Timestamp;

use super::Snapshot;
use super::places::{Place, Places, has_generation};

/// Sets the status' counts of nodes, each counted by its first pod, and its update revision.
pub(super) fn count(
    snapshot: &Snapshot,
    places: &Places<'_>,
    revisions: Option<&Revisions>,
    status: &mut DaemonSetStatus,
    now: Timestamp,
) {
    if let Some(revisions) = revisions {
        short(&revisions.updated.metadata.name).clone_into(&mut status.update_revision);
    }
    // If the template could not become a revision, no pod counts as updated, even with the previous
    // newest revision.
    let updated = revisions.map_or("", |revisions| short(&revisions.updated.metadata.name));
    let seconds = snapshot.set.spec.min_ready_seconds;
    let is_updated = |pod: &Pod| {
        let label = pod.metadata.label(REVISION_LABEL).unwrap_or_default();
        let is_of = !updated.is_empty()
            && (revision::same(label, updated) || has_generation(snapshot, pod));
        is_of && !steps::lacks_resources(pod)
    };
    let is_ready = |pod: &Pod| availability(pod, seconds, now).is_ready();
    let is_available =
        |pod: &Pod| availability(pod, seconds, now).is_available() && !steps::awaits_proof(pod);
    let of = |what: &dyn Fn(&Pod) -> bool| {
        let has = |place: &Place<'_>| place.pods.first().is_some_and(|pod| what(pod));
        number(places.wanted().filter(|(_, place)| has(place)).count())
    };
    status.desired_number_scheduled = number(places.wanted().count());
    status.current_number_scheduled = of(&|_| true);
    status.number_ready = of(&is_ready);
    status.updated_number_scheduled = of(&is_updated);
    status.number_available = of(&is_available);
    status.number_unavailable = status.desired_number_scheduled - status.number_available;
    let is_misscheduled = |place: &&Place<'_>| !place.is_wanted() && !place.pods.is_empty();
    status.number_misscheduled = number(places.by_node.values().filter(is_misscheduled).count());
}

/// Whether a status is written at once: each node has an available pod of the newest revision from
/// now on, which users wait for.
pub fn is_urgent(old: Option<&DaemonSetStatus>, new: &DaemonSetStatus) -> bool {
    let is_complete = |status: &DaemonSetStatus| {
        [status.updated_number_scheduled, status.number_available]
            == [status.desired_number_scheduled; 2]
    };
    is_complete(new) && !old.is_some_and(is_complete)
}

#[cfg(test)]
mod tests;
