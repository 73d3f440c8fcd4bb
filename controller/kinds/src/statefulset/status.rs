//! The status of a StatefulSet, from what was observed and what came of the plan.

use berth_api::names::condition;
use berth_api::v1beta1::statefulset::{StatefulSetCondition, StatefulSetStatus};
use berth_workload::inplace::steps;
use berth_workload::plan::{Deed, Outcome, Plan, Verb};
use berth_workload::pod::{Pod, availability};
use berth_workload::podset::history::{self, Revisions};
use berth_workload::resource::{CLAIMS, PODS};
use berth_workload::revision::{self, REVISION_LABEL, Recognised};
use berth_workload::selector::Selector;
use berth_workload::stuck;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::growth::Sizes;
use super::{Snapshot, blocked, places, settings};

/// The status to write: equal to the one that the StatefulSet has when nothing changed. While the revision of a new template is
/// being written, nothing is said of the new generation yet: whoever waits for it must not take the old revision's numbers for
/// the new one's.
pub fn status(
    snapshot: &Snapshot,
    plan: &Plan,
    outcome: &Outcome,
    now: Timestamp,
) -> Option<StatefulSetStatus> {
    let mut status = snapshot.set.status.clone().unwrap_or_default();
    if !snapshot.unreadable.is_empty() {
        // Of what cannot be read nothing is counted: the numbers stay as they were told.
        blocked::set(snapshot, plan, outcome, &mut status, now);
        return Some(status);
    }
    // Read again, and not kept since the decision: writes take their time, and a tree takes memory.
    let template = snapshot.set.spec.template.value();
    let recognised = history::recognise(&snapshot.scene(), &template);
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
    status.observed_generation = snapshot.set.metadata.generation.unwrap_or_default();
    status.label_selector = Selector::new(&snapshot.set.spec.selector)
        .map(|s| s.to_string())
        .unwrap_or_default();
    status.collision_count = Some(collisions);
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
    blocked::set(snapshot, plan, outcome, &mut status, now);
    Some(status)
}

/// Pods as they are; of those that go, only that they are there.
fn count(snapshot: &Snapshot, updated: &str, status: &mut StatefulSetStatus, now: Timestamp) {
    let seconds = snapshot.scene().workload.min_ready_seconds;
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

/// A condition per side of the work, True while the server refuses it, gone once it does not.
fn failures(
    snapshot: &Snapshot,
    outcome: &Outcome,
    conditions: &mut Vec<StatefulSetCondition>,
    now: Timestamp,
) {
    let is_creation = |deed: Deed| match deed.verb {
        Verb::Adopt => true,
        Verb::Create => deed.is_for_pods(),
        _ => false,
    };
    let is_update = |deed: Deed| {
        let pods = deed.resource == PODS
            && matches!(deed.verb, Verb::Patch | Verb::PatchStatus | Verb::Delete);
        pods || deed == Deed::of(Verb::Patch, CLAIMS)
    };
    let set = snapshot.scene().workload.name();
    let sides = [
        (condition::FAILED_CREATE_POD, outcome.first(is_creation)),
        (condition::FAILED_UPDATE_POD, outcome.first(is_update)),
    ];
    for (type_, message) in sides {
        let told = conditions.iter().find(|c| c.type_ == type_);
        let Some(message) = message else {
            conditions.retain(|c| c.type_ != type_);
            continue;
        };
        let words = |text: &str| stuck::without_names(text, set);
        if told.is_some_and(|told| told.status == "True" && words(&told.message) == words(&message))
        {
            continue;
        }
        let since = told
            .filter(|told| told.status == "True")
            .and_then(|told| told.last_transition_time.clone());
        conditions.retain(|c| c.type_ != type_);
        conditions.push(StatefulSetCondition {
            type_: type_.to_owned(),
            status: "True".to_owned(),
            last_transition_time: since.or(Some(Time(now))),
            reason: String::new(),
            message,
        });
    }
}

fn number(value: usize) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}
