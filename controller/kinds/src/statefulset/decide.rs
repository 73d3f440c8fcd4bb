//! From a snapshot to a plan.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_workload::plan::{Plan, Stage, Step};
use berth_workload::pod::Pod;
use berth_workload::podset::history::{self, Revisions};
use berth_workload::podset::{Uids, hooks, release, unreadable, update};
use berth_workload::{launch, predownload, stuck};
use jiff::Timestamp;
use serde_json::Value;

use super::places::Places;
use super::settings::{Settings, settings};
use super::{Snapshot, adopt, blocked, choose, claims, create, leaving};

/// Decides what to do for a StatefulSet now: creations first, then deletions, then updates.
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
    let scene = snapshot.scene();
    stuck::watch(&scene, plan, now);
    blocked::watch(snapshot, plan, now);
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
            roll_out(snapshot, &template, &settings, &revisions, plan, now);
        }
        Err(stages) => {
            bring_to_end(snapshot, plan, now);
            let steps = stages.last().and_then(|stage| stage.steps.first());
            let reason = steps.map_or_else(String::new, |step| {
                format!("waits for its revision: {}", step.reason)
            });
            plan.wait(reason);
            plan.stages.extend(stages);
            claims::settle(snapshot, &Places::new(snapshot, &settings, now), plan);
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

/// The revisions to work with, once those of nobody are taken over. Claim templates are no part of one.
fn revisions(
    snapshot: &Snapshot,
    template: &Value,
) -> Result<(Revisions, Option<Step>), Vec<Stage>> {
    let adopted = adopt::revisions(snapshot);
    if !adopted.is_empty() {
        return Err(adopted);
    }
    history::revisions(&snapshot.scene(), template, BTreeMap::new()).map_err(|stage| vec![stage])
}

/// Towards the pods that are wanted, of the revision that is.
fn roll_out(
    snapshot: &Snapshot,
    template: &Value,
    settings: &Settings,
    revisions: &Revisions,
    plan: &mut Plan,
    now: Timestamp,
) {
    let scene = snapshot.scene();
    release::release(&scene, plan);
    let places = Places::new(snapshot, settings, now);
    let returning = leaving::returning(snapshot, &places);
    let leaving = leaving::leaving(snapshot, settings, &places, &returning, plan, now);
    let is_staying = |pod: &&Arc<Pod>| pod.is_active() && !leaving.uids.contains(&pod.metadata.uid);
    let pods: Vec<Arc<Pod>> = snapshot.pods.iter().filter(is_staying).cloned().collect();
    let ahead = settings.predownload(snapshot);
    let knobs = settings.knobs(&ahead);
    let stand = predownload::stand(&scene, &knobs, revisions, &pods, now);
    let holding = predownload::Holding::new(&scene, &knobs, revisions, &stand, now);
    let chosen = choose::choose(
        snapshot, settings, &places, revisions, &leaving, &holding, plan,
    );
    update::settle(&scene, Some(&chosen), plan, now);
    hooks::proceed(&scene, Some(&chosen), &returning, &pods, plan, now);
    launch::release(&pods, plan);
    adopt::pods(snapshot, plan);
    create::create(snapshot, settings, &places, revisions, plan, now);
    plan.add_stage("delete", leaving.steps);
    predownload::plan(&scene, &knobs, template, revisions, stand, plan);
    update::update(&scene, &chosen, settings.grace, plan, now);
    claims::settle(snapshot, &places, plan);
    history::drop_history(&scene, settings.history_limit, revisions, &pods, plan);
    stuck::tell_of_unavailable(&pods, settings.min_ready_seconds, plan, now);
}
