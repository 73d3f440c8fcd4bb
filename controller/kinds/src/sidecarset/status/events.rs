//! Events of pods, and events that depend on the outcome of a plan.

use berth_api::v1beta1::sidecarset::SidecarSetStatus;
use berth_workload::plan::{Action, Event, Outcome, Plan, Target};

use super::blocked::{NO_BUDGET, REFUSED};
use crate::sidecarset::names::BLOCKED;
use crate::sidecarset::status;
use crate::sidecarset::update::choose;
use crate::sidecarset::update::stages::{END_OF_HOT_UPGRADE, UPDATE};
use crate::sidecarset::update::tried::{failure, tried_steps};
use crate::sidecarset::{Snapshot, Turns};

/// The events of pods: a pod is set aside after this plan, or a hot upgrade ended.
pub fn pod_events(turns: &Turns, plan: &Plan, outcome: &Outcome) -> Vec<(Target, Event)> {
    let mut events = refusals(turns, plan, outcome);
    events.extend(ends_of_hot_upgrades(plan, outcome));
    events
}

/// Pods that are set aside.
fn refusals(turns: &Turns, plan: &Plan, outcome: &Outcome) -> Vec<(Target, Event)> {
    let events = tried_steps(plan, outcome, UPDATE)
        .into_iter()
        .filter_map(|step| {
            let Some(Action::PatchPod { target, .. }) = step.actions.first() else {
                return None;
            };
            let refused = failure(outcome, target).filter(|_| turns.is_aside(&target.uid))?;
            let message = format!(
                "{}, and the apiserver did not take that: {}",
                step.reason, refused.message
            );
            Some((target.clone(), Event::warning(REFUSED, message)))
        });
    events.collect()
}

/// Events of pods whose hot upgrade was to end: the old container got the empty image, or could
/// not.
fn ends_of_hot_upgrades(plan: &Plan, outcome: &Outcome) -> Vec<(Target, Event)> {
    let events = tried_steps(plan, outcome, END_OF_HOT_UPGRADE)
        .into_iter()
        .filter_map(|step| {
            let Some(Action::PatchPod { target, .. }) = step.actions.first() else {
                return None;
            };
            let event = match failure(outcome, target) {
                None => Event::normal("ResetContainerSucceed", step.reason.clone()),
                // Another writer changed the pod meanwhile: the next round decides again.
                Some(failure) if failure.outdated => return None,
                Some(failure) => {
                    let message = format!("{}, and that failed: {}", step.reason, failure.message);
                    Event::warning("ResetContainerFailed", message)
                }
            };
            Some((target.clone(), event))
        });
    events.collect()
}

/// The event of a SidecarSet whose new status says that a budget or a refusal begins to hold
/// updates back.
pub fn blocked_event(snapshot: &Snapshot, new: &SidecarSetStatus) -> Option<Event> {
    let blocked = new.conditions.iter().find(|known| known.type_ == BLOCKED)?;
    let reason = [NO_BUDGET, REFUSED]
        .into_iter()
        .find(|reason| blocked.reason == *reason)?;
    // The plan has the event for spec.updateStrategy.maxUnavailable.
    if blocked.message == choose::NO_BUDGET || status::is_blocked_by(snapshot, reason) {
        return None;
    }
    Some(Event::warning(reason, blocked.message.clone()))
}

#[cfg(test)]
mod tests;
