//! Events of pods, and of what only the outcome of a plan tells.

use berth_api::v1beta1::sidecarset::SidecarSetStatus;
use berth_workload::plan::{Action, Event, Outcome, Plan, Target};

use super::blocked::{NO_BUDGET, REFUSED};
use super::names::BLOCKED;
use super::stages::{END_OF_HOT_UPGRADE, UPDATE};
use super::tried::{failure, tried_steps};
use super::{Snapshot, Turns, choose, status};

/// The events of pods: a pod is set aside after this plan, or a hot upgrade ended.
pub fn pod_events(turns: &Turns, plan: &Plan, outcome: &Outcome) -> Vec<(Target, Event)> {
    let mut events = refusals(turns, plan, outcome);
    events.extend(ends_of_hot_upgrades(plan, outcome));
    events
}

/// Pods that are set aside.
fn refusals(turns: &Turns, plan: &Plan, outcome: &Outcome) -> Vec<(Target, Event)> {
    let told = tried_steps(plan, outcome, UPDATE)
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
            Some((
                target.clone(),
                Event {
                    warning: true,
                    reason: REFUSED,
                    message,
                },
            ))
        });
    told.collect()
}

/// Pods whose hot upgrade was to end: the old container got the empty image, or could not.
fn ends_of_hot_upgrades(plan: &Plan, outcome: &Outcome) -> Vec<(Target, Event)> {
    let told = tried_steps(plan, outcome, END_OF_HOT_UPGRADE)
        .into_iter()
        .filter_map(|step| {
            let Some(Action::PatchPod { target, .. }) = step.actions.first() else {
                return None;
            };
            let event = match failure(outcome, target) {
                None => Event {
                    warning: false,
                    reason: "ResetContainerSucceed",
                    message: step.reason.clone(),
                },
                // Somebody else changed the pod meanwhile: it is decided on anew.
                Some(failure) if failure.outdated => return None,
                Some(failure) => {
                    let message = format!("{}, and that failed: {}", step.reason, failure.message);
                    Event {
                        warning: true,
                        reason: "ResetContainerFailed",
                        message,
                    }
                }
            };
            Some((target.clone(), event))
        });
    told.collect()
}

/// The event of a SidecarSet whose new status says that a budget or a refusal begins to hold
/// updates back.
pub fn blocked_event(snapshot: &Snapshot, new: &SidecarSetStatus) -> Option<Event> {
    let blocked = new.conditions.iter().find(|known| known.type_ == BLOCKED)?;
    let reason = [NO_BUDGET, REFUSED]
        .into_iter()
        .find(|reason| blocked.reason == *reason)?;
    // Of spec.updateStrategy.maxUnavailable the plan tells.
    if blocked.message == choose::NO_BUDGET || status::is_blocked_by(snapshot, reason) {
        return None;
    }
    Some(Event {
        warning: true,
        reason,
        message: blocked.message.clone(),
    })
}

#[cfg(test)]
mod tests {
    use berth_workload::plan::{Deed, Failure, Verb};
    use berth_workload::resource::{CONTROLLER_REVISIONS, IMAGE_PULL_JOBS, PODS};
    use serde_json::json;

    use super::super::decide;
    use super::super::tests::{NOW, hot_pod, hot_snapshot};
    use super::*;

    #[test]
    fn what_became_of_a_pod_is_told_of_no_other_pod_by_its_name() {
        let of = |namespace: &str| {
            let mut pod = hot_pod(["mesh:1", "mesh:2"], "h2", "mesh-2", [true, true]);
            pod["metadata"]["namespace"] = json!(namespace);
            pod["metadata"]["uid"] = json!(namespace);
            pod
        };
        let plan = decide(&hot_snapshot(&[of("one"), of("two")], json!({})), NOW);
        let (succeeded, failed) = ("ResetContainerSucceed", "ResetContainerFailed");
        for (verb, namespace, expected) in [
            (Verb::Patch, "one", [("one", failed), ("two", succeeded)]),
            (Verb::Patch, "two", [("one", succeeded), ("two", failed)]),
            (
                Verb::Patch,
                "three",
                [("one", succeeded), ("two", succeeded)],
            ),
            (
                Verb::PatchStatus,
                "one",
                [("one", succeeded), ("two", succeeded)],
            ),
        ] {
            let failure =
                Failure::of_budget(Deed::of(verb, PODS), (namespace, "a"), "no".to_owned());
            let told = pod_events(
                &Turns::default(),
                &plan,
                &Outcome {
                    failures: vec![failure],
                },
            );
            let told: Vec<_> = told
                .iter()
                .map(|(pod, event)| (pod.namespace.as_str(), event.reason))
                .collect();
            assert_eq!(told, expected, "{verb:?} in namespace {namespace}");
        }
    }

    #[test]
    fn nothing_is_told_of_what_was_not_tried() {
        let pod = hot_pod(["mesh:1", "mesh:2"], "h2", "mesh-2", [true, true]);
        let mut snapshot = hot_snapshot(&[pod], json!({}));
        // Without the revision nothing goes on.
        snapshot.revisions.clear();
        let plan = decide(&snapshot, NOW);
        for (resource, told) in [(CONTROLLER_REVISIONS, 0), (IMAGE_PULL_JOBS, 1)] {
            let deed = Deed::of(Verb::Create, resource);
            let failure = Failure::of_budget(deed, ("kruise-system", "log-1"), "no".to_owned());
            assert_eq!(
                pod_events(
                    &Turns::default(),
                    &plan,
                    &Outcome {
                        failures: vec![failure]
                    }
                )
                .len(),
                told,
                "{deed}"
            );
        }
    }
}
