//! Lifecycle hooks: they hold a pod in its lifecycle state until the hook's owner releases it.
//!
//! The owner of a hook reads the state from the pod's label and answers with labels and finalizers.
//! Each change of state is one patch of the pod's status, together with the pod's readiness gates.

mod proceed;

use std::sync::Arc;

use berth_api::fields::lifecycle::LifecycleHook;
use berth_api::names::label::SPECIFIED_DELETE;
use jiff::Timestamp;

use super::{Uids, WorkloadView};
use crate::objects::pod::lifecycle::{
    self, NORMAL, PREPARING_DELETE, PREPARING_NORMAL, PREPARING_UPDATE, UPDATED, UPDATING, hook,
};
use crate::objects::pod::unready::{self, BEFORE_DELETE, BEFORE_UPDATE, Reason};
use crate::objects::pod::{Condition, Pod, gates};
use crate::plan::{Action, Event, PodPatch, Step, Target};
use crate::update::inplace::exact::UpdateDecision;
use crate::update::inplace::steps::{self, Phase};
use crate::update::pod_order::spread;

pub use proceed::proceed;

/// Whether an in-place update may begin.
pub(crate) enum Turn {
    /// The update may begin.
    Go,
    /// This step first brings the pod into the state in which the hook holds it.
    Hold(Step),
    /// A hook holds the pod.
    Held,
}

/// Pods that a hook holds before their deletion and that are needed again, because fewer other pods
/// than replicas exist. The pods that would be deleted last return first. None return if a hook
/// takes pods out of service, because its owner may already have moved the traffic away for good.
pub fn returning(view: &WorkloadView<'_>, replicas: usize, pods: &[Arc<Pod>]) -> Uids {
    if !may_return(view) {
        return Uids::new();
    }
    let is_to_delete = |pod: &Pod| view.is_to_delete(pod);
    let is_held = |pod: &Pod| lifecycle::state(pod) == PREPARING_DELETE;
    let staying = pods
        .iter()
        .filter(|pod| !is_to_delete(pod) && !is_held(pod))
        .count();
    let mut held: Vec<_> = pods
        .iter()
        .filter(|pod| is_held(pod) && !is_to_delete(pod))
        .cloned()
        .collect();
    spread::for_deletion(&mut held, &view.spread(), |_| false);
    let missing = replicas.saturating_sub(staying);
    held.iter()
        .rev()
        .take(missing)
        .map(|pod| pod.metadata.uid.clone())
        .collect()
}

/// Whether pods that a hook holds before their deletion may return. They may not if a hook takes
/// pods out of service.
pub fn may_return(view: &WorkloadView<'_>) -> bool {
    let hooks = view.workload.hooks;
    ![hooks.pre_delete, hooks.in_place_update]
        .into_iter()
        .flatten()
        .any(|hook| hook.mark_pod_not_ready)
}

/// Whether a hook holds a new pod before the pod serves.
pub fn holds_new(view: &WorkloadView<'_>) -> bool {
    view.workload.hooks.pre_normal.is_some_and(hook::is_any)
}

/// Whether a hook holds the pod before its deletion.
pub fn holds_deletion(view: &WorkloadView<'_>, pod: &Pod) -> bool {
    hook::holds(view.workload.hooks.pre_delete, pod)
}

/// The target of a pod's deletion. If a hook could hold the pod by now, the target has the resource
/// version that was seen.
pub(crate) fn target_of_deletion(view: &WorkloadView<'_>, pod: &Pod) -> Target {
    if view.workload.hooks.pre_delete.is_some_and(hook::is_any) {
        return steps::target_as_seen(pod);
    }
    steps::target_unless_it_serves(pod)
}

/// The step that tells the hook's owner that the pod will be deleted, or `None` if the label says
/// so already. With `for_update` the pod will be replaced even if the workload is scaled up; the
/// label says so for as long as the pod lives.
pub fn hold_deletion(
    view: &WorkloadView<'_>,
    pod: &Pod,
    reason: &str,
    for_update: bool,
    now: Timestamp,
) -> Option<Step> {
    let hook = view.workload.hooks.pre_delete?;
    let is_preparing = lifecycle::state(pod) == PREPARING_DELETE;
    let mut patch = PodPatch::default();
    if !is_preparing {
        lifecycle::set(&mut patch, PREPARING_DELETE, now);
    }
    if for_update && pod.metadata.label(SPECIFIED_DELETE).is_none() {
        patch
            .labels
            .insert(SPECIFIED_DELETE.to_owned(), Some("true".to_owned()));
    }
    let conditions = out_of_service(hook, &BEFORE_DELETE, pod, now);
    if patch.labels.is_empty() && conditions.is_empty() {
        return None;
    }
    let name = &pod.metadata.name;
    let held_by = hook::present(hook, pod).join(", ");
    Some(Step {
        done: (!is_preparing).then(|| {
            Event::normal(
                "PreparingDelete",
                format!("pod {name} waits for hook preDelete: {held_by}"),
            )
        }),
        ..Step::new(
            patch_status(pod, conditions, patch),
            format!("pod {name}: {reason}, held by hook preDelete: {held_by}"),
        )
    })
}

/// Whether an update that left the pod in service is done. Its hook's owner learns of this end
/// before the next update begins.
pub(crate) fn is_done_in_service(view: &WorkloadView<'_>, pod: &Pod) -> bool {
    let proven = || {
        matches!(
            *view.phase(pod),
            Phase::Patched(_, UpdateDecision::Proven { .. })
        )
    };
    steps::is_in_service(pod) && proven()
}

