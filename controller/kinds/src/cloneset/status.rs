//! The numbers of a CloneSet's status.

use berth_api::names::condition;
use berth_api::v1beta1::cloneset::{CloneSetCondition, CloneSetStatus};
use berth_workload::blocked;
use berth_workload::objects::condition::number;
use berth_workload::objects::pod::availability;
use berth_workload::objects::resource::{CLAIMS, PODS};
use berth_workload::objects::selector::Selector;
use berth_workload::plan::{Outcome, Verb, Write};
use berth_workload::update::inplace::steps;
use berth_workload::update::podset::history::Revisions;
use berth_workload::update::revision;
use jiff::Timestamp;
use serde_json::Value;

use super::settings::settings;
use super::{Snapshot, progress};

/// Counts pods into the status and sets the conditions beside `Blocked`.
pub(super) fn set(
    snapshot: &Snapshot,
    template: &Value,
    revisions: Option<&Revisions>,
    outcome: &Outcome,
    status: &mut CloneSetStatus,
    now: Timestamp,
) {
    let old = snapshot.set.status.clone().unwrap_or_default();
    *status = CloneSetStatus {
        observed_generation: status.observed_generation,
        label_selector: Selector::new(&snapshot.set.spec.selector)
            .map(|s| s.to_string())
            .unwrap_or_default(),
        update_revision: old.update_revision.clone(),
        current_revision: old.current_revision.clone(),
        collision_count: status.collision_count,
        expected_updated_replicas: old.expected_updated_replicas,
        conditions: old.conditions.clone(),
        ..CloneSetStatus::default()
    };
    if let Some(revisions) = revisions {
        status.update_revision = revisions.updated.metadata.name.to_string();
        status.current_revision = revisions.current.metadata.name.to_string();
    }
    // If the template could not become a revision, no pod counts as updated, even with the previous
    // newest revision.
    let updated = revisions.map_or("", |revisions| &revisions.updated.metadata.name);
    count(snapshot, updated, status, now);
    if let Ok(settings) = settings(snapshot, template) {
        let wanted = settings.wanted;
        status.expected_updated_replicas = number(wanted.replicas - wanted.partition);
        let is_updated = status.updated_replicas == status.replicas
            && status.replicas == number(wanted.replicas);
        if is_updated && !settings.keeps_current {
            status.current_revision = status.update_revision.clone();
        }
    }
    progress::set(&snapshot.set.spec, &old, status, now);
    failures(snapshot, outcome, &mut status.conditions, now);
}

fn count(snapshot: &Snapshot, updated: &str, status: &mut CloneSetStatus, now: Timestamp) {
    for pod in snapshot.pods.iter().filter(|pod| pod.is_active()) {
        let availability = availability(pod, snapshot.set.spec.min_ready_seconds, now);
        let (ready, available) = (
            i32::from(availability.is_ready()),
            i32::from(availability.is_available()),
        );
        status.replicas += 1;
        status.ready_replicas += ready;
        status.available_replicas += available;
        let label = pod
            .metadata
            .label(revision::REVISION_LABEL)
            .unwrap_or_default();
        if revision::same(label, updated) && !steps::lacks_resources(pod) {
            status.updated_replicas += 1;
            status.updated_ready_replicas += if ready > 0 && steps::awaits_proof(pod) {
                0
            } else {
                ready
            };
            status.updated_available_replicas += available;
        }
    }
}

/// One condition for creation and one for deletion. It is True while the apiserver refuses the
/// write, and removed afterwards. As OpenKruise writes it: no reason, the apiserver's first
/// message, the time of the transition alone.
fn failures(
    snapshot: &Snapshot,
    outcome: &Outcome,
    conditions: &mut Vec<CloneSetCondition>,
    now: Timestamp,
) {
    let is_scale = |write: Write| match write.verb {
        Verb::Adopt => true,
        Verb::Create | Verb::Delete => write.is_for_pods(),
        Verb::Patch => write.resource == CLAIMS,
        _ => false,
    };
    let is_update = |write: Write| {
        write.resource == PODS && matches!(write.verb, Verb::Patch | Verb::PatchStatus)
    };
    let workload = snapshot.view().workload;
    for (type_, message) in [
        (condition::FAILED_SCALE, outcome.first(is_scale)),
        (condition::FAILED_UPDATE, outcome.first(is_update)),
    ] {
        blocked::set_failure(conditions, &workload, (type_, message), now);
    }
}
