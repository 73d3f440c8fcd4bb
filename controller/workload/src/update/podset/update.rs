//! Updates chosen pods to another revision, and finishes every update under way.

mod settle;

use berth_api::names::annotation::RESTARTED_AT;
use jiff::{SignedDuration, Timestamp};

use super::WorkloadView;
use super::chosen::Chosen;
use super::hooks::{self, Turn};
use super::update_method::UpdateMethod;
use crate::objects::pod::Pod;
use crate::objects::resource::PODS;
use crate::plan::{Action, Event, Plan, PodPatch, Step, Verb, Write};
use crate::update::inplace::brief::Brief;
use crate::update::inplace::steps::{self, Next, Phase, Update};
use crate::update::revision::Revision;
use crate::update::rollout::repair;

pub use settle::{MOST_OPENED_EARLY, settle};

/// Plans the updates of the chosen pods.
pub fn update(
    view: &WorkloadView<'_>,
    chosen: &Chosen,
    grace: SignedDuration,
    plan: &mut Plan,
    now: Timestamp,
) {
    let target = &*chosen.target;
    let brief = Brief::new(target);
    let (mut in_place, mut recreate) = (Vec::new(), Vec::new());
    for pod in &chosen.now {
        match (chosen.methods.of(pod), chosen.held.get(&pod.metadata.uid)) {
            (UpdateMethod::InPlace(_), Some(held)) => {
                plan.wait_for_pod(pod, held.reason.clone());
                plan.look_again_after(held.left);
            }
            (UpdateMethod::InPlace(patch), None) => match hooks::before_update(view, pod, now) {
                Turn::Go => in_place.extend(advance(view, grace, &brief, pod, patch, plan, now)),
                Turn::Hold(step) => in_place.push(step),
                Turn::Held => {}
            },
            (UpdateMethod::Recreate(reason), _) => {
                recreate.extend(replace(view, pod, target, reason, now))
            }
            (UpdateMethod::Waits(other), _) => {
                plan.wait_for_pod(
                    pod,
                    format!(
                        "is to be resized, and waits for pod {other}, which lacks its new resources"
                    ),
                );
            }
            (UpdateMethod::Refused(refusal), _) if plan.refusal.is_none() => {
                view.refuse(plan, refusal.clone())
            }
            (UpdateMethod::Refused(_), _) => {}
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
    view: &WorkloadView<'_>,
    grace: SignedDuration,
    target: &Brief<'_>,
    pod: &Pod,
    patch: &PodPatch,
    plan: &mut Plan,
    now: Timestamp,
) -> Option<Step> {
    let phase = view.phase(pod);
    let revision = target.name();
    let update = Update {
        revision: target,
        labels: view.workload.labels,
        patch,
        grace,
        announce: view.workload.hooks.in_place_update.is_some(),
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
            hooks::unless_held_by_now(view, pod, &mut actions);
            let name = &pod.metadata.name;
            let has = |verb| {
                actions
                    .iter()
                    .any(|action| action.write() == Write::of(verb, PODS))
            };
            let (patched, leaves) = (has(Verb::Patch), has(Verb::PatchStatus));
            Some(Step {
                reason: format!(
                    "pod {name} goes to {revision} in place ({}{})",
                    what(&phase, patched, leaves),
                    restarted(patch, patched)
                ),
                done: patched.then(|| {
                    Event::normal(
                        "SuccessfulUpdatePodInPlace",
                        format!("successfully update pod {name} in-place(revision {revision})"),
                    )
                }),
                failed: Some(Event::warning(
                    "FailedUpdatePodInPlace",
                    format!("failed to update pod {name} in-place(revision {revision})"),
                )),
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

/// A message about the containers that the template restarts in addition to other changes.
fn restarted(patch: &PodPatch, patched: bool) -> String {
    if !patched || patch.restarted.is_empty() {
        return String::new();
    }
    let names: Vec<_> = patch.restarted.iter().map(String::as_str).collect();
    format!("; {RESTARTED_AT} restarts {}", names.join(", "))
}

fn replace(
    view: &WorkloadView<'_>,
    pod: &Pod,
    target: &Revision,
    reason: &str,
    now: Timestamp,
) -> Option<Step> {
    let revision = &target.metadata.name;
    let reason = format!("it cannot go to {revision} in place: {reason}");
    if hooks::holds_deletion(view, pod) {
        return hooks::hold_deletion(view, pod, &reason, true, now);
    }
    let mut step = delete(view, pod, &reason);
    if view.workload.tells_replacements {
        step.done = Some(Event::normal(
            "SuccessfulUpdatePodReCreate",
            format!(
                "deleted pod {} for update(revision {revision})",
                pod.metadata.name
            ),
        ));
    }
    Some(step)
}

/// The step that deletes a pod or brings it into the state in which its hook holds it, if there is
/// one now.
pub fn leave(view: &WorkloadView<'_>, pod: &Pod, reason: &str, now: Timestamp) -> Option<Step> {
    if hooks::holds_deletion(view, pod) {
        return hooks::hold_deletion(view, pod, reason, false, now);
    }
    Some(delete(view, pod, reason))
}

/// The step that deletes a pod.
pub fn delete(view: &WorkloadView<'_>, pod: &Pod, reason: &str) -> Step {
    let name = &pod.metadata.name;
    Step {
        actions: vec![Action::DeletePod {
            target: hooks::target_of_deletion(view, pod),
        }],
        reason: format!("pod {name}: {reason}"),
        done: Some(Event::normal(
            "SuccessfulDelete",
            format!("succeed to delete pod {name}"),
        )),
        failed: Some(Event::warning(
            "FailedDelete",
            format!("failed to delete pod {name}"),
        )),
    }
}
