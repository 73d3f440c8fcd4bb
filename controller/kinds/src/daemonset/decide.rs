//! From a snapshot to a plan.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_workload::plan::{Plan, Stage, Step};
use berth_workload::pod::Pod;
use berth_workload::podset::history::{self, Revisions};
use berth_workload::podset::{Uids, hooks, overlap, release, unreadable, update};
use berth_workload::predownload::Annotated;
use berth_workload::{launch, predownload, stuck};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::choose::Turns;
use super::places::{Places, without_nodes};
use super::settings::{Settings, settings};
use super::{Snapshot, adopt, choose, create, held, leaving, merge};

/// Decides what to do for a DaemonSet now: creations first, then deletions, then updates.
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
    overlap::tell(&scene.workload, &snapshot.overlapping, plan);
    if let Some(refusal) = unreadable::refusal(&scene) {
        bring_to_end(&snapshot.readable(), plan, now);
        return scene.refuse(plan, refusal);
    }
    // The one time that it is read: as a tree it may take a hundred times its text, and goes with the decision's end.
    let template = snapshot.set.spec.template.value();
    let places = Places::new(snapshot, &template);
    let settings = match settings(snapshot, &template, places.wanted().count()) {
        Ok(settings) => settings,
        Err(refusal) => {
            bring_to_end(snapshot, plan, now);
            return scene.refuse(plan, refusal);
        }
    };
    match revisions(snapshot, &template, plan, now) {
        Ok((revisions, renumber)) => {
            plan.add_stage("revision", renumber.into_iter().collect());
            roll_out(
                snapshot, &template, &settings, &places, revisions, plan, now,
            );
        }
        Err(stages) => {
            bring_to_end(snapshot, plan, now);
            if let Some(step) = stages.last().and_then(|stage| stage.steps.first()) {
                plan.wait(format!("waits for its revision: {}", step.reason));
            }
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

/// The revisions to work with, once those of nobody are taken over, and each is there once.
fn revisions(
    snapshot: &Snapshot,
    template: &Value,
    plan: &mut Plan,
    now: Timestamp,
) -> Result<(Revisions, Option<Step>), Vec<Stage>> {
    let adopted = adopt::revisions(snapshot);
    if !adopted.is_empty() {
        return Err(adopted);
    }
    let merged = merge::duplicates(snapshot);
    if !merged.is_empty() {
        return Err(merged);
    }
    let found = history::revisions(&snapshot.scene(), template, BTreeMap::new());
    match (found, adopt::awaited(snapshot, now)) {
        (Ok(found), _) => Ok(found),
        (Err(_), Some((pod, rest))) => {
            let name = &pod.metadata.name;
            plan.wait(format!(
                "waits for the revision of pod {name}, which an earlier DaemonSet of this name left or leaves"
            ));
            plan.look_again_after(rest.min(SignedDuration::from_secs(1)));
            Err(Vec::new())
        }
        (Err(stage), None) => Err(vec![stage]),
    }
}

/// Towards one pod on each node that fits, of the revision that is wanted.
fn roll_out(
    snapshot: &Snapshot,
    template: &Value,
    settings: &Settings,
    places: &Places<'_>,
    mut revisions: Revisions,
    plan: &mut Plan,
    now: Timestamp,
) {
    let scene = snapshot.scene();
    release::release(&scene, plan);
    without_nodes(places)
        .into_iter()
        .for_each(|why| plan.wait(why));
    let mut turns = Turns::new(snapshot, settings, places, &revisions, now);
    // No status names the one of before. The one that nodes keep is kept in the history, too.
    let held = turns.held.as_ref().map(|held| held.revision.clone());
    if let Some(former) = held.or_else(|| held::former(snapshot, &revisions)) {
        revisions.current = former;
    }
    let revisions = &revisions;
    let leaving = leaving::leaving(snapshot, settings, places, revisions, &mut turns, plan, now);
    let is_staying = |pod: &&Arc<Pod>| pod.is_active() && !leaving.uids.contains(&pod.metadata.uid);
    let pods: Vec<Arc<Pod>> = snapshot.pods.iter().filter(is_staying).cloned().collect();
    let annotated = Annotated::of(&snapshot.set.metadata);
    let knobs = settings.knobs(snapshot, places.wanted().count(), &annotated);
    let stand = predownload::stand(&scene, &knobs, revisions, &pods, now);
    let holding = predownload::Holding::new(&scene, &knobs, revisions, &stand, now);
    let chosen = choose::choose(
        snapshot,
        settings,
        places,
        revisions,
        &leaving.uids,
        &mut turns,
        plan,
    )
    .with_held(|pod| holding.of(pod));
    update::settle(&scene, Some(&chosen), plan, now);
    hooks::proceed(&scene, Some(&chosen), &Uids::new(), &pods, plan, now);
    launch::release(&pods, plan);
    adopt::pods(snapshot, plan);
    create::create(snapshot, settings, places, revisions, &turns, plan, now);
    plan.add_stage("delete", leaving.steps);
    predownload::plan(&scene, &knobs, template, revisions, stand, plan);
    update::update(&scene, &chosen, SignedDuration::ZERO, plan, now);
    history::drop_history(&scene, settings.history_limit, revisions, &pods, plan);
    stuck::tell_of_unavailable(&pods, settings.min_ready_seconds, plan, now);
}
