//! Bringing chosen pods to another revision, and every update under way to its end.

use berth_api::names::annotation::RESTARTED_AT;
use jiff::{SignedDuration, Timestamp};

use super::Scene;
use super::chosen::Chosen;
use super::hooks::{self, Turn};
use super::way::Way;
use crate::objects::pod::Pod;
use crate::objects::resource::PODS;
use crate::plan::{Action, Deed, Event, Plan, PodPatch, Step, Verb};
use crate::update::inplace::batches;
use crate::update::inplace::brief::Brief;
use crate::update::inplace::env;
use crate::update::inplace::exact::Verdict;
use crate::update::inplace::inherited;
use crate::update::inplace::state::State;
use crate::update::inplace::steps::{self, Next, Phase, Update};
use crate::update::revision::{self, REVISION_LABEL, Revision};
use crate::update::rollout::repair;

/// The most pods under way in place at once of which each has its gate opened before its proof. That is one write more for a
/// pod, and makes it Ready a second or two earlier: much where a few pods at a time are waited for, and little where
/// hundreds are.
pub const MOST_OPENED_EARLY: usize = 32;

/// Puts pods whose in-place update is proven back into service, and undoes what is not wanted any more: pods out of
/// service, their images unchanged, that are not among the chosen. Without a choice, all of those stay as they are.
pub fn settle(scene: &Scene<'_>, chosen: Option<&Chosen>, plan: &mut Plan, now: Timestamp) {
    let mut steps = Vec::new();
    let briefs: Vec<_> = scene
        .revisions
        .iter()
        .map(|revision| Brief::new(revision))
        .collect();
    let under_way = || {
        scene
            .pods
            .iter()
            .filter(|pod| pod.is_active() && steps::is_under_way(pod))
    };
    let opens_early = under_way().nth(MOST_OPENED_EARLY).is_none();
    for pod in under_way() {
        if chosen.is_some_and(|chosen| chosen.has(pod)) && !hooks::is_done_in_service(scene, pod) {
            continue;
        }
        let name = &pod.metadata.name;
        let label = pod.metadata.label(REVISION_LABEL).unwrap_or_default();
        let of_label = || {
            briefs
                .iter()
                .find(|brief| revision::same(label, brief.name()))
        };
        if inherited::is_in_grace(pod) {
            steps.extend(end_of_grace(of_label(), pod, plan, now));
            continue;
        }
        match &*scene.phase(pod) {
            Phase::Patched(state, Verdict::Exact { .. }) if batches::has_next(state) => {
                match batches::next(pod, state, of_label(), &scene.facts(pod), now) {
                    Ok(action) => steps.push(Step::new(
                        action,
                        format!(
                            "pod {name} goes on to {}: the next containers",
                            state.revision
                        ),
                    )),
                    Err(why) => plan.wait_for_pod(pod, why),
                }
            }
            Phase::Patched(state, verdict @ Verdict::Exact { .. }) => {
                if let Verdict::Exact { moved_tags, .. } = verdict
                    && !moved_tags.is_empty()
                {
                    plan.events.push(moved(pod, moved_tags));
                }
                let action = steps::finish(
                    pod,
                    Some(state),
                    Some(verdict),
                    hooks::after_update(scene, pod),
                    now,
                );
                let mut action = hooks::back_into_service(action, pod, now);
                env::report(&mut action, pod, state, &scene.facts(pod));
                steps.push(Step::new(
                    action,
                    format!(
                        "pod {name} runs exactly {}: back into service",
                        state.revision
                    ),
                ));
            }
            Phase::Patched(_, Verdict::Resize(missing)) => {
                let reason = format!(
                    "pod {name} has the record of its update, and its resources are still to be written"
                );
                steps.push(Step::new(steps::resize(pod, missing.clone()), reason));
            }
            Phase::Patched(state, Verdict::Wait(why)) => {
                steps.extend(before_proof(pod, state, opens_early, now));
                plan.wait_for_pod(pod, why.clone());
            }
            Phase::Patched(state, Verdict::AskNode(why)) => {
                steps.extend(before_proof(pod, state, opens_early, now));
                plan.wait_for_pod(pod, format!("{why}; its node's daemon is asked"));
            }
            Phase::Draining if chosen.is_some() => {
                let action = steps::finish(pod, None, None, hooks::after_update(scene, pod), now);
                let action = hooks::back_into_service(action, pod, now);
                steps.push(Step::new(
                    action,
                    format!("pod {name} need not be updated any more: back into service"),
                ));
            }
            Phase::Draining | Phase::Idle => {}
        }
    }
    plan.add_stage("back into service", steps);
}

