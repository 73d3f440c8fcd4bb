//! What to do next for a SidecarSet.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_api::v1beta1::sidecarset::{PatchPolicy, SidecarSet, SidecarSetPatchPodMetadata};
use berth_workload::objects::pod::Pod;
use berth_workload::objects::resource::SIDECAR_SETS;
use berth_workload::plan::{Action, Event, Plan, PodPatch, Refusal, Step, Target, Waiting};
use berth_workload::update::inplace::sidecars;
use berth_workload::update::inplace::state::State;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::Hashes;
use super::history::revisions;
use super::inject::metadata;
use super::inject::replaced;
use super::names::{HASH, HASH_WITHOUT_IMAGE, INJECTED_LIST, INPLACE_UPDATE_STATE};
use super::on_pod::{image, images_in, in_pod};
use super::records::{self, Record, second};
use super::repair::audit::lacking;
use super::repair::drift;
use super::repair::{self, Turn};
use super::sidecar::name;
use super::status::{blocked, condition, reach};
use super::update::choose::{Chosen, choose, held};
use super::update::pods::{Member, members};
use super::update::settings::Settings;
use super::update::stages::{END_OF_HOT_UPGRADE, REPAIR, UPDATE};
use super::update::{ahead, hot};
use super::{Snapshot, sidecar, status};

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
            plan.refuse(
                Refusal {
                    reason: "InvalidSpec",
                    message,
                },
                false,
            );
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
    // A patch of a pod that cannot be read has the version of an earlier state: it is a conflict.
    let is_read = |step: &Step| {
        !step
            .actions
            .iter()
            .filter_map(target)
            .any(|uid| snapshot.unreadable.contains_key(&*uid))
    };
    plan.stages
        .iter_mut()
        .for_each(|stage| stage.steps.retain(is_read));
    plan.stages.retain(|stage| !stage.steps.is_empty());
    plan
}

/// Until pods are looked at whose annotations were not read.
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

/// Does what becomes of a pod's annotations follow from what they were? They are merged, or put where there are none.
pub fn keeps_annotations(set: &SidecarSet) -> bool {
    let keeps = |patch: &SidecarSetPatchPodMetadata| patch.patch_policy != PatchPolicy::Overwrite;
    set.spec.patch_pod_metadata.iter().any(keeps)
}

fn reads_annotations(snapshot: &Snapshot) -> bool {
    keeps_annotations(&snapshot.set) && !snapshot.allowed.is_empty()
}

/// Is all known that an update of the pod needs? What is kept or merged with would be replaced if nobody had read it.
fn is_read(snapshot: &Snapshot, member: &Member<'_>) -> bool {
    !reads_annotations(snapshot) || snapshot.annotations.contains_key(&member.pod.metadata.uid)
}

/// The SidecarSet says its own hashes, for whoever compares pods with it.
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

/// The pods that are updated next and whose annotations are to be read before, for others are merged into them, or are only for pods
/// that lack them. Of a pod's many annotations few are kept in memory. They are chosen as the decision chooses them: who waits there
/// for an image is read in vain, and whoever goes in its place would never be.
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

/// What only the node could tell is noted, for it is not asked for ever.
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

/// The old container of a hot upgrade becomes the empty one, once the new one works, whatever the spec says by now: two that work
/// are one too many. Where the spec wants back what the old one has, it does not wait for the pod's other containers.
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

/// Gives the pod's containers their new images.
fn update(snapshot: &Snapshot, member: &Member<'_>, latest: &str, now: Timestamp) -> Step {
    let (set, pod) = (&snapshot.set, member.pod);
    let version = set.metadata.resource_version.as_deref().unwrap_or("0");
    let mut patch = hot::begin(&set.spec, pod, version, &member.handed_over);
    // Init containers that end have ended: of their new images the records alone tell.
    for (container, list) in
        sidecar::lasting(&set.spec).filter(|(container, list)| !sidecar::is_hot(container, *list))
    {
        let has = in_pod(pod, name(container), list);
        if has.is_some_and(|has| &*has.image != image(container)) {
            images_in(&mut patch, list)
                .insert(name(container).to_owned(), image(container).to_owned());
        }
    }
    note_state(snapshot, member, &mut patch, now);
    note_hashes(snapshot, pod, latest, &mut patch, now);
    patch_metadata(snapshot, pod, &mut patch);
    let images: Vec<_> = patch
        .all_images()
        .map(|(container, image)| format!("{container} {image}"))
        .collect();
    let what = if images.is_empty() {
        "no image".to_owned()
    } else {
        images.join(", ")
    };
    step(
        pod,
        patch,
        format!("update pod {} in place: {what}", key(pod)),
    )
}

