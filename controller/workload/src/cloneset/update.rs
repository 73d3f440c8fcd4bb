//! Bringing pods to another revision: which, and how.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::v1beta1::cloneset::CloneSetPodUpdateStrategyType as Policy;
use jiff::{SignedDuration, Timestamp};

use super::decide::{is_to_delete, push, refuse, step};
use super::hooks::{self, Turn};
use super::new_pod::revision_label;
use super::predownload::Holding;
use super::resized;
use super::revisions::Revisions;
use super::settings::Settings;
use super::{Snapshot, claim_hash};
use crate::inplace::batches;
use crate::inplace::brief::Brief;
use crate::inplace::change::{self, Change};
use crate::inplace::env;
use crate::inplace::exact::Verdict;
use crate::inplace::inherited;
use crate::inplace::state::State;
use crate::inplace::steps::{self, Next, Phase, Update};
use crate::lifecycle;
use crate::plan::{Action, Deed, Event, Plan, PodPatch, Refusal, Step, Verb, Waiting};
use crate::pod::{Pod, availability, order};
use crate::resource::PODS;
use crate::revision::{self, REVISION_LABEL, Revision};
use crate::rollout::{self, Candidate, Numbers, Repair, repair};

/// The pods to update, in order.
pub(super) struct Chosen {
    /// Where they are brought.
    target: Arc<Revision>,
    /// That is back to where they came from: the partition was raised.
    back: bool,
    /// Those whose turn it is.
    now: Vec<Arc<Pod>>,
    /// The uids of those that can get there.
    uids: BTreeSet<Box<str>>,
    /// How pods get there.
    ways: Ways,
    /// Those that wait for maxUnavailable.
    later: Vec<Arc<Pod>>,
    /// Their uids.
    uids_later: BTreeSet<Box<str>>,
    /// Why broken pods wait too, if they do.
    repair: Repair,
    /// Those inside the partition.
    staying: Vec<Arc<Pod>>,
}

impl Chosen {
    pub(super) fn has(&self, pod: &Pod) -> bool {
        self.uids.contains(&pod.metadata.uid)
    }

    /// Is the pod's update wanted, now or when the limits allow it?
    pub(super) fn waits(&self, pod: &Pod) -> bool {
        self.has(pod) || self.uids_later.contains(&pod.metadata.uid)
    }
}

/// Chooses the pods to update now, within the limits.
pub(super) fn choose(
    snapshot: &Snapshot,
    settings: &Settings,
    revisions: &Revisions,
    pods: &[Arc<Pod>],
    numbers: &Numbers,
    holding: &Holding<'_>,
    now: Timestamp,
) -> Chosen {
    let back = numbers.back;
    let candidates = pods
        .iter()
        .filter(|pod| revisions.is_updated(pod) == back && !is_to_delete(snapshot, pod))
        .filter(|pod| lifecycle::state(pod) != lifecycle::PREPARING_DELETE && !inherited::is_in_grace(pod))
        .cloned()
        .collect();
    let mut candidates = in_order(settings, candidates, pods);
    if !back {
        let turn = numbers.update.min(candidates.len());
        holding.sort_last(&mut candidates[..turn]);
    }
    let candidate = |pod: &Arc<Pod>| Candidate {
        available: availability(pod, settings.min_ready_seconds, now).is_available(),
        broken: repair::is_broken(pod),
        begun: is_begun(pod),
    };
    let admitted = rollout::admitted(numbers, candidates.iter().map(candidate));
    let mut later = candidates.split_off(admitted);
    let staying = later.split_off(later.len().min(numbers.update.saturating_sub(admitted)));
    let target = if back { &revisions.current } else { &revisions.updated }.clone();
    let ways = Ways::new(snapshot, settings, revisions, &target);
    // Those that cannot go on must not be left halfway.
    let goes = candidates.iter().filter(|pod| !matches!(ways.of(pod), Way::Refused(_)));
    let uids = goes.map(|pod| pod.metadata.uid.clone()).collect();
    let uids_later = later.iter().map(|pod| pod.metadata.uid.clone()).collect();
    Chosen { target, back, now: candidates, uids, ways, later, uids_later, repair: numbers.repair, staying }
}

