//! Which steps of a plan take pods out of service.

use std::collections::BTreeSet;

use berth_api::v1beta1::podunavailablebudget::ProtectedOperation;

use crate::plan::{Action, Step, Target};
use crate::pod::gates::{IN_PLACE_UPDATE_READY, KRUISE_POD_READY};

/// The pod that a step takes out of service, and by what: its deletion, or the first write of a change. Evictions are not among
/// them: about those the apiserver asks. A pod that is out of service already costs nothing, whatever the step does.
pub fn of_step(step: &Step) -> Option<(&Target, ProtectedOperation)> {
    step.actions.iter().find_map(|action| match action {
        Action::DeletePod { target } => Some((target, ProtectedOperation::Delete)),
        Action::PatchPodStatus { target, conditions, .. } => {
            let closes = |type_: &str| type_ == IN_PLACE_UPDATE_READY || type_ == KRUISE_POD_READY;
            let is_closed = conditions.iter().any(|gate| closes(&gate.type_) && &*gate.status == "False");
            is_closed.then_some((target, ProtectedOperation::Update))
        }
        Action::PatchPod { target, patch } if patch.restarts() => Some((target, ProtectedOperation::Update)),
        Action::ResizePod { target, .. } => Some((target, ProtectedOperation::Resize)),
        _ => None,
    })
}

/// The containers that a step has replaced: another image, or a restart.
pub fn replaced(step: &Step) -> BTreeSet<&str> {
    let patches = step.actions.iter().filter_map(|action| match action {
        Action::PatchPod { patch, .. } => Some(patch),
        _ => None,
    });
    let names = patches.flat_map(|patch| patch.all_images().map(|(name, _)| name).chain(&patch.restarted));
    names.map(String::as_str).collect()
}
