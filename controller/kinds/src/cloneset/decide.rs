//! From a snapshot to a plan.

use std::sync::Arc;

use berth_api::names::label;
use berth_workload::gates::Gate;
use berth_workload::lifecycle;
use berth_workload::plan::{Action, Body, Event, Plan, Stage, Step};
use berth_workload::pod::{Pod, availability, spread};
use berth_workload::podset::history::{self, Revisions};
use berth_workload::podset::new_pod::new_pod;
use berth_workload::podset::{Uids, hooks, overlap, release, unreadable, update};
use berth_workload::revision::Revision;
use berth_workload::rollout::{self, Held, Numbers, repair};
use berth_workload::{launch, predownload, stuck};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::settings::{Settings, settings};
use super::{Snapshot, adopt, choose, claim_hash, claims, ended, pods_to_delete, progress};

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
        plan.join_steps_by_object(hooks::takes_away);
        snapshot.phases.forget();
    }
    plan
}

fn fill(snapshot: &Snapshot, plan: &mut Plan, now: Timestamp) {
    progress::look_again(&snapshot.set, plan, now);
    let scene = snapshot.scene();
    stuck::watch(&scene, plan, now);
    overlap::tell(&scene.workload, &snapshot.overlapping, plan);
    if let Some(refusal) = unreadable::refusal(&scene) {
        bring_to_end(&snapshot.readable(), plan, now);
        return scene.refuse(plan, refusal);
    }
    // The one time that it is read: as a tree it may take a hundred times its text, and goes with the decision's end.
    let template = snapshot.set.spec.template.value();
    let settings = match settings(snapshot, &template) {
        Ok(settings) => settings,
        Err(refusal) => {
            bring_to_end(snapshot, plan, now);
            return scene.refuse(plan, refusal);
        }
    };
    match revisions(snapshot, &template) {
        Ok((revisions, renumber)) => {
            plan.add_stage("revision", renumber.into_iter().collect());
            roll_out(snapshot, &template, settings, &revisions, plan, now);
        }
        Err(stages) => {
            bring_to_end(snapshot, plan, now);
            let steps = stages.last().and_then(|stage| stage.steps.first());
            let reason = steps.map_or_else(String::new, |step| {
                format!("waits for its revision: {}", step.reason)
            });
            plan.wait(reason);
            plan.stages.extend(stages);
        }
    }
}