/// The update has begun: also where so far only a hook was told of it.
fn is_begun(pod: &Pod) -> bool {
    steps::is_under_way(pod) || lifecycle::state(pod) == lifecycle::PREPARING_UPDATE
}

/// What has begun is finished first, and what is broken is repaired next; the spec says in which order the others come.
fn in_order(settings: &Settings, candidates: Vec<Arc<Pod>>, pods: &[Arc<Pod>]) -> Vec<Arc<Pod>> {
    let (mut begun, mut waiting): (Vec<_>, Vec<_>) = candidates.into_iter().partition(|pod| is_begun(pod));
    order::for_update(&mut begun);
    order::for_update(&mut waiting);
    let mut waiting = settings.order.arrange(waiting, pods);
    waiting.sort_by_key(|pod| !repair::is_broken(pod));
    begun.append(&mut waiting);
    begun
}

/// The most pods under way in place at once of which each has its gate opened before its proof. That is one write more for a
/// pod, and makes it Ready a second or two earlier: much where a few pods at a time are waited for, and little where
/// hundreds are.
pub(super) const MOST_OPENED_EARLY: usize = 32;

/// Puts pods whose in-place update is proven back into service, and undoes what is not wanted any more: pods out of
/// service, their images unchanged, that are not among the chosen. Without a choice, all of those stay as they are.
pub(super) fn settle(snapshot: &Snapshot, chosen: Option<&Chosen>, plan: &mut Plan, now: Timestamp) {
    let mut steps = Vec::new();
    let briefs: Vec<_> = snapshot.revisions.iter().map(|revision| Brief::new(revision)).collect();
    let under_way = || snapshot.pods.iter().filter(|pod| pod.is_active() && steps::is_under_way(pod));
    let opens_early = under_way().nth(MOST_OPENED_EARLY).is_none();
    for pod in under_way() {
        if chosen.is_some_and(|chosen| chosen.has(pod)) && !hooks::is_done_in_service(snapshot, pod) {
            continue;
        }
        let name = &pod.metadata.name;
        let label = pod.metadata.label(REVISION_LABEL).unwrap_or_default();
        let of_label = || briefs.iter().find(|brief| revision::same(label, brief.name()));
        if inherited::is_in_grace(pod) {
            steps.extend(end_of_grace(of_label(), pod, plan, now));
            continue;
        }
        let facts = snapshot.facts(pod);
        match steps::phase(pod, &facts) {
            Phase::Patched(state, Verdict::Exact { .. }) if batches::has_next(&state) => {
                match batches::next(pod, &state, of_label(), &facts, now) {
                    Ok(action) => steps
                        .push(step(action, format!("pod {name} goes on to {}: the next containers", state.revision))),
                    Err(why) => wait(plan, pod, why),
                }
            }
            Phase::Patched(state, verdict @ Verdict::Exact { .. }) => {
                if let Verdict::Exact { moved_tags, .. } = &verdict
                    && !moved_tags.is_empty()
                {
                    plan.events.push(moved(pod, moved_tags));
                }
                let action = steps::finish(pod, Some(&state), Some(&verdict), hooks::after_update(snapshot, pod), now);
                let mut action = hooks::back_into_service(action, pod, now);
                env::report(&mut action, pod, &state, &facts);
                steps.push(step(action, format!("pod {name} runs exactly {}: back into service", state.revision)));
            }
            Phase::Patched(_, Verdict::Resize(missing)) => {
                let reason =
                    format!("pod {name} has the record of its update, and its resources are still to be written");
                steps.push(step(steps::resize(pod, missing), reason));
            }
            Phase::Patched(state, Verdict::Wait(why)) => {
                steps.extend(before_proof(pod, &state, opens_early, now));
                wait(plan, pod, why);
            }
            Phase::Patched(state, Verdict::AskNode(why)) => {
                steps.extend(before_proof(pod, &state, opens_early, now));
                wait(plan, pod, format!("{why}; its node's daemon is asked"));
            }
            Phase::Draining if chosen.is_some() => {
                let action = steps::finish(pod, None, None, hooks::after_update(snapshot, pod), now);
                let action = hooks::back_into_service(action, pod, now);
                steps.push(step(action, format!("pod {name} need not be updated any more: back into service")));
            }
            Phase::Draining | Phase::Idle => {}
        }
    }
    push(plan, "back into service", steps);
    plan.events.extend(resized::untold(snapshot));
}

