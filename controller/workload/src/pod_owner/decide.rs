//! From a snapshot to a plan.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::{PodOwner, Snapshot};
use crate::blocked;
use crate::objects::pod::Pod;
use crate::plan::{Plan, Stage, Step};
use crate::update::launch;
use crate::update::podset::chosen::Chosen;
use crate::update::podset::history::Revisions;
use crate::update::podset::{Uids, WorkloadView, adopt, hooks, overlap, unreadable, update};

/// Decides what to do for an owner of pods now.
pub fn decide<K: PodOwner>(snapshot: &Snapshot<K>, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let metadata = snapshot.view().workload.metadata;
    if metadata.deletion_timestamp.is_none() {
        fill(snapshot, &mut plan, now);
        plan.join_steps_by_object(hooks::takes_away);
        snapshot.phases.forget();
    }
    plan
}

fn fill<K: PodOwner>(snapshot: &Snapshot<K>, plan: &mut Plan, now: Timestamp) {
    let view = snapshot.view();
    blocked::watch(&view, plan, now);
    K::watch(snapshot, plan, now);
    overlap::tell(&view.workload, &snapshot.overlapping, plan);
    if let Some(refusal) = unreadable::refusal(&view) {
        bring_to_end(&snapshot.readable(), plan, now);
        return view.refuse(plan, refusal);
    }
    // As a tree a template may take a hundred times its text, so that it is parsed once per
    // decision and then dropped.
    let template = view.workload.template.value();
    let places = K::places(snapshot, &template);
    let settings = match K::settings(snapshot, &template, &places) {
        Ok(settings) => settings,
        Err(refusal) => {
            bring_to_end(snapshot, plan, now);
            return view.refuse(plan, refusal);
        }
    };
    match revisions(snapshot, &template, plan, now) {
        Ok((revisions, renumber)) => {
            plan.add_stage("revision", renumber.into_iter().collect());
            let chosen = (settings, places);
            K::roll_out(snapshot, &template, chosen, revisions, plan, now);
        }
        Err(stages) => {
            bring_to_end(snapshot, plan, now);
            if let Some(step) = stages.last().and_then(|stage| stage.steps.first()) {
                plan.wait(format!("waits for its revision: {}", step.reason));
            }
            plan.stages.extend(stages);
            K::await_revision(snapshot, &settings, plan, now);
        }
    }
}

fn revisions<K: PodOwner>(
    snapshot: &Snapshot<K>,
    template: &Value,
    plan: &mut Plan,
    now: Timestamp,
) -> Result<(Revisions, Option<Step>), Vec<Stage>> {
    let adopted = adopt::revisions(&snapshot.view().workload, &snapshot.orphans.revisions);
    if adopted.is_empty() {
        K::revisions(snapshot, template, plan, now)
    } else {
        Err(adopted)
    }
}

/// Brings updates that are under way to their end and begins none.
fn bring_to_end<K: PodOwner>(snapshot: &Snapshot<K>, plan: &mut Plan, now: Timestamp) {
    let (view, pods) = (snapshot.view(), &snapshot.pods);
    proceed(&view, None, &Uids::new(), pods, plan, now);
}

/// Continues the updates and hooks of pods by one step, and lets waiting containers start.
pub fn proceed(
    view: &WorkloadView<'_>,
    chosen: Option<&Chosen>,
    returning: &Uids,
    pods: &[Arc<Pod>],
    plan: &mut Plan,
    now: Timestamp,
) {
    update::settle(view, chosen, plan, now);
    hooks::proceed(view, chosen, returning, pods, plan, now);
    launch::release(pods, plan);
}
