//! Decides about a SidecarSet.

mod patch;
mod reported;

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_api::v1beta1::sidecarset::{PatchPolicy, SidecarSet, SidecarSetPatchPodMetadata};
use berth_workload::objects::pod::Pod;
use berth_workload::objects::resource::SIDECAR_SETS;
use berth_workload::plan::{Action, Event, Plan, PodPatch, Refusal, Step, Target};
use berth_workload::update::inplace::sidecars;
use berth_workload::update::inplace::state::State;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::Hashes;
use super::history::revisions;
use super::names::{HASH, HASH_WITHOUT_IMAGE};
use super::repair::{self, Turn};
use super::status::condition;
use super::update::choose::{choose, held};
use super::update::pods::{Member, members};
use super::update::settings::Settings;
use super::update::stages::{END_OF_HOT_UPGRADE, REPAIR, UPDATE};
use super::update::{ahead, hot};
use super::{Snapshot, status};

use patch::{key, note_state, step, update, write_state};
use reported::{tell, waiting};

/// Decides.
pub fn decide(snapshot: &Snapshot, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    if snapshot.set.metadata.deletion_timestamp.is_some() {
        return plan;
    }
    let history = revisions::keep(snapshot, &mut plan);
    let members = members(snapshot);
    finish(snapshot, &members, &mut plan, now);
    note_proofs(snapshot, &members, &mut plan);
    note_own_hashes(snapshot, &mut plan);
    let settings = match Settings::new(
        snapshot,
        &members,
        repair::reserved(snapshot, &members, now),
        now,
    ) {
        Ok(settings) => settings,
        Err(message) => {
            let message = format!("SidecarSet {}: {message}", snapshot.name());
            let reason = "InvalidSpec";
            plan.refuse(Refusal { reason, message }, false);
            return plan;
        }
    };
    let chosen = choose(&settings, &members, |member| {
        let (why, left) = held(snapshot, &history.latest, member, now)?;
        plan.look_again_after(left);
        Some(why)
    });
    chosen
        .ends_after
        .iter()
        .for_each(|left| plan.look_again_after(*left));
    let written: BTreeSet<_> = plan.actions().map(target).collect();
    let is_unwritten = |member: &&&Member<'_>| !written.contains(&Some(uid(member)));
    let (now_read, unread): (Vec<&Member<'_>>, Vec<_>) = chosen
        .now
        .iter()
        .filter(is_unwritten)
        .copied()
        .partition(|member| is_read(snapshot, member));
    if !unread.is_empty() {
        plan.look_again_after(READ_AGAIN);
    }
    let steps = now_read
        .iter()
        .map(|member| update(snapshot, member, &history.latest, now));
    plan.add_stage(UPDATE, steps.collect());
    ahead::plan(snapshot, &history.latest, &settings, &members, &mut plan);
    let turn = repair::turn(snapshot, &members, (&settings, chosen.unavailable), now);
    repair(snapshot, &turn, &mut plan);
    repair::next_try(&settings.lost, now)
        .iter()
        .for_each(|left| plan.look_again_after(*left));
    tell(snapshot, &members, (&settings, &chosen), (&mut plan, now));
    note_upgradable(snapshot, &members, &mut plan, now);
    drop_unreadable(snapshot, &mut plan);
    plan
}

/// Drops patches of pods that the controller cannot read. They carry the version of an earlier
/// state, so the apiserver would refuse them with a conflict.
fn drop_unreadable(snapshot: &Snapshot, plan: &mut Plan) {
    let is_read = |step: &Step| {
        let mut targets = step.actions.iter().filter_map(target);
        !targets.any(|uid| snapshot.unreadable.contains_key(&*uid))
    };
    plan.stages
        .iter_mut()
        .for_each(|stage| stage.steps.retain(is_read));
    plan.stages.retain(|stage| !stage.steps.is_empty());
}

/// The time until the next round reads the annotations of pods that this round did not read.
const READ_AGAIN: SignedDuration = SignedDuration::from_millis(200);
/// The most pods whose annotations are read in one round.
const MOST_READ: usize = 32;

fn uid(member: &Member<'_>) -> String {
    member.pod.metadata.uid.to_string()
}

/// The uid of the pod that an action writes.
fn target(action: &Action) -> Option<String> {
    match action {
        Action::PatchPod { target, .. }
        | Action::PatchPodStatus { target, .. }
        | Action::EvictPod { target } => Some(target.uid.clone()),
        _ => None,
    }
}

/// Whether the new annotations of a pod depend on its old ones, because they are merged, or are
/// written only where they are missing.
pub fn keeps_annotations(set: &SidecarSet) -> bool {
    let keeps = |patch: &SidecarSetPatchPodMetadata| patch.patch_policy != PatchPolicy::Overwrite;
    set.spec.patch_pod_metadata.iter().any(keeps)
}

fn reads_annotations(snapshot: &Snapshot) -> bool {
    keeps_annotations(&snapshot.set) && !snapshot.allowed.is_empty()
}

/// Whether the snapshot has all that an update of the pod needs. Without the pod's old annotations,
/// the update would replace values that it must keep or merge.
fn is_read(snapshot: &Snapshot, member: &Member<'_>) -> bool {
    !reads_annotations(snapshot) || snapshot.annotations.contains_key(&member.pod.metadata.uid)
}

/// Writes the SidecarSet's own hashes into its annotations, so that other programs can compare pods
/// with them.
fn note_own_hashes(snapshot: &Snapshot, plan: &mut Plan) {
    let Hashes {
        hash,
        without_image,
    } = &snapshot.hashes;
    let own = snapshot.set.metadata.annotations.as_ref();
    let says = |key: &str, wanted: &String| own.and_then(|own| own.get(key)) == Some(wanted);
    if says(HASH, hash) && says(HASH_WITHOUT_IMAGE, without_image) {
        return;
    }
    let patch =
        json!({"metadata": {"annotations": {HASH: hash, HASH_WITHOUT_IMAGE: without_image}}});
    let target = Target::from(&snapshot.set.metadata);
    let action = Action::Patch {
        resource: SIDECAR_SETS,
        target,
        patch,
    };
    plan.add_stage(
        "hashes",
        vec![Step::new(
            action,
            "its containers have other hashes".to_owned(),
        )],
    );
}

/// The pods that are updated next and whose annotations the controller must read before, because an
/// update merges annotations into them, or writes only those that a pod lacks. Few of a pod's many
/// annotations are kept in memory. The choice is the same as the decision's: otherwise the
/// controller would read pods that wait for an image, and never the pods that are updated in their
/// place.
pub fn annotations_to_read(snapshot: &Snapshot, now: Timestamp) -> Vec<Arc<Pod>> {
    if !reads_annotations(snapshot) {
        return Vec::new();
    }
    let members = members(snapshot);
    let Ok(settings) = Settings::new(
        snapshot,
        &members,
        repair::reserved(snapshot, &members, now),
        now,
    ) else {
        return Vec::new();
    };
    let latest = revisions::History::of(snapshot).latest;
    let held = |member: &Member<'_>| held(snapshot, &latest, member, now).map(|(why, _)| why);
    choose(&settings, &members, held)
        .now
        .iter()
        .take(MOST_READ)
        .map(|member| member.pod.clone())
        .collect()
}

/// Records proofs that only the node could give, because the controller does not ask the node for
/// ever.
fn note_proofs(snapshot: &Snapshot, members: &[Member<'_>], plan: &mut Plan) {
    let settled = members
        .iter()
        .filter(|member| member.is_updated && member.upgrading.is_empty());
    let steps = settled.filter_map(|member| {
        let state = State {
            verified_by: "node".to_owned(),
            ..member.proven_by_node.clone()?
        };
        let mut patch = PodPatch::default();
        write_state(snapshot, member.pod, &state, &mut patch);
        Some(step(
            member.pod,
            patch,
            format!("the node has proven the update of pod {}", key(member.pod)),
        ))
    });
    plan.add_stage("proofs", steps.collect());
}

/// Gives the old container of a hot upgrade the empty image once the new one works, regardless of
/// the present spec: otherwise two containers do the same work. If the spec wants the old
/// container's image back, the step does not wait for the pod's other containers.
fn finish(snapshot: &Snapshot, members: &[Member<'_>], plan: &mut Plan, now: Timestamp) {
    let mut steps = Vec::new();
    for member in members.iter().filter(|member| !member.upgrading.is_empty()) {
        let pod = member.pod;
        let pairs = if member.unproven.is_none() && hot::may_reset(&member.upgrading, pod) {
            member.upgrading.clone()
        } else {
            hot::wanted_back(&snapshot.set.spec, pod, &member.handed_over)
        };
        if pairs.is_empty() {
            let why = member
                .unproven
                .clone()
                .unwrap_or_else(|| "not all of its other containers are ready".to_owned());
            plan.waiting.push(waiting(
                pod,
                &format!("its old container works until the new one does: {why}"),
            ));
            continue;
        }
        let mut patch = hot::reset(&pairs);
        note_state(snapshot, member, &mut patch, now);
        let names: Vec<_> = pairs.iter().map(|pair| pair.empty.as_str()).collect();
        let reason = format!(
            "the new container works: {} of pod {} gets the empty image",
            names.join(", "),
            key(pod)
        );
        steps.push(step(pod, patch, reason));
    }
    plan.add_stage(END_OF_HOT_UPGRADE, steps);
}

/// Replaces the pod whose turn it is, and says in the plan why repair waits.
fn repair(snapshot: &Snapshot, turn: &Turn<'_>, plan: &mut Plan) {
    match turn {
        Turn::Replaces(pod, lack, how) => {
            let is_written = plan
                .actions()
                .any(|action| target(action).as_deref() == Some(&*pod.metadata.uid));
            if !is_written {
                plan.add_stage(REPAIR, vec![repair::step(pod, *lack, *how)]);
            }
        }
        Turn::Soon(wait) => {
            plan.wait(
                "repair: another pod is next, when none of its workload was just created"
                    .to_owned(),
            );
            plan.look_again_after(*wait);
        }
        Turn::Begins(pod, _) => plan.wait(format!("repair: pod {} is replaced next", key(pod))),
        Turn::Waits(why) => {
            plan.wait(format!("repair: {why}"));
            if repair::was_refused(snapshot) {
                plan.look_again_after(repair::REFUSED);
            }
        }
        Turn::UnderWay(what, ends_after) => {
            plan.wait(format!("repair: {what}"));
            ends_after
                .iter()
                .for_each(|left| plan.look_again_after(*left));
        }
        Turn::Missing(what, _, left) => {
            plan.wait(format!("repair: {what}"));
            plan.look_again_after(*left);
        }
        Turn::Lost(what) => {
            plan.wait(format!("repair: {what}"));
            plan.events
                .push(Event::warning("NoSuccessor", what.clone()));
        }
        Turn::Fruitless(why) => {
            plan.wait(format!("repair: {why}"));
            plan.look_again_after(repair::REFUSED);
        }
        Turn::Stops(why) => {
            plan.wait(format!("repair: {why}"));
            plan.events
                .push(Event::warning("RepairStopped", why.clone()));
        }
        Turn::Stopped(why) => {
            plan.wait(format!("repair has stopped: {why}"));
            if !status::has_stopped(snapshot) {
                plan.events
                    .push(Event::warning("RepairStopped", why.clone()));
            }
        }
        Turn::Off | Turn::Idle(..) | Turn::Over => {}
    }
}

/// Says in the conditions of pods whether they can be updated in place.
fn note_upgradable(snapshot: &Snapshot, members: &[Member<'_>], plan: &mut Plan, now: Timestamp) {
    let set = snapshot.name();
    // A pod that this round writes in another way gets its condition in the next round.
    let written: BTreeSet<_> = plan.actions().map(target).collect();
    let uids = members
        .iter()
        .map(|member| &*member.pod.metadata.uid)
        .collect();
    condition::forget_strangers(snapshot, &uids, &written, (plan, now));
    let rest = members
        .iter()
        .filter(|member| !written.contains(&Some(uid(member))));
    let upgradable = rest.map(|member| (member, member.is_updated || member.is_upgradable));
    // The condition says that a pod can be updated only if it said the opposite before, or after
    // the pod's first update. Nothing reads the condition of a pod that was just created. If the
    // SidecarSet updates no pods, only conditions that are no longer true change.
    let updates = snapshot.updates();
    let is_to_report = |member: &Member<'_>| {
        condition::says(member.pod, set) == Some(false)
            || (updates && member.is_updated && sidecars::state(member.pod, set).is_some())
    };
    let steps: Vec<_> = upgradable
        .filter(|(member, can)| if *can { is_to_report(member) } else { updates })
        .filter_map(|(member, can)| Some((can, condition::step(member.pod, set, can, now)?)))
        .collect();
    let new = steps.iter().filter(|(can, _)| !can).count();
    if new > 0 {
        let message = format!("{new} pods differ in more than images and are not updated in place");
        plan.events
            .push(Event::normal("NotUpgradablePods", message));
    }
    plan.add_stage(
        "conditions of pods",
        steps.into_iter().map(|(_, step)| step).collect(),
    );
}