/// Whether the update of a chosen pod may begin or go on.
pub(crate) fn before_update(view: &WorkloadView<'_>, pod: &Pod, now: Timestamp) -> Turn {
    if is_done_in_service(view, pod) {
        return Turn::Held;
    }
    let Some(hook) = view.workload.hooks.in_place_update else {
        return Turn::Go;
    };
    let mut patch = PodPatch::default();
    match lifecycle::state(pod) {
        // The hook's owner has not put the pod back into service yet, and the hook holds it again.
        UPDATED => hook::put_on(hook, &mut patch),
        PREPARING_UPDATE if hook::holds(Some(hook), pod) => return Turn::Held,
        "" | PREPARING_NORMAL | NORMAL if hook::holds(Some(hook), pod) => {}
        _ => return Turn::Go,
    }
    lifecycle::set(&mut patch, PREPARING_UPDATE, now);
    let name = &pod.metadata.name;
    let conditions = out_of_service(hook, &BEFORE_UPDATE, pod, now);
    let reason =
        format!("pod {name} is to be updated in place, and held by hook inPlaceUpdate first");
    Turn::Hold(Step {
        done: Some(Event::normal(
            "PreparingUpdate",
            format!("pod {name} waits for hook inPlaceUpdate"),
        )),
        ..Step::new(patch_status(pod, conditions, patch), reason)
    })
}

/// Makes an update that no hook holds begin only in the pod's seen version, because the hook's
/// owner could hold the pod by now.
pub(crate) fn unless_held_by_now(view: &WorkloadView<'_>, pod: &Pod, update: &mut [Action]) {
    if lifecycle::state(pod) != UPDATING
        && view
            .workload
            .hooks
            .in_place_update
            .is_some_and(hook::is_any)
        && let Some(Action::PatchPod { target, .. } | Action::PatchPodStatus { target, .. }) =
            update.first_mut()
    {
        *target = steps::target_as_seen(pod);
    }
}

/// The next lifecycle state of a pod whose in-place update is done or reverted. `None` if the pod
/// stays in its state.
pub(crate) fn after_update(view: &WorkloadView<'_>, pod: &Pod) -> Option<&'static str> {
    match lifecycle::state(pod) {
        PREPARING_DELETE | PREPARING_NORMAL => None,
        // The hook's owner never learned of the update, so that the pod does not wait for it.
        "" | NORMAL => Some(NORMAL),
        _ if hook::is_whole(view.workload.hooks.in_place_update, pod) => Some(NORMAL),
        _ => Some(UPDATED),
    }
}

/// Adds to a status patch that puts the pod back into service that no hook keeps the pod out of
/// service any more.
pub(crate) fn back_into_service(mut action: Action, pod: &Pod, now: Timestamp) -> Action {
    if let Action::PatchPodStatus {
        target, conditions, ..
    } = &mut action
        && lifecycle::state(pod) != PREPARING_DELETE
        && let Some(condition) = unready::without_hooks(pod, now)
    {
        conditions.push(condition);
        *target = steps::target_as_seen(pod);
    }
    action
}

/// The conditions that take a pod out of service for a hook. Empty if the hook does not ask for
/// that, or if the pod has them already.
fn out_of_service(
    hook: &LifecycleHook,
    reason: &Reason,
    pod: &Pod,
    now: Timestamp,
) -> Vec<Condition> {
    let marked = if hook.mark_pod_not_ready {
        unready::with(pod, reason, now)
    } else {
        None
    };
    let Some(condition) = marked else {
        return Vec::new();
    };
    let ready = pod
        .is_true("Ready")
        .then(|| gates::not_ready(pod, gates::KRUISE_POD_READY, now));
    std::iter::once(condition).chain(ready).collect()
}

/// Whether a step deletes a pod or brings it into a state in which a hook holds it. The plan must
/// have no other write to such a pod: that write could put the pod back into service, and the pod
/// was counted by its state before.
pub fn takes_away(step: &Step) -> bool {
    step.actions.iter().any(|action| match action {
        Action::DeletePod { .. } => true,
        Action::PatchPodStatus { patch, .. } => is_to_be_held(patch),
        _ => false,
    })
}

/// Whether the patch brings a pod into a state in which a hook holds it.
pub fn is_to_be_held(patch: &PodPatch) -> bool {
    let to = patch
        .labels
        .get(lifecycle::STATE_LABEL)
        .and_then(Option::as_deref);
    to.is_some_and(|to| to == PREPARING_UPDATE || to == PREPARING_DELETE)
}

/// Several writers share the list of reasons, so that its writer must have seen the current list. A
/// held pod counts as unavailable, and holding it costs nothing only if the pod serves no more than
/// when it was seen.
fn patch_status(pod: &Pod, conditions: Vec<Condition>, patch: PodPatch) -> Action {
    let names_reasons = conditions
        .iter()
        .any(|c| &*c.type_ == gates::KRUISE_POD_READY && !c.message.is_empty());
    let target = if names_reasons {
        steps::target_as_seen(pod)
    } else if is_to_be_held(&patch) {
        steps::target_unless_it_serves(pod)
    } else {
        steps::target(pod)
    };
    Action::PatchPodStatus {
        target,
        conditions,
        patch,
    }
}
