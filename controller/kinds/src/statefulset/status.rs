//! The numbers of a StatefulSet's status.

use berth_api::names::condition;
use berth_api::v1beta1::statefulset::{StatefulSetCondition, StatefulSetStatus};
use berth_workload::blocked;
use berth_workload::objects::condition::number;
use berth_workload::objects::pod::{Pod, availability};
use berth_workload::objects::resource::{CLAIMS, PODS};
use berth_workload::objects::selector::Selector;
use berth_workload::plan::{Outcome, Verb, Write};
use berth_workload::update::inplace::steps;
use berth_workload::update::podset::history::Revisions;
use berth_workload::update::revision::{self, REVISION_LABEL};
use jiff::Timestamp;

use super::growth::Sizes;
use super::{Snapshot, places, settings};

/// Counts pods into the status and sets the conditions beside `Blocked`.
pub(super) fn set(
    snapshot: &Snapshot,
    revisions: Option<&Revisions>,
    outcome: &Outcome,
    status: &mut StatefulSetStatus,
    now: Timestamp,
) {
    status.label_selector = Selector::new(&snapshot.set.spec.selector)
        .map(|s| s.to_string())
        .unwrap_or_default();
    if let Some(revisions) = revisions {
        status.update_revision = revisions.updated.metadata.name.to_string();
        status.current_revision = revisions.current.metadata.name.to_string();
    }
    // If the template could not become a revision, no pod counts as updated, even with the previous
    // newest revision.
    let updated = revisions.map_or("", |revisions| &revisions.updated.metadata.name);
    count(snapshot, updated, status, now);
    let may_complete = |settings: settings::Settings| {
        !settings.keeps_current && status.replicas == number(settings.ordinals.len())
    };
    if settings::beside_template(snapshot).is_ok_and(may_complete)
        && status.updated_replicas == status.replicas
        && status.ready_replicas == status.replicas
        && !updated.is_empty()
    {
        status.current_revision.clone_from(&status.update_revision);
        status.current_replicas = status.updated_replicas;
    }
    status.volume_claims = Sizes::of(snapshot).status(snapshot);
    failures(snapshot, outcome, &mut status.conditions, now);
}

/// Counts pods as they are. Pods that are being deleted count only as existing.
fn count(snapshot: &Snapshot, updated: &str, status: &mut StatefulSetStatus, now: Timestamp) {
    let seconds = snapshot.view().workload.min_ready_seconds;
    let of =
        |what: &dyn Fn(&Pod) -> bool| number(snapshot.pods.iter().filter(|pod| what(pod)).count());
    let is_of = |pod: &Pod, name: &str| {
        pod.metadata.deletion_timestamp.is_none()
            && revision::same(pod.metadata.label(REVISION_LABEL).unwrap_or_default(), name)
    };
    let is_updated = |pod: &Pod| {
        places::is_updated(snapshot, is_of(pod, updated), pod) && !steps::lacks_resources(pod)
    };
    let is_ready = |pod: &Pod| availability(pod, seconds, now).is_ready();
    let is_available = |pod: &Pod| availability(pod, seconds, now).is_available();
    status.replicas = of(&|_| true);
    status.ready_replicas = of(&is_ready);
    status.available_replicas = of(&is_available);
    status.current_replicas = of(&|pod| is_of(pod, &status.current_revision));
    status.updated_replicas = of(&is_updated);
    status.updated_ready_replicas =
        of(&|pod| is_updated(pod) && is_ready(pod) && !steps::awaits_proof(pod));
    status.updated_available_replicas = of(&|pod| is_updated(pod) && is_available(pod));
}

/// One condition for creation and one for deletion. It is True while the apiserver refuses the
/// write, and removed afterwards.
fn failures(
    snapshot: &Snapshot,
    outcome: &Outcome,
    conditions: &mut Vec<StatefulSetCondition>,
    now: Timestamp,
) {
    let is_creation = |write: Write| match write.verb {
        Verb::Adopt => true,
        Verb::Create => write.is_for_pods(),
        _ => false,
    };
    let is_update = |write: Write| {
        let pods = write.resource == PODS
            && matches!(write.verb, Verb::Patch | Verb::PatchStatus | Verb::Delete);
        pods || write == Write::of(Verb::Patch, CLAIMS)
    };
    let workload = snapshot.view().workload;
    let sides = [
        (condition::FAILED_CREATE_POD, outcome.first(is_creation)),
        (condition::FAILED_UPDATE_POD, outcome.first(is_update)),
    ];
    for (type_, message) in sides {
        blocked::set_failure(conditions, &workload, (type_, message), now);
    }
}
