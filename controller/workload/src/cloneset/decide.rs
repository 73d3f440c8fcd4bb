//! From a snapshot to a plan.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_api::names::condition;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::hooks::{self, Uids};
use super::new_pod::{new_pod, owner};
use super::revisions::Revisions;
use super::settings::{Settings, settings};
use super::{
    Snapshot, adopt, blocked, claim_hash, claims, launch, overlap, pods_to_delete, predownload, progress, release,
    unreadable, update,
};
use crate::gates::Gate;
use crate::lifecycle;
use crate::plan::{Action, Body, Event, Plan, Refusal, Stage, Step, Waiting};
use crate::pod::{Availability, Pod, availability, order};
use crate::revision::{self, Recognised, Revision};
use crate::rollout::{self, Held, Numbers, repair};

/// Pods that one plan creates at most. The objects of new pods are the largest part of a plan by far, and what is changed
/// in the meantime (fewer pods, another image) is heeded all the sooner.
const MOST_CREATIONS: usize = 256;
/// Once the new pods of a plan and their claims have this many bytes of JSON, the others are left to the next one: 256 pods
/// of the largest template would be 64 MiB, for each CloneSet that is worked on.
const MOST_CREATED_BYTES: usize = 8 << 20;

/// Decides what to do for a CloneSet now.
pub fn decide(snapshot: &Snapshot, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    if snapshot.set.metadata.deletion_timestamp.is_none() {
        fill(snapshot, &mut plan, now);
        plan.join_steps_by_object(takes_away);
    }
    plan
}

fn fill(snapshot: &Snapshot, plan: &mut Plan, now: Timestamp) {
    progress::look_again(&snapshot.set, plan, now);
    blocked::watch(snapshot, plan, now);
    overlap::tell(snapshot, plan);
    if unreadable::hold(snapshot, plan, now) {
        return;
    }
    // The one time that it is read: as a tree it may take a hundred times its text, and goes with the decision's end.
    let template = snapshot.set.spec.template.value();
    let settings = match settings(snapshot, &template) {
        Ok(settings) => settings,
        Err(refusal) => {
            bring_to_end(snapshot, plan, now);
            return refuse(snapshot, plan, refusal);
        }
    };
    match revisions(snapshot, &template) {
        Ok((revisions, renumber)) => {
            push(plan, "revision", renumber.into_iter().collect());
            roll_out(snapshot, &template, settings, &revisions, plan, now);
        }
        Err(stages) => {
            bring_to_end(snapshot, plan, now);
            let steps = stages.last().and_then(|stage| stage.steps.first());
            let reason = steps.map_or_else(String::new, |step| format!("waits for its revision: {}", step.reason));
            plan.waiting.push(Waiting { pod: String::new(), reason });
            plan.stages.extend(stages);
        }
    }
}

/// Whatever is wrong or unknown: updates that are under way are brought to their end, and none begins.
pub(super) fn bring_to_end(snapshot: &Snapshot, plan: &mut Plan, now: Timestamp) {
    update::settle(snapshot, None, plan, now);
    hooks::proceed(snapshot, None, &Uids::new(), &snapshot.pods, plan, now);
}

/// Towards the pods that are wanted, of the revision that is.
fn roll_out(
    snapshot: &Snapshot,
    template: &Value,
    mut settings: Settings,
    revisions: &Revisions,
    plan: &mut Plan,
    now: Timestamp,
) {
    release::plan(snapshot, plan);
    settings.wanted.rolls_back = snapshot.gates.has(Gate::CloneSetPartitionRollback) && revisions.differ();
    let mut pods: Vec<_> = snapshot.pods.iter().filter(|pod| pod.is_active()).cloned().collect();
    let returning = hooks::returning(snapshot, settings.wanted.replicas, &pods);
    let count = |pods: &[Arc<Pod>], scaling: bool| {
        let held = |pod: &Arc<Pod>| Held {
            updated: if scaling { scales_as_updated(snapshot, revisions, pod) } else { revisions.is_updated(pod) },
            current: revisions.is_current(pod),
            available: availability(pod, settings.min_ready_seconds, now).is_available(),
            scheduled: !pod.spec.node_name.is_empty(),
            broken: repair::is_broken(pod),
            to_delete: is_to_delete(snapshot, pod),
            preparing_delete: is_leaving(pod, &returning),
        };
        rollout::numbers(&settings.wanted, pods.iter().map(held))
    };
    let (mut numbers, active) = (count(&pods, true), pods.len());
    let leaving = leaving(snapshot, &settings, revisions, &pods, &returning, &numbers, plan, now);
    // What goes now is no candidate for an update, and what may be disrupted is counted without it.
    pods.retain(|pod| !leaving.uids.contains(&pod.metadata.uid));
    let stand = predownload::stand(snapshot, &settings, revisions, &pods, now);
    let holding = predownload::Holding::new(snapshot, &settings, revisions, &stand, now);
    let chosen = update::choose(snapshot, &settings, revisions, &pods, &count(&pods, false), &holding, now);
    update::settle(snapshot, Some(&chosen), plan, now);
    hooks::proceed(snapshot, Some(&chosen), &returning, &pods, plan, now);
    launch::release(&pods, plan);
    adopt::pods(snapshot, &settings, revisions, active, &mut numbers, plan, now);
    scale_up(snapshot, revisions, pods.len(), &numbers, plan, now);
    push(plan, "scale down", leaving.steps);
    predownload::plan(snapshot, template, revisions, stand, plan);
    update::update(snapshot, &settings, &chosen, &holding, plan, now);
    push(plan, "pods to delete", pods_to_delete::clean(snapshot).into_iter().collect());
    claims::settle(snapshot, plan);
    drop_history(snapshot, &settings, revisions, &pods, plan);
    wait_for_availability(&pods, &settings, plan, now);
}

