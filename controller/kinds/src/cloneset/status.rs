//! The status of a CloneSet, from what was observed and what came of the plan.

use berth_api::names::condition;
use berth_api::v1beta1::cloneset::{CloneSetCondition, CloneSetStatus};
use berth_workload::inplace::steps;
use berth_workload::plan::{Deed, Outcome, Plan, Verb};
use berth_workload::pod::availability;
use berth_workload::podset::history::{self, Revisions};
use berth_workload::resource::{CLAIMS, PODS};
use berth_workload::revision::{self, Recognised};
use berth_workload::selector::Selector;
use berth_workload::stuck;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::settings::settings;
use super::{Snapshot, blocked, progress};

/// The status to write: equal to the one that the CloneSet has when nothing changed. While the revision of a new template
/// is being written, nothing is said of the new generation yet: whoever waits for it must not take the old revision's
/// numbers for the new one's.
pub fn status(
    snapshot: &Snapshot,
    plan: &Plan,
    outcome: &Outcome,
    now: Timestamp,
) -> Option<CloneSetStatus> {
    if !snapshot.unreadable.is_empty() {
        // Of what cannot be read nothing is counted: the numbers stay as they were told.
        let mut status = snapshot.set.status.clone().unwrap_or_default();
        blocked::set(snapshot, plan, outcome, &mut status, now);
        return Some(status);
    }
    // Read again, and not kept since the decision: writes take their time, and a tree takes memory.
    let template = snapshot.set.spec.template.value();
    let recognised = revision::recognise(&template, &snapshot.revisions);
    let is_new = matches!(recognised, Recognised::New(_));
    let before = snapshot
        .set
        .status
        .as_ref()
        .and_then(|status| status.collision_count)
        .unwrap_or(0);
    let collisions = history::collisions(before, outcome);
    if is_new && plan.refusal.is_none() && !outcome.has_failed() {
        return history::with_collisions(snapshot.set.status.as_ref(), collisions, |status| {
            &mut status.collision_count
        });
    }
    let old = snapshot.set.status.clone().unwrap_or_default();
    let mut status = CloneSetStatus {
        observed_generation: snapshot.set.metadata.generation.unwrap_or_default(),
        label_selector: Selector::new(&snapshot.set.spec.selector)
            .map(|s| s.to_string())
            .unwrap_or_default(),
        update_revision: old.update_revision.clone(),
        current_revision: old.current_revision.clone(),
        collision_count: Some(collisions),
        expected_updated_replicas: old.expected_updated_replicas,
        conditions: old.conditions.clone(),
        ..CloneSetStatus::default()
    };
    if let Recognised::Newest(updated) | Recognised::Older(updated, _) = recognised {
        let revisions = Revisions::new(&snapshot.scene(), updated);
        status.update_revision = revisions.updated.metadata.name.to_string();
        status.current_revision = revisions.current.metadata.name.to_string();
    }
    // A template that could not become a revision has no pods, whatever revision was the newest before.
    let updated = if is_new {
        String::new()
    } else {
        status.update_revision.clone()
    };
    count(snapshot, &updated, &mut status, now);
    if let Ok(settings) = settings(snapshot, &template) {
        let wanted = settings.wanted;
        status.expected_updated_replicas = number(wanted.replicas - wanted.partition);
        let is_updated = status.updated_replicas == status.replicas
            && status.replicas == number(wanted.replicas);
        if is_updated && !settings.keeps_current {
            status.current_revision = status.update_revision.clone();
        }
    }
    progress::set(&snapshot.set.spec, &old, &mut status, now);
    failures(snapshot, outcome, &mut status.conditions, now);
    blocked::set(snapshot, plan, outcome, &mut status, now);
    Some(status)
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

/// A condition per side of the work, True while the server refuses it, gone once it does not. As the peer writes it: no
/// reason, the server's first message, the time of the transition alone.
fn failures(
    snapshot: &Snapshot,
    outcome: &Outcome,
    conditions: &mut Vec<CloneSetCondition>,
    now: Timestamp,
) {
    let is_scale = |deed: Deed| match deed.verb {
        Verb::Adopt => true,
        Verb::Create | Verb::Delete => deed.is_for_pods(),
        Verb::Patch => deed.resource == CLAIMS,
        _ => false,
    };
    let is_update =
        |deed: Deed| deed.resource == PODS && matches!(deed.verb, Verb::Patch | Verb::PatchStatus);
    let set = snapshot.set.metadata.name.as_deref().unwrap_or_default();
    for (type_, message) in [
        (condition::FAILED_SCALE, outcome.first(is_scale)),
        (condition::FAILED_UPDATE, outcome.first(is_update)),
    ] {
        let told = conditions.iter().find(|c| c.type_ == type_);
        let Some(message) = message else {
            conditions.retain(|c| c.type_ != type_);
            continue;
        };
        // A refused pod has another name with every try.
        let words = |text: &str| stuck::without_names(text, set);
        if told.is_some_and(|told| told.status == "True" && words(&told.message) == words(&message))
        {
            continue;
        }
        let since = told
            .filter(|told| told.status == "True")
            .and_then(|told| told.last_transition_time.clone());
        conditions.retain(|c| c.type_ != type_);
        conditions.push(CloneSetCondition {
            type_: type_.to_owned(),
            status: "True".to_owned(),
            last_update_time: None,
            last_transition_time: since.or(Some(Time(now))),
            reason: String::new(),
            message,
        });
    }
}

fn number(value: usize) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}