/// What is done with the gate of a pod whose update is not proven yet, if anything.
fn before_proof(pod: &Pod, state: &State, opens_early: bool, now: Timestamp) -> Option<Step> {
    let (name, revision) = (&pod.metadata.name, &state.revision);
    if let Some(container) = steps::ready_too_early(pod, state) {
        let reason =
            format!("pod {name} is Ready, and its container {container} is still the one of before {revision}");
        let done = Event {
            warning: true,
            reason: "ReadyWithOldContainer",
            message: format!("{reason}: out of service until it is replaced"),
        };
        return Some(Step {
            done: Some(done),
            ..step(steps::close_again(pod, state, now), format!("{reason}: out of service"))
        });
    }
    let opens = opens_early && steps::opens_early(pod, state);
    opens.then(|| {
        step(
            steps::open_early(pod, now),
            format!("the kubelet of pod {name} has seen {revision}: Ready comes with the new containers"),
        )
    })
}

/// An update that OpenKruise began goes on when the grace period that it was given is over.
fn end_of_grace(revision: Option<&Brief<'_>>, pod: &Pod, plan: &mut Plan, now: Timestamp) -> Option<Step> {
    let rest = inherited::rest_of_grace(pod, now);
    if rest > SignedDuration::ZERO {
        plan.look_again_after(rest);
        let reason =
            format!("is out of service, and is updated in {} s (gracePeriodSeconds)", rest.as_secs().saturating_add(1));
        wait(plan, pod, reason);
        return None;
    }
    let label = pod.metadata.label(REVISION_LABEL).unwrap_or_default();
    let action = inherited::end_of_grace(pod, revision, now);
    Some(step(
        action,
        format!("pod {} goes to {label} in place (the grace period is over, patched)", pod.metadata.name),
    ))
}

/// Plans the updates of the chosen pods.
pub(super) fn update(
    snapshot: &Snapshot,
    settings: &Settings,
    chosen: &Chosen,
    holding: &Holding<'_>,
    plan: &mut Plan,
    now: Timestamp,
) {
    let target = &*chosen.target;
    let brief = Brief::new(target);
    let (mut in_place, mut recreate) = (Vec::new(), Vec::new());
    for pod in &chosen.now {
        // What is on its way back needs no image that is pulled ahead.
        let held = if chosen.back { None } else { holding.of(pod) };
        match (chosen.ways.of(pod), held) {
            (Way::InPlace(_), Some(held)) => held.wait(pod, plan),
            (Way::InPlace(patch), None) => match hooks::before_update(snapshot, pod, now) {
                Turn::Go => in_place.extend(advance(snapshot, settings, &brief, pod, patch, plan, now)),
                Turn::Hold(step) => in_place.push(step),
                Turn::Held => {}
            },
            (Way::Recreate(reason), _) => recreate.extend(replace(snapshot, pod, target, reason, now)),
            (Way::Refused(refusal), _) if plan.refusal.is_none() => refuse(snapshot, plan, refusal.clone()),
            (Way::Refused(_), _) => {}
        }
    }
    push(plan, "update in place", in_place);
    push(plan, "update by recreating", recreate);
    for pod in &chosen.later {
        let why = if chosen.repair.fails > 0 && repair::is_broken(pod) {
            let fails = chosen.repair.fails;
            format!("is broken, and waits: {fails} pods of {} do not serve", target.metadata.name)
        } else {
            "is to be updated, and waits for maxUnavailable".to_owned()
        };
        wait(plan, pod, why);
    }
    for pod in chosen.staying.iter().filter(|_| !chosen.back) {
        let why = if settings.wanted.updates { "partition" } else { "paused, or OnDelete" };
        wait(plan, pod, format!("stays at its revision: {why}"));
    }
}