/// A pod that the step takes away, or lets a hook hold, has no other write in the same plan: that might put it back into
/// service, and it was counted as what it was.
fn takes_away(step: &Step) -> bool {
    step.actions.iter().any(|action| match action {
        Action::DeletePod { .. } => true,
        Action::PatchPodStatus { patch, .. } => hooks::is_to_be_held(patch),
        _ => false,
    })
}

/// Does the pod count as updated for the number of pods? One whose update a hook holds may, so that it is not scaled down
/// first.
fn scales_as_updated(snapshot: &Snapshot, revisions: &Revisions, pod: &Pod) -> bool {
    let preparing = lifecycle::state(pod) == lifecycle::PREPARING_UPDATE;
    revisions.is_updated(pod) || (preparing && snapshot.gates.has(Gate::PreparingUpdateAsUpdate))
}

/// Is the pod on its way out, held by a hook?
fn is_leaving(pod: &Pod, returning: &Uids) -> bool {
    lifecycle::state(pod) == lifecycle::PREPARING_DELETE && !returning.contains(&pod.metadata.uid)
}

/// Did somebody ask for the pod's deletion, by its label or by name?
pub(super) fn is_to_delete(snapshot: &Snapshot, pod: &Pod) -> bool {
    pod.metadata.label(berth_api::names::label::SPECIFIED_DELETE).is_some()
        || snapshot.set.spec.scale_strategy.pods_to_delete.iter().any(|name| **name == *pod.metadata.name)
}

/// The workload waits for its author: an event once, and a condition for as long as it lasts.
pub(super) fn refuse(snapshot: &Snapshot, plan: &mut Plan, refusal: Refusal) {
    let conditions = snapshot.set.status.iter().flat_map(|status| &status.conditions);
    let told = conditions.into_iter().any(|c| c.type_ == condition::BLOCKED && c.message == refusal.message);
    if !told {
        plan.events.push(Event { warning: true, reason: refusal.reason, message: refusal.message.clone() });
    }
    plan.waiting.push(Waiting { pod: String::new(), reason: refusal.message.clone() });
    plan.refusal = Some(refusal);
}

/// The revisions to work with, with the step that makes an older one the newest; or the stages that take over those of nobody,
/// or write the one that is missing. A rollback need not wait for its new number, and is all the more in time for it.
fn revisions(snapshot: &Snapshot, template: &Value) -> Result<(Revisions, Option<Step>), Vec<Stage>> {
    let adopted = adopt::revisions(snapshot);
    if !adopted.is_empty() {
        return Err(adopted);
    }
    let number = match revision::recognise(template, &snapshot.revisions) {
        Recognised::Newest(updated) => return Ok((Revisions::new(snapshot, updated), None)),
        Recognised::Older(updated, number) => {
            let annotations = claim_hash::changed(snapshot, &updated);
            let action = Action::RenumberRevision { target: updated.target(), revision: number, annotations };
            let reason =
                format!("the template is that of revision {}, which becomes the newest", updated.metadata.name);
            return Ok((Revisions::new(snapshot, updated), Some(step(action, reason))));
        }
        Recognised::New(number) => number,
    };
    let namespace = snapshot.set.metadata.namespace.clone().unwrap_or_default();
    let judged = claims::with_volumes(snapshot, template.clone());
    let validate = Action::ValidateTemplate { namespace, template: Body::from(&judged) };
    let mut step = step(validate, format!("the template is new, and becomes revision {number}"));
    step.actions.push(Action::CreateRevision { body: Body::from(&new_revision(snapshot, template, number)) });
    let message = "failed to take over spec.template".to_owned();
    step.failed = Some(Event { warning: true, reason: "FailedCreateRevision", message });
    Err(vec![Stage { name: "revision", required: true, steps: vec![step] }])
}