/// What is done with the gate of a pod whose update is not proven yet, if anything.
fn before_proof(pod: &Pod, state: &State, opens_early: bool, now: Timestamp) -> Option<Step> {
    let (name, revision) = (&pod.metadata.name, &state.revision);
    if steps::is_ready_of_before(pod) {
        let reason = format!(
            "the kubelet of pod {name} repeats its Ready of before {revision}, which is taken back"
        );
        return Some(Step::new(steps::not_ready_again(pod, now), reason));
    }
    if let Some(container) = steps::ready_too_early(pod, state) {
        let reason = format!(
            "pod {name} is Ready, and its container {container} is still the one of before {revision}"
        );
        let done = Event {
            warning: true,
            reason: "ReadyWithOldContainer",
            message: format!("{reason}: out of service until it is replaced"),
        };
        return Some(Step {
            done: Some(done),
            ..Step::new(
                steps::close_again(pod, state, now),
                format!("{reason}: out of service"),
            )
        });
    }
    let opens = opens_early && steps::opens_early(pod, state);
    opens.then(|| {
        Step::new(
            steps::open_early(pod, now),
            format!(
                "the kubelet of pod {name} has seen {revision}: Ready comes with the new containers"
            ),
        )
    })
}

/// An update that OpenKruise began goes on when the grace period that it was given is over.
fn end_of_grace(
    revision: Option<&Brief<'_>>,
    pod: &Pod,
    plan: &mut Plan,
    now: Timestamp,
) -> Option<Step> {
    let rest = inherited::rest_of_grace(pod, now);
    if rest > SignedDuration::ZERO {
        plan.look_again_after(rest);
        let reason = format!(
            "is out of service, and is updated in {} s (gracePeriodSeconds)",
            rest.as_secs().saturating_add(1)
        );
        plan.wait_for_pod(pod, reason);
        return None;
    }
    let label = pod.metadata.label(REVISION_LABEL).unwrap_or_default();
    let action = inherited::end_of_grace(pod, revision, now);
    Some(Step::new(
        action,
        format!(
            "pod {} goes to {label} in place (the grace period is over, patched)",
            pod.metadata.name
        ),
    ))
}

/// Plans the updates of the chosen pods.
pub fn update(
    scene: &Scene<'_>,
    chosen: &Chosen,
    grace: SignedDuration,
    plan: &mut Plan,
    now: Timestamp,
) {
    let target = &*chosen.target;
    let brief = Brief::new(target);
    let (mut in_place, mut recreate) = (Vec::new(), Vec::new());
    for pod in &chosen.now {
        match (chosen.ways.of(pod), chosen.held.get(&pod.metadata.uid)) {
            (Way::InPlace(_), Some(held)) => {
                plan.wait_for_pod(pod, held.reason.clone());
                plan.look_again_after(held.left);
            }
            (Way::InPlace(patch), None) => match hooks::before_update(scene, pod, now) {
                Turn::Go => in_place.extend(advance(scene, grace, &brief, pod, patch, plan, now)),
                Turn::Hold(step) => in_place.push(step),
                Turn::Held => {}
            },
            (Way::Recreate(reason), _) => recreate.extend(replace(scene, pod, target, reason, now)),
            (Way::Waits(other), _) => {
                plan.wait_for_pod(
                    pod,
                    format!(
                        "is to be resized, and waits for pod {other}, which lacks its new resources"
                    ),
                );
            }
            (Way::Refused(refusal), _) if plan.refusal.is_none() => {
                scene.refuse(plan, refusal.clone())
            }
            (Way::Refused(_), _) => {}
        }
    }
    plan.add_stage("update in place", in_place);
    plan.add_stage("update by recreating", recreate);
    for pod in &chosen.later {
        let why = match &chosen.first {
            _ if chosen.repair.fails > 0 && repair::is_broken(pod) => {
                let fails = chosen.repair.fails;
                format!(
                    "is broken, and waits: {fails} pods of {} do not serve",
                    target.metadata.name
                )
            }
            None => "is to be updated, and waits for maxUnavailable".to_owned(),
            Some(first) if **first == *pod.metadata.name => {
                "is to be updated, and waits until it is available".to_owned()
            }
            Some(first) => format!("is to be updated, and waits for pod {first}"),
        };
        plan.wait_for_pod(pod, why);
    }
    for pod in chosen.staying.iter().filter(|_| !chosen.back) {
        plan.wait_for_pod(pod, format!("stays at its revision: {}", chosen.stay));
    }
}

