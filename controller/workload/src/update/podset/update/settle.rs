//! The end of in-place updates: pods whose update is proven, and updates that are no longer wanted.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::objects::pod::Pod;
use crate::plan::{Event, Plan, Step};
use crate::update::inplace::brief::Brief;
use crate::update::inplace::exact::UpdateDecision;
use crate::update::inplace::state::State;
use crate::update::inplace::steps::{self, Phase};
use crate::update::inplace::{batches, env, inherited};
use crate::update::podset::chosen::Chosen;
use crate::update::podset::{WorkloadView, hooks};
use crate::update::revision::{self, REVISION_LABEL};

/// The most pods under way with which the controller opens readiness gates early, before the proof
/// of the update. An early opening costs one more write for each pod, and makes the pod Ready a
/// second or two earlier. With hundreds of pods under way the rollout gains little by it.
pub const MOST_OPENED_EARLY: usize = 32;

/// Adds the next step of each in-place update under way. Chosen pods are left out, because other
/// code updates them, unless they serve already with a proven update. A pod with a proven update
/// goes back into service. So does a pod that was taken out of service, is still unchanged, and is
/// not chosen any more. If `chosen` is `None`, an unchanged pod stays out of service.
pub fn settle(view: &WorkloadView<'_>, chosen: Option<&Chosen>, plan: &mut Plan, now: Timestamp) {
    let mut steps = Vec::new();
    let revisions = view.revisions.iter();
    let briefs: Vec<_> = revisions.map(|revision| Brief::new(revision)).collect();
    let is_under_way = |pod: &&Arc<Pod>| pod.is_active() && steps::is_under_way(pod);
    let under_way = || view.pods.iter().filter(is_under_way);
    let opens_early = under_way().nth(MOST_OPENED_EARLY).is_none();
    for pod in under_way() {
        if chosen.is_some_and(|chosen| chosen.has(pod)) && !hooks::is_done_in_service(view, pod) {
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
        match &*view.phase(pod) {
            Phase::Patched(state, UpdateDecision::Proven { .. }) if batches::has_next(state) => {
                match batches::next(pod, state, of_label(), &view.facts(pod), now) {
                    Ok(action) => {
                        let revision = &state.revision;
                        let reason =
                            format!("pod {name} goes on to {revision}: the next containers");
                        steps.push(Step::new(action, reason));
                    }
                    Err(why) => plan.wait_for_pod(pod, why),
                }
            }
            Phase::Patched(state, decision @ UpdateDecision::Proven { moved_tags, .. }) => {
                if !moved_tags.is_empty() {
                    plan.events.push(tag_moved_event(pod, moved_tags));
                }
                steps.push(finish(view, pod, state, decision, now));
            }
            Phase::Patched(_, UpdateDecision::Resize(missing)) => {
                let reason = format!(
                    "pod {name} has the record of its update, and its resources are still to be written"
                );
                steps.push(Step::new(steps::resize(pod, missing.clone()), reason));
            }
            Phase::Patched(state, UpdateDecision::Wait(why)) => {
                steps.extend(before_proof(pod, state, opens_early, now));
                plan.wait_for_pod(pod, why.clone());
            }
            Phase::Patched(state, UpdateDecision::NeedsDaemon(why)) => {
                steps.extend(before_proof(pod, state, opens_early, now));
                plan.wait_for_pod(pod, format!("{why}; the daemon has yet to check"));
            }
            Phase::Draining if chosen.is_some() => steps.push(undo(view, pod, now)),
            Phase::Draining | Phase::Idle => {}
        }
    }
    plan.add_stage("back into service", steps);
}

/// Puts a pod whose update is proven back into service.
fn finish(
    view: &WorkloadView<'_>,
    pod: &Pod,
    state: &State,
    exact: &UpdateDecision,
    now: Timestamp,
) -> Step {
    let to = hooks::after_update(view, pod);
    let action = steps::finish(pod, Some(state), Some(exact), to, now);
    let mut action = hooks::back_into_service(action, pod, now);
    env::report(&mut action, pod, state, &view.facts(pod));
    let (name, revision) = (&pod.metadata.name, &state.revision);
    Step::new(
        action,
        format!("pod {name} runs exactly {revision}: back into service"),
    )
}

/// Puts a pod whose update is no longer needed back into service.
fn undo(view: &WorkloadView<'_>, pod: &Pod, now: Timestamp) -> Step {
    let action = steps::finish(pod, None, None, hooks::after_update(view, pod), now);
    let name = &pod.metadata.name;
    Step::new(
        hooks::back_into_service(action, pod, now),
        format!("pod {name} need not be updated any more: back into service"),
    )
}

/// The step that corrects the readiness of a pod whose update is not proven yet, if one is needed.
/// The step revokes a Ready of before the update, closes the gate if an old container still runs,
/// or opens the gate early.
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
        let done = Event::warning(
            "ReadyWithOldContainer",
            format!("{reason}: out of service until it is replaced"),
        );
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

/// The step for a pod in a grace period that OpenKruise began: it writes the remaining changes of
/// the update. Until the grace period is over there is no step, and the plan says that the pod
/// waits.
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

/// The warning that the image tags of these containers name other images since the pod's update.
fn tag_moved_event(pod: &Pod, containers: &[String]) -> Event {
    let images: Vec<_> = containers
        .iter()
        .filter_map(|name| pod.spec.containers.iter().find(|c| *c.name == **name))
        .map(|c| format!("{} of container {}", c.image, c.name))
        .collect();
    Event::warning(
        "ImageTagMoved",
        format!(
            "pod {} was updated, but {} names another image on node {} now than the one that runs: the tag moved",
            pod.metadata.name,
            images.join(", "),
            pod.spec.node_name
        ),
    )
}