fn new_revision(snapshot: &Snapshot, template: &Value, number: i64) -> Value {
    let set = &snapshot.set.metadata;
    let taken = |name: &str| snapshot.revisions.iter().any(|revision| *revision.metadata.name == *name);
    let collisions = snapshot.set.status.as_ref().and_then(|status| status.collision_count).unwrap_or(0);
    let workload = set.name.as_deref().unwrap_or_default();
    let data = revision::data(template);
    let mut hashes = (0..100).map(|more| revision::hash(&data, collisions.wrapping_add(more)));
    let hash = hashes.find(|hash| !taken(&revision::revision_name(workload, hash))).unwrap_or_default();
    let mut labels =
        template.pointer("/metadata/labels").cloned().filter(Value::is_object).unwrap_or_else(|| json!({}));
    labels[revision::HASH_LABEL] = json!(hash);
    json!({
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": revision::revision_name(workload, &hash),
            "namespace": set.namespace,
            "labels": labels,
            "annotations": claim_hash::annotation(snapshot),
            "ownerReferences": [owner(snapshot)],
        },
        "revision": number,
        "data": data,
    })
}

/// What one plan creates.
#[derive(Default)]
struct Room {
    pods: usize,
    bytes: usize,
}

impl Room {
    /// Is there room for one more pod?
    fn is_left(&self) -> bool {
        self.pods < MOST_CREATIONS && self.bytes < MOST_CREATED_BYTES
    }

    fn fill(&mut self, step: &Step) {
        let bytes = step.actions.iter().map(|action| match action {
            Action::CreatePod { body } | Action::CreateClaim { body } => body.text().len(),
            _ => 0,
        });
        self.bytes += bytes.sum::<usize>();
    }
}

fn scale_up(
    snapshot: &Snapshot,
    revisions: &Revisions,
    have: usize,
    numbers: &Numbers,
    plan: &mut Plan,
    now: Timestamp,
) {
    let mut ids = claims::ids(snapshot);
    let claims = claims::Templates::new(snapshot);
    let wanted = [(&revisions.current, numbers.create_old), (&revisions.updated, numbers.create_updated)];
    let (mut creates, mut room, mut later) = (Vec::new(), Room::default(), 0);
    for (revision, count) in wanted {
        let mut left = count;
        while left > 0 && room.is_left() {
            left -= 1;
            room.pods += 1;
            match ids.next() {
                Some(claims::Id::Free(id)) => {
                    let template = revisions.template_of(revision);
                    let step = create(snapshot, (revision, &template), &claims, &id, have, now);
                    room.fill(&step);
                    creates.push(step);
                }
                Some(claims::Id::Held(pod)) => creates.extend(claims::await_end(snapshot, &pod, plan, now)),
                None => {}
            }
        }
        later += left;
    }
    push(plan, "scale up", creates);
    if later > 0 {
        let reason = format!("{later} more pods are created as soon as {} are", room.pods);
        plan.waiting.push(Waiting { pod: String::new(), reason });
        plan.look_again_after(SignedDuration::from_secs(1));
    }
    if numbers.create_later > 0 {
        let reason = format!("{} more pods wait for scaleStrategy.maxUnavailable", numbers.create_later);
        plan.events.push(Event { warning: true, reason: "ScaleUpLimited", message: reason.clone() });
        plan.waiting.push(Waiting { pod: String::new(), reason });
    }
}

/// Pods that go now, or are to go as soon as their hooks let them.
struct Leaving {
    steps: Vec<Step>,
    /// The pods of the steps.
    uids: Uids,
}