fn advance(
    scene: &Scene<'_>,
    grace: SignedDuration,
    target: &Brief<'_>,
    pod: &Pod,
    patch: &PodPatch,
    plan: &mut Plan,
    now: Timestamp,
) -> Option<Step> {
    let phase = scene.phase(pod);
    let revision = target.name();
    let update = Update {
        revision: target,
        labels: scene.workload.labels,
        patch,
        grace,
        announce: scene.workload.hooks.in_place_update.is_some(),
    };
    match steps::advance(pod, &phase, &update, now) {
        Next::Wait(time) => {
            plan.look_again_after(time);
            plan.wait_for_pod(
                pod,
                format!(
                    "is out of service, and is updated in {} s (gracePeriodSeconds)",
                    time.as_secs().saturating_add(1)
                ),
            );
            None
        }
        Next::Write(mut actions) => {
            hooks::unless_held_by_now(scene, pod, &mut actions);
            let name = &pod.metadata.name;
            let has = |verb| {
                actions
                    .iter()
                    .any(|action| action.deed() == Deed::of(verb, PODS))
            };
            let (patched, leaves) = (has(Verb::Patch), has(Verb::PatchStatus));
            Some(Step {
                reason: format!(
                    "pod {name} goes to {revision} in place ({}{})",
                    what(&phase, patched, leaves),
                    restarted(patch, patched)
                ),
                done: patched.then(|| Event {
                    warning: false,
                    reason: "SuccessfulUpdatePodInPlace",
                    message: format!(
                        "successfully update pod {name} in-place(revision {revision})"
                    ),
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

/// The containers that the template has restarted, whatever else changes, in words.
fn restarted(patch: &PodPatch, patched: bool) -> String {
    if !patched || patch.restarted.is_empty() {
        return String::new();
    }
    let names: Vec<_> = patch.restarted.iter().map(String::as_str).collect();
    format!("; {RESTARTED_AT} restarts {}", names.join(", "))
}

fn replace(
    scene: &Scene<'_>,
    pod: &Pod,
    target: &Revision,
    reason: &str,
    now: Timestamp,
) -> Option<Step> {
    let revision = &target.metadata.name;
    let reason = format!("it cannot go to {revision} in place: {reason}");
    if hooks::holds_deletion(scene, pod) {
        return hooks::hold_deletion(scene, pod, &reason, true, now);
    }
    let mut step = delete(scene, pod, &reason);
    if scene.workload.tells_replacements {
        step.done = Some(Event {
            warning: false,
            reason: "SuccessfulUpdatePodReCreate",
            message: format!(
                "deleted pod {} for update(revision {revision})",
                pod.metadata.name
            ),
        });
    }
    Some(step)
}

/// The step that deletes a pod or has its hook told, if there is one now.
pub fn leave(scene: &Scene<'_>, pod: &Pod, reason: &str, now: Timestamp) -> Option<Step> {
    if hooks::holds_deletion(scene, pod) {
        return hooks::hold_deletion(scene, pod, reason, false, now);
    }
    Some(delete(scene, pod, reason))
}

/// The step that deletes a pod.
pub fn delete(scene: &Scene<'_>, pod: &Pod, reason: &str) -> Step {
    let name = &pod.metadata.name;
    Step {
        actions: vec![Action::DeletePod {
            target: hooks::target_of_deletion(scene, pod),
        }],
        reason: format!("pod {name}: {reason}"),
        done: Some(Event {
            warning: false,
            reason: "SuccessfulDelete",
            message: format!("succeed to delete pod {name}"),
        }),
        failed: Some(Event {
            warning: true,
            reason: "FailedDelete",
            message: format!("failed to delete pod {name}"),
        }),
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