/// Annotations go along with images.
fn patch_metadata(snapshot: &Snapshot, pod: &Pod, patch: &mut PodPatch) {
    let has = snapshot.annotations.get(&pod.metadata.uid);
    for SidecarSetPatchPodMetadata {
        annotations,
        patch_policy,
    } in &snapshot.set.spec.patch_pod_metadata
    {
        for (key, wanted) in annotations {
            if metadata::is_ours(key) || !snapshot.allowed.contains(key) {
                continue;
            }
            let old = has.and_then(|has| has.get(key)).map(String::as_str);
            // What cannot be merged stays as it is: the image is worth more.
            if let Ok(Some(new)) = metadata::annotation(old, wanted, *patch_policy) {
                patch.annotations.insert(key.clone(), Some(new));
            }
        }
    }
}

fn step(pod: &Pod, patch: PodPatch, reason: String) -> Step {
    // Several write the shared annotations, so it is only done to the pod as it was seen.
    Step::new(
        Action::PatchPod {
            target: Target::as_seen(&pod.metadata),
            patch,
        },
        reason,
    )
}

/// What ran before, so that the new containers can be told from the old ones.
fn note_state(snapshot: &Snapshot, member: &Member<'_>, patch: &mut PodPatch, now: Timestamp) {
    if !patch.changes_images() {
        return;
    }
    let (pod, settled) = (member.pod, member.unproven.is_none());
    let old = sidecars::state(pod, snapshot.name()).unwrap_or_default();
    let changed = patch.all_images().map(|(container, _)| container);
    let mut state = State::begin(pod, &snapshot.hashes.hash, changed, settled, second(now));
    // A pod that an unfinished update took out of service was Ready before that update.
    let is_between = !settled || !member.upgrading.is_empty();
    state.was_ready = member.is_ready || (is_between && old.was_ready);
    // What is known of containers that do not change now stays true.
    for (container, before) in old.last_container_statuses {
        state
            .last_container_statuses
            .entry(container)
            .or_insert(before);
    }
    write_state(snapshot, pod, &state, patch);
}

/// Those of other SidecarSets stay.
fn write_state(snapshot: &Snapshot, pod: &Pod, state: &State, patch: &mut PodPatch) {
    let mut states = sidecars::written(pod);
    states.insert(snapshot.name().to_owned(), json!(state));
    // A map with string keys always serialises.
    let text = serde_json::to_string(&states).unwrap_or_default();
    patch
        .annotations
        .insert(INPLACE_UPDATE_STATE.to_owned(), Some(text));
}

/// Hash and revision in one record belong together.
fn note_hashes(snapshot: &Snapshot, pod: &Pod, latest: &str, patch: &mut PodPatch, now: Timestamp) {
    let set = snapshot.name();
    let names = sidecar::lasting_names(&snapshot.set.spec);
    let is_unlisted = pod
        .metadata
        .annotation(INJECTED_LIST)
        .is_none_or(str::is_empty);
    for (annotation, hash, revision) in [
        (HASH, &snapshot.hashes.hash, latest),
        (HASH_WITHOUT_IMAGE, &snapshot.hashes.without_image, ""),
    ] {
        let record = Record::new(set, (hash, revision), &names, &second(now).to_string());
        let (text, noted) = records::noted(pod.metadata.annotation(annotation), record);
        // Without a list the records say which SidecarSets the pod has, and beside one they do no more.
        if is_unlisted && annotation == HASH {
            let list = records::list(None, noted.iter().map(String::as_str));
            patch
                .annotations
                .insert(INJECTED_LIST.to_owned(), Some(list));
        }
        patch.annotations.insert(annotation.to_owned(), Some(text));
    }
}