/// How a pod gets to the new revision.
enum Way<'a> {
    InPlace(&'a PodPatch),
    Recreate(&'a str),
    Refused(&'a Refusal),
}

/// The ways from each revision, computed once per revision and not per pod.
struct Ways {
    by_revision: BTreeMap<String, Result<Change, String>>,
    refusals: BTreeMap<String, Refusal>,
    policy: Policy,
}

impl Ways {
    fn new(snapshot: &Snapshot, settings: &Settings, revisions: &Revisions, target: &Revision) -> Self {
        let claims = claim_hash::Present::default();
        let mut ways = Self { by_revision: BTreeMap::new(), refusals: BTreeMap::new(), policy: settings.policy };
        let labels = snapshot.pods.iter().filter_map(|pod| pod.metadata.label(REVISION_LABEL));
        for label in labels {
            if ways.by_revision.contains_key(label) {
                continue;
            }
            let old = revision::of_label(label, &snapshot.revisions);
            let change = old.map(|old| {
                let recreate = claim_hash::recreates(snapshot, &claims, settings.policy, old, target);
                recreate.unwrap_or_else(|| between(snapshot, revisions, old, target))
            });
            let change = change.ok_or_else(|| format!("revision {label} is not in the history any more"));
            // A template that is only written in another way makes the same pod: its label is all that changes.
            if settings.policy == Policy::ReCreate
                && !matches!(&change, Ok(Change::InPlace(p)) if *p == PodPatch::default())
            {
                continue;
            }
            if settings.policy == Policy::InPlaceOnly
                && let Some(refusal) = refusal(snapshot, label, &change)
            {
                ways.refusals.insert(label.to_owned(), refusal);
            }
            ways.by_revision.insert(label.to_owned(), change);
        }
        if settings.policy == Policy::InPlaceOnly {
            let unlabelled = snapshot.pods.iter().find(|pod| pod.metadata.label(REVISION_LABEL).is_none());
            ways.refusals.extend(unlabelled.map(|pod| (String::new(), without_label(snapshot, pod))));
        }
        ways
    }

    fn of(&self, pod: &Pod) -> Way<'_> {
        let label = pod.metadata.label(REVISION_LABEL).unwrap_or_default();
        match (self.by_revision.get(label), self.refusals.get(label)) {
            (Some(Ok(Change::InPlace(patch))), _) => Way::InPlace(patch),
            (_, Some(refusal)) => Way::Refused(refusal),
            (Some(Ok(Change::Recreate { fields })), _) => Way::Recreate(fields.first().map_or("", String::as_str)),
            (Some(Err(reason)), _) => Way::Recreate(reason),
            (None, _) if self.policy == Policy::ReCreate => Way::Recreate("podUpdatePolicy is ReCreate"),
            (None, _) => Way::Recreate("it has no revision label"),
        }
    }
}

/// What differs between a pod's template and another. Most pods are of the target already: nothing is read for those.
fn between(snapshot: &Snapshot, revisions: &Revisions, old: &Revision, target: &Revision) -> Change {
    if old.metadata.name == target.metadata.name {
        return Change::InPlace(PodPatch::default());
    }
    let (old, new) = (revisions.template_of(old), revisions.template_of(target));
    env::gated(change::between(&old, &new, snapshot.resize), snapshot.gates)
}

/// What a pod was made from is not known.
fn without_label(snapshot: &Snapshot, pod: &Pod) -> Refusal {
    Refusal {
        reason: "InPlaceOnly",
        message: format!(
            "CloneSet {}: pod {} has no label {REVISION_LABEL}, so that nothing tells what differs from the template, and \
             podUpdatePolicy is InPlaceOnly; give the label back, delete the pod, or set podUpdatePolicy to InPlaceIfPossible",
            snapshot.name(),
            pod.metadata.name
        ),
    }
}

fn refusal(snapshot: &Snapshot, label: &str, change: &Result<Change, String>) -> Option<Refusal> {
    let problem = match change {
        Ok(Change::InPlace(_)) => return None,
        Ok(Change::Recreate { fields }) => format!("spec.{} changed", fields.join(", spec.")),
        Err(reason) => reason.clone(),
    };
    Some(Refusal {
        reason: "InPlaceOnly",
        message: format!(
            "CloneSet {}: pods of revision {label} cannot be updated in place: {problem}, and podUpdatePolicy is \
             InPlaceOnly; change images, labels and annotations only, or set podUpdatePolicy to InPlaceIfPossible",
            snapshot.name()
        ),
    })
}

fn advance(
    snapshot: &Snapshot,
    settings: &Settings,
    target: &Brief<'_>,
    pod: &Pod,
    patch: &PodPatch,
    plan: &mut Plan,
    now: Timestamp,
) -> Option<Step> {
    let phase = steps::phase(pod, &snapshot.facts(pod));
    let revision = target.name();
    let update = Update {
        revision: target,
        label: revision_label(snapshot.gates, revision),
        patch,
        grace: settings.grace,
        announce: hooks::in_place_update(snapshot).is_some(),
    };
    match steps::advance(pod, &phase, &update, now) {
        Next::Wait(time) => {
            plan.look_again_after(time);
            wait(
                plan,
                pod,
                format!(
                    "is out of service, and is updated in {} s (gracePeriodSeconds)",
                    time.as_secs().saturating_add(1)
                ),
            );
            None
        }
        Next::Write(mut actions) => {
            hooks::unless_held_by_now(snapshot, pod, &mut actions);
            let name = &pod.metadata.name;
            let has = |verb| actions.iter().any(|action| action.deed() == Deed::of(verb, PODS));
            let (patched, leaves) = (has(Verb::Patch), has(Verb::PatchStatus));
            Some(Step {
                reason: format!("pod {name} goes to {revision} in place ({})", what(&phase, patched, leaves)),
                done: patched.then(|| Event {
                    warning: false,
                    reason: "SuccessfulUpdatePodInPlace",
                    message: format!("successfully update pod {name} in-place(revision {revision})"),
                }),
                failed: Some(Event {
                    warning: true,
                    reason: "FailedUpdatePodInPlace",
                    message: format!("failed to update pod {name} in-place(revision {revision})"),
                }),
                actions,
            })
        }
    }
}

fn what(phase: &Phase, patched: bool, leaves: bool) -> &'static str {
    match (phase, patched) {
        (_, true) if !leaves && *phase == Phase::Idle => "patched",
        (Phase::Idle, false) => "out of service, for the grace period",
        (Phase::Idle, true) => "out of service, and patched",
        (Phase::Draining, _) => "the grace period is over, patched",
        (Phase::Patched(..), _) => "patched again before the update before was proven",
    }
}