/// The pods to delete now: those that somebody asked for or that a hook held before, then those beyond what is wanted.
#[allow(clippy::too_many_arguments, reason = "all that a deletion depends on")]
fn leaving(
    snapshot: &Snapshot,
    settings: &Settings,
    revisions: &Revisions,
    pods: &[Arc<Pod>],
    returning: &Uids,
    numbers: &Numbers,
    plan: &mut Plan,
    now: Timestamp,
) -> Leaving {
    let is_first = |pod: &Arc<Pod>| is_to_delete(snapshot, pod) || is_leaving(pod, returning);
    let (first, staying): (Vec<_>, Vec<_>) = pods.iter().cloned().partition(is_first);
    let (mut updated, mut old): (Vec<_>, Vec<_>) =
        staying.into_iter().partition(|pod| scales_as_updated(snapshot, revisions, pod));
    let spread = snapshot.spread();
    let is_available = |pod: &Pod| availability(pod, settings.min_ready_seconds, now).is_available();
    order::for_deletion(&mut old, &spread, is_available);
    order::for_deletion(&mut updated, &spread, is_available);
    let surplus = old.into_iter().take(numbers.delete_old).chain(updated.into_iter().take(numbers.delete_updated));
    let mut disruptions = numbers.disruptions;
    let mut leaving = Leaving { steps: Vec::new(), uids: Uids::new() };
    for pod in first.into_iter().chain(surplus) {
        let asked = is_to_delete(snapshot, &pod);
        let reason = if asked { "its deletion was asked for" } else { "there are more pods than wanted" };
        let available = is_available(&pod);
        if available && disruptions == 0 {
            let reason = format!("is to be deleted ({reason}), and waits for maxUnavailable");
            plan.waiting.push(Waiting { pod: pod.metadata.name.to_string(), reason });
            continue;
        }
        disruptions -= usize::from(available);
        let step = if hooks::holds_deletion(snapshot, &pod) {
            hooks::hold_deletion(snapshot, &pod, reason, false, now)
        } else {
            Some(update::delete(snapshot, &pod, reason))
        };
        if let Some(step) = step {
            leaving.steps.push(step);
            leaving.uids.insert(pod.metadata.uid.clone());
        }
    }
    leaving
}

fn create(
    snapshot: &Snapshot,
    (revision, template): (&Revision, &Value),
    claims: &claims::Templates<'_>,
    id: &str,
    have: usize,
    now: Timestamp,
) -> Step {
    let mut body = new_pod(snapshot, revision, template, id);
    lifecycle::begin(&mut body, now);
    let name = body.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let wanted = snapshot.set.spec.replicas.unwrap_or(1);
    let mut actions = claims.creations(id);
    actions.push(Action::CreatePod { body: Body::from(&body) });
    Step {
        actions,
        reason: format!("{have} pods of {wanted}: creates {name} at {}", revision.metadata.name),
        done: Some(Event {
            warning: false,
            reason: "SuccessfulCreate",
            message: format!("succeed to create pod {name}"),
        }),
        failed: Some(Event { warning: true, reason: "FailedCreate", message: format!("failed to create pod {name}") }),
    }
}

/// Revisions that nothing uses go beyond the limit, but only while nothing else is to do: history is never in a hurry.
fn drop_history(snapshot: &Snapshot, settings: &Settings, revisions: &Revisions, pods: &[Arc<Pod>], plan: &mut Plan) {
    if !plan.is_idle() {
        return;
    }
    let in_use = |name: &str| {
        revision::same(name, &revisions.updated.metadata.name)
            || revision::same(name, &revisions.current.metadata.name)
            || pods
                .iter()
                .any(|pod| pod.metadata.label(revision::REVISION_LABEL).is_some_and(|l| revision::same(l, name)))
    };
    let dropped = revision::beyond_limit(&snapshot.revisions, settings.history_limit, in_use);
    let steps = dropped.iter().map(|revision| {
        let reason =
            format!("revision {} is beyond revisionHistoryLimit {}", revision.metadata.name, settings.history_limit);
        step(Action::DeleteRevision { target: revision.target() }, reason)
    });
    push(plan, "drop history", steps.collect());
}

/// Nothing announces that a pod has been ready for long enough: look again then.
fn wait_for_availability(pods: &[Arc<Pod>], settings: &Settings, plan: &mut Plan, now: Timestamp) {
    let mut soonest: Option<SignedDuration> = None;
    let mut unnamed = Vec::new();
    let named: BTreeSet<&str> = plan.waiting.iter().map(|waiting| &*waiting.pod).collect();
    for pod in pods {
        let reason = match availability(pod, settings.min_ready_seconds, now) {
            Availability::Available => continue,
            Availability::After(wait) => {
                soonest = Some(soonest.map_or(wait, |old| old.min(wait)));
                format!("is ready, and available in {} s (minReadySeconds)", wait.as_secs() + 1)
            }
            Availability::Held => format!("is in lifecycle state {}", lifecycle::state(pod)),
            Availability::NotReady => blocked::why_not_ready(pod),
        };
        if !named.contains(&*pod.metadata.name) {
            unnamed.push(Waiting { pod: pod.metadata.name.to_string(), reason });
        }
    }
    plan.waiting.append(&mut unnamed);
    if let Some(wait) = soonest {
        plan.look_again_after(wait);
    }
}

/// A step of one action that records nothing.
pub(super) fn step(action: Action, reason: String) -> Step {
    Step { actions: vec![action], reason, done: None, failed: None }
}

/// Adds a stage unless it is empty.
pub(super) fn push(plan: &mut Plan, name: &'static str, steps: Vec<Step>) {
    if !steps.is_empty() {
        plan.stages.push(Stage { name, required: false, steps });
    }
}
