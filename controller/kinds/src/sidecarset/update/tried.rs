//! The outcome of the steps of a plan.

use berth_workload::objects::resource::PODS;
use berth_workload::plan::{Action, Failure, Outcome, Plan, Step, Target, Verb, Write};

/// The writes that update and replace pods, and that end a hot upgrade.
const WRITES: [Write; 2] = [Write::of(Verb::Patch, PODS), Write::of(Verb::Evict, PODS)];

/// The failure of a pod's change. Pods of several namespaces may have the same name, and one pod
/// may be written in several ways.
pub(in crate::sidecarset) fn failure<'a>(
    outcome: &'a Outcome,
    target: &Target,
) -> Option<&'a Failure> {
    let is_its = |failure: &&Failure| {
        WRITES.contains(&failure.write)
            && (&failure.namespace, &failure.object) == (&target.namespace, &target.name)
    };
    outcome.failures.iter().find(is_its)
}

/// The steps of the stage of this name; none if a required stage before it failed, because then
/// none was tried.
pub(in crate::sidecarset) fn tried_steps<'a>(
    plan: &'a Plan,
    outcome: &Outcome,
    stage: &'static str,
) -> Vec<&'a Step> {
    let before = plan
        .stages
        .iter()
        .take_while(|known| known.name != stage)
        .filter(|known| known.required);
    let mut needed = before
        .flat_map(|stage| &stage.steps)
        .flat_map(|step| &step.actions)
        .map(Action::write);
    if needed.any(|write| {
        outcome
            .failures
            .iter()
            .any(|failure| failure.write == write)
    }) {
        return Vec::new();
    }
    plan.stages
        .iter()
        .filter(|known| known.name == stage)
        .flat_map(|stage| &stage.steps)
        .collect()
}