/// Whatever is wrong or unknown: updates that are under way are brought to their end, and none begins.
fn bring_to_end(snapshot: &Snapshot, plan: &mut Plan, now: Timestamp) {
    let scene = snapshot.scene();
    update::settle(&scene, None, plan, now);
    hooks::proceed(&scene, None, &Uids::new(), &snapshot.pods, plan, now);
    launch::release(&snapshot.pods, plan);
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
    let scene = snapshot.scene();
    release::release(&scene, plan);
    settings.wanted.rolls_back =
        snapshot.gates.has(Gate::CloneSetPartitionRollback) && revisions.differ();
    let mut pods: Vec<_> = snapshot
        .pods
        .iter()
        .filter(|pod| pod.is_active())
        .cloned()
        .collect();
    let returning = hooks::returning(&scene, settings.wanted.replicas, &pods);
    let count = |pods: &[Arc<Pod>], scaling: bool| {
        let held = |pod: &Arc<Pod>| Held {
            updated: if scaling {
                scales_as_updated(snapshot, revisions, pod)
            } else {
                revisions.is_updated(pod)
            },
            current: revisions.is_current(pod),
            available: availability(pod, settings.min_ready_seconds, now).is_available(),
            scheduled: !pod.spec.node_name.is_empty(),
            broken: repair::is_broken(pod),
            to_delete: scene.is_to_delete(pod),
            preparing_delete: is_leaving(pod, &returning),
        };
        rollout::numbers(&settings.wanted, pods.iter().map(held))
    };
    let (mut numbers, active) = (count(&pods, true), pods.len());
    let leaving = leaving(
        snapshot, &settings, revisions, &pods, &returning, &numbers, plan, now,
    );
    // What goes now is no candidate for an update, and what may be disrupted is counted without it.
    pods.retain(|pod| !leaving.uids.contains(&pod.metadata.uid));
    let knobs = settings.predownload(snapshot);
    let stand = predownload::stand(&scene, &knobs, revisions, &pods, now);
    let holding = predownload::Holding::new(&scene, &knobs, revisions, &stand, now);
    let chosen = choose::choose(
        snapshot,
        &settings,
        revisions,
        &pods,
        &count(&pods, false),
        &holding,
        now,
    );
    update::settle(&scene, Some(&chosen), plan, now);
    hooks::proceed(&scene, Some(&chosen), &returning, &pods, plan, now);
    launch::release(&pods, plan);
    let ending = ended::ending(snapshot, plan, now);
    ending.keep_places(revisions, &mut numbers);
    adopt::pods(
        snapshot,
        &settings,
        revisions,
        active,
        &mut numbers,
        plan,
        now,
    );
    scale_up(
        snapshot,
        revisions,
        pods.len(),
        (&numbers, &ending.resting()),
        plan,
        now,
    );
    plan.add_stage("ended", ending.steps);
    plan.add_stage("scale down", leaving.steps);
    predownload::plan(&scene, &knobs, template, revisions, stand, plan);
    update::update(&scene, &chosen, settings.grace, plan, now);
    plan.add_stage(
        "pods to delete",
        pods_to_delete::clean(snapshot).into_iter().collect(),
    );
    claims::settle(snapshot, plan);
    history::drop_history(&scene, settings.history_limit, revisions, &pods, plan);
    stuck::tell_of_unavailable(&pods, settings.min_ready_seconds, plan, now);
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

/// The revisions to work with ([`history::revisions`]), once those of nobody are taken over.
fn revisions(
    snapshot: &Snapshot,
    template: &Value,
) -> Result<(Revisions, Option<Step>), Vec<Stage>> {
    let adopted = adopt::revisions(snapshot);
    if !adopted.is_empty() {
        return Err(adopted);
    }
    history::revisions(
        &snapshot.scene(),
        template,
        claim_hash::annotation(snapshot),
    )
    .map_err(|stage| vec![stage])
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
    (numbers, resting): (&Numbers, &Uids),
    plan: &mut Plan,
    now: Timestamp,
) {
    let mut ids = claims::ids(snapshot, resting);
    let claims = claims::Templates::new(snapshot);
    let wanted = [
        (&revisions.current, numbers.create_old),
        (&revisions.updated, numbers.create_updated),
    ];
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
                Some(claims::Id::Held(pod)) => claims::await_end(&pod, plan),
                None => {}
            }
        }
        later += left;
    }
    plan.add_stage("scale up", creates);
    if later > 0 {
        let reason = format!("{later} more pods are created as soon as {} are", room.pods);
        plan.wait(reason);
        plan.look_again_after(SignedDuration::from_secs(1));
    }
    if numbers.create_later > 0 {
        let reason = format!(
            "{} more pods wait for scaleStrategy.maxUnavailable",
            numbers.create_later
        );
        plan.events.push(Event {
            warning: true,
            reason: "ScaleUpLimited",
            message: reason.clone(),
        });
        plan.wait(reason);
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
    let scene = snapshot.scene();
    let is_first = |pod: &Arc<Pod>| scene.is_to_delete(pod) || is_leaving(pod, returning);
    let (mut leave, staying): (Vec<_>, Vec<_>) = pods.iter().cloned().partition(is_first);
    let (updated, old): (Vec<_>, Vec<_>) = staying
        .into_iter()
        .partition(|pod| scales_as_updated(snapshot, revisions, pod));
    let is_available =
        |pod: &Pod| availability(pod, settings.min_ready_seconds, now).is_available();
    for (mut pods, surplus) in [(old, numbers.delete_old), (updated, numbers.delete_updated)] {
        // In nearly every round none is one too many.
        if surplus > 0 {
            spread::for_deletion(&mut pods, &scene.spread(), is_available);
            leave.extend(pods.into_iter().take(surplus));
        }
    }
    let mut disruptions = numbers.disruptions;
    let mut leaving = Leaving {
        steps: Vec::new(),
        uids: Uids::new(),
    };
    for pod in leave {
        let asked = scene.is_to_delete(&pod);
        let reason = if asked {
            "its deletion was asked for"
        } else {
            "there are more pods than wanted"
        };
        let available = is_available(&pod);
        if available && disruptions == 0 {
            let reason = format!("is to be deleted ({reason}), and waits for maxUnavailable");
            plan.wait_for_pod(&pod, reason);
            continue;
        }
        disruptions -= usize::from(available);
        let step = if hooks::holds_deletion(&scene, &pod) {
            hooks::hold_deletion(&scene, &pod, reason, false, now)
        } else {
            Some(update::delete(&scene, &pod, reason))
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
    let scene = snapshot.scene();
    let name = claims::pod_name(snapshot, id);
    let mut body = new_pod(&scene, revision, template, &name);
    body["metadata"]["labels"][label::CLONESET_INSTANCE_ID] = json!(id);
    lifecycle::begin(&mut body, lifecycle::PREPARING_NORMAL, now);
    let wanted = snapshot.set.spec.replicas.unwrap_or(1);
    let mut actions = claims.creations(id);
    actions.push(Action::CreatePod {
        body: Body::from(&body),
    });
    Step {
        actions,
        reason: format!(
            "{have} pods of {wanted}: creates {name} at {}",
            revision.metadata.name
        ),
        done: Some(Event {
            warning: false,
            reason: "SuccessfulCreate",
            message: format!("succeed to create pod {name}"),
        }),
        failed: Some(Event {
            warning: true,
            reason: "FailedCreate",
            message: format!("failed to create pod {name}"),
        }),
    }
}