/// Replaces the pod whose turn it is, and says what repair waits for.
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
            plan.events.push(Event {
                warning: true,
                reason: "NoSuccessor",
                message: what.clone(),
            });
        }
        Turn::Fruitless(why) => {
            plan.wait(format!("repair: {why}"));
            plan.look_again_after(repair::REFUSED);
        }
        Turn::Stops(why) => {
            plan.wait(format!("repair: {why}"));
            plan.events.push(Event {
                warning: true,
                reason: "RepairStopped",
                message: why.clone(),
            });
        }
        Turn::Stopped(why) => {
            plan.wait(format!("repair has stopped: {why}"));
            if !status::has_stopped(snapshot) {
                plan.events.push(Event {
                    warning: true,
                    reason: "RepairStopped",
                    message: why.clone(),
                });
            }
        }
        Turn::Off | Turn::Idle(..) | Turn::Over => {}
    }
}

/// Says what pods wait for, and what they lack.
fn tell(
    snapshot: &Snapshot,
    members: &[Member<'_>],
    (settings, chosen): (&Settings, &Chosen<'_>),
    (plan, now): (&mut Plan, Timestamp),
) {
    let left_out = reach::nowhere(snapshot)
        .map(|(_, message)| message)
        .or_else(|| reach::beside(snapshot));
    left_out
        .into_iter()
        .for_each(|left_out| plan.wait(left_out));
    for (member, why) in &chosen.later {
        plan.waiting.push(waiting(member.pod, why));
    }
    for member in members.iter().filter(|member| member.is_updated) {
        if let Some(why) = &member.unproven {
            plan.waiting.push(waiting(
                member.pod,
                &format!("its update is not proven yet: {why}"),
            ));
        }
    }
    for member in members {
        if let Some(failure) = &member.failing {
            plan.waiting.push(waiting(
                member.pod,
                &blocked::of_container(snapshot, failure),
            ));
        }
    }
    for (pod, lack) in lacking(snapshot, members, now) {
        repair::set_aside(snapshot, pod, now)
            .iter()
            .for_each(|(_, left)| plan.look_again_after(*left));
        plan.waiting.push(waiting(
            pod,
            &repair::prospect(snapshot, settings, pod, lack),
        ));
    }
    for (pod, why) in drift::drifted(snapshot) {
        plan.waiting.push(waiting(pod, &why));
    }
    for (pod, names) in replaced::replaced(snapshot) {
        plan.waiting.push(waiting(pod, &replaced::words(&names)));
    }
    plan.events.extend(replaced::event(snapshot));
    // Of pods that cannot be updated another event tells.
    if let Some((reason, message)) = blocked::of_spec_and_pods(snapshot, members, Ok(settings))
        && reason != blocked::NOT_UPGRADABLE
        && !status::is_blocked_by(snapshot, reason)
    {
        plan.events.push(Event {
            warning: true,
            reason,
            message,
        });
    }
}

/// Says in the conditions of pods whether they can be updated in place.
fn note_upgradable(snapshot: &Snapshot, members: &[Member<'_>], plan: &mut Plan, now: Timestamp) {
    let set = snapshot.name();
    // Of a pod that is written otherwise in this round it is said in the next.
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
    // That a pod can be updated is news where it could not, and once it was: of one that was just created nobody asks. Where pods are
    // not updated, only what is true no more is taken back.
    let updates = snapshot.updates();
    let is_told = |member: &Member<'_>| {
        condition::says(member.pod, set) == Some(false)
            || (updates && member.is_updated && sidecars::state(member.pod, set).is_some())
    };
    let steps: Vec<_> = upgradable
        .filter(|(member, can)| if *can { is_told(member) } else { updates })
        .filter_map(|(member, can)| Some((can, condition::step(member.pod, set, can, now)?)))
        .collect();
    let new = steps.iter().filter(|(can, _)| !can).count();
    if new > 0 {
        let message = format!("{new} pods differ in more than images and are not updated in place");
        plan.events.push(Event {
            warning: false,
            reason: "NotUpgradablePods",
            message,
        });
    }
    plan.add_stage(
        "conditions of pods",
        steps.into_iter().map(|(_, step)| step).collect(),
    );
}

fn key(pod: &Pod) -> String {
    format!("{}/{}", pod.metadata.namespace, pod.metadata.name)
}

fn waiting(pod: &Pod, reason: &str) -> Waiting {
    Waiting {
        pod: key(pod),
        reason: reason.to_owned(),
    }
}