fn replace(snapshot: &Snapshot, pod: &Pod, target: &Revision, reason: &str, now: Timestamp) -> Option<Step> {
    let revision = &target.metadata.name;
    let reason = format!("it cannot go to {revision} in place: {reason}");
    if hooks::holds_deletion(snapshot, pod) {
        return hooks::hold_deletion(snapshot, pod, &reason, true, now);
    }
    let mut step = delete(snapshot, pod, &reason);
    step.done = Some(Event {
        warning: false,
        reason: "SuccessfulUpdatePodReCreate",
        message: format!("deleted pod {} for update(revision {revision})", pod.metadata.name),
    });
    Some(step)
}

/// The step that deletes a pod.
pub(super) fn delete(snapshot: &Snapshot, pod: &Pod, reason: &str) -> Step {
    let name = &pod.metadata.name;
    Step {
        actions: vec![Action::DeletePod { target: hooks::target_of_deletion(snapshot, pod) }],
        reason: format!("pod {name}: {reason}"),
        done: Some(Event {
            warning: false,
            reason: "SuccessfulDelete",
            message: format!("succeed to delete pod {name}"),
        }),
        failed: Some(Event { warning: true, reason: "FailedDelete", message: format!("failed to delete pod {name}") }),
    }
}

fn moved(pod: &Pod, containers: &[String]) -> Event {
    let images: Vec<_> = containers
        .iter()
        .filter_map(|name| pod.spec.containers.iter().find(|c| *c.name == **name))
        .map(|c| format!("{} of container {}", c.image, c.name))
        .collect();
    Event {
        warning: true,
        reason: "ImageTagMoved",
        message: format!(
            "pod {} was updated, but {} names another image on node {} now than the one that runs: the tag moved",
            pod.metadata.name,
            images.join(", "),
            pod.spec.node_name
        ),
    }
}

fn wait(plan: &mut Plan, pod: &Pod, reason: String) {
    plan.waiting.push(Waiting { pod: pod.metadata.name.to_string(), reason });
}
