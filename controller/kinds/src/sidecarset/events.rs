//! Events of pods.

use berth_workload::plan::{Action, Event, Outcome, Plan, Target};

use super::decide::END_OF_HOT_UPGRADE;

/// What is told of pods whose hot upgrade was to end: the old container got the empty image, or could not.
pub fn pod_events(plan: &Plan, outcome: &Outcome) -> Vec<(Target, Event)> {
    let ends = plan.stages.iter().filter(|stage| stage.name == END_OF_HOT_UPGRADE).flat_map(|stage| &stage.steps);
    let told = ends.filter_map(|step| {
        let Some(Action::PatchPod { target, .. }) = step.actions.first() else { return None };
        let event = match outcome.failures.iter().find(|failure| failure.object == target.name) {
            None => Event { warning: false, reason: "ResetContainerSucceed", message: step.reason.clone() },
            // Somebody else changed the pod meanwhile: it is decided on anew.
            Some(failure) if failure.outdated => return None,
            Some(failure) => {
                let message = format!("{}, and that failed: {}", step.reason, failure.message);
                Event { warning: true, reason: "ResetContainerFailed", message }
            }
        };
        Some((target.clone(), event))
    });
    told.collect()
}
