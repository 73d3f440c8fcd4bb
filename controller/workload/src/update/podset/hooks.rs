//! Lifecycle hooks: what holds a pod where it is, and where it goes when nothing holds it any more.
//!
//! A hook's owner is told by the state in the pod's label, and answers with labels and finalizers. Each change of state is
//! one patch of the pod's status, with the readiness gates that go with it.

mod proceed;

use std::sync::Arc;

use berth_api::fields::lifecycle::LifecycleHook;
use berth_api::names::label::SPECIFIED_DELETE;
use jiff::Timestamp;

use super::{Scene, Uids};
use crate::objects::pod::lifecycle::{
    self, NORMAL, PREPARING_DELETE, PREPARING_NORMAL, PREPARING_UPDATE, UPDATED, UPDATING, hook,
};
use crate::objects::pod::unready::{self, BEFORE_DELETE, BEFORE_UPDATE, Reason};
use crate::objects::pod::{Condition, Pod, gates};
use crate::plan::{Action, Event, PodPatch, Step, Target};
use crate::update::inplace::exact::Verdict;
use crate::update::inplace::steps::{self, Phase};
use crate::update::pod_order::spread;

pub use proceed::proceed;

/// Whether an update in place may begin.
pub(crate) enum Turn {
    /// It may.
    Go,
    /// The pod is to be held first, by this step.
    Hold(Step),
    /// A hook holds it.
    Held,
}

/// Pods held before their deletion that are wanted again, because there are fewer others than replicas: those that would
/// be deleted last. None where a hook takes pods out of service: their owner has sent the traffic away for good.
pub fn returning(scene: &Scene<'_>, replicas: usize, pods: &[Arc<Pod>]) -> Uids {
    if !may_return(scene) {
        return Uids::new();
    }
    let asked = |pod: &Pod| scene.is_to_delete(pod);
    let is_held = |pod: &Pod| lifecycle::state(pod) == PREPARING_DELETE;
    let staying = pods
        .iter()
        .filter(|pod| !asked(pod) && !is_held(pod))
        .count();
    let mut held: Vec<_> = pods
        .iter()
        .filter(|pod| is_held(pod) && !asked(pod))
        .cloned()
        .collect();
    spread::for_deletion(&mut held, &scene.spread(), |_| false);
    let missing = replicas.saturating_sub(staying);
    held.iter()
        .rev()
        .take(missing)
        .map(|pod| pod.metadata.uid.clone())
        .collect()
}

/// May pods that are held before their deletion come back? Not where a hook takes pods out of service.
pub fn may_return(scene: &Scene<'_>) -> bool {
    let hooks = scene.workload.hooks;
    ![hooks.pre_delete, hooks.in_place_update]
        .into_iter()
        .flatten()
        .any(|hook| hook.mark_pod_not_ready)
}

/// Does a hook hold a new pod before it serves?
pub fn holds_new(scene: &Scene<'_>) -> bool {
    scene.workload.hooks.pre_normal.is_some_and(hook::is_any)
}

/// Does a hook hold the pod before its deletion?
pub fn holds_deletion(scene: &Scene<'_>, pod: &Pod) -> bool {
    hook::holds(scene.workload.hooks.pre_delete, pod)
}

/// A pod that nothing holds, as the object of its deletion: as it was seen, where its owner could hold it by now.
pub(crate) fn target_of_deletion(scene: &Scene<'_>, pod: &Pod) -> Target {
    if scene.workload.hooks.pre_delete.is_some_and(hook::is_any) {
        return steps::target_as_seen(pod);
    }
    steps::target_unless_it_serves(pod)
}

/// Tells the hook's owner that the pod is to be deleted. `None` when it was told already. `for_update`: to be replaced,
/// whatever the number of pods; the label says so for as long as the pod lives.
pub fn hold_deletion(
    scene: &Scene<'_>,
    pod: &Pod,
    reason: &str,
    for_update: bool,
    now: Timestamp,
) -> Option<Step> {
    let hook = scene.workload.hooks.pre_delete?;
    let is_told = lifecycle::state(pod) == PREPARING_DELETE;
    let mut patch = PodPatch::default();
    if !is_told {
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
        done: (!is_told).then(|| {
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

/// Is an update done that left the pod in service? Then it is told of the end of this one before the next begins.
pub(crate) fn is_done_in_service(scene: &Scene<'_>, pod: &Pod) -> bool {
    let proven = || matches!(*scene.phase(pod), Phase::Patched(_, Verdict::Exact { .. }));
    steps::is_in_service(pod) && proven()
}

/// May the update of a chosen pod begin or go on?
pub(crate) fn before_update(scene: &Scene<'_>, pod: &Pod, now: Timestamp) -> Turn {
    if is_done_in_service(scene, pod) {
        return Turn::Held;
    }
    let Some(hook) = scene.workload.hooks.in_place_update else {
        return Turn::Go;
    };
    let mut patch = PodPatch::default();
    match lifecycle::state(pod) {
        // Its owner has not put it back into service yet, and shall be asked again.
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

/// An update that nothing holds begins only with the pod as it was seen: its owner could hold it by now.
pub(crate) fn unless_held_by_now(scene: &Scene<'_>, pod: &Pod, update: &mut [Action]) {
    if lifecycle::state(pod) != UPDATING
        && scene
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

/// Where a pod goes whose update in place is done, or is undone. `None`: it stays in its state.
pub(crate) fn after_update(scene: &Scene<'_>, pod: &Pod) -> Option<&'static str> {
    match lifecycle::state(pod) {
        PREPARING_DELETE | PREPARING_NORMAL => None,
        // Its hook's owner was told of no update, and is not waited for.
        "" | NORMAL => Some(NORMAL),
        _ if hook::is_whole(scene.workload.hooks.in_place_update, pod) => Some(NORMAL),
        _ => Some(UPDATED),
    }
}

/// Joins to the patch of a pod's status, which puts it back into service, that no hook keeps it out any more.
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

/// The conditions that take a pod out of service for a hook. Empty where the hook does not ask for it, or where it is
/// so already.
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

/// A pod that the step takes away, or lets a hook hold, has no other write in the same plan: that might put it back into
/// service, and it was counted as what it was.
pub fn takes_away(step: &Step) -> bool {
    step.actions.iter().any(|action| match action {
        Action::DeletePod { .. } => true,
        Action::PatchPodStatus { patch, .. } => is_to_be_held(patch),
        _ => false,
    })
}

/// Does the patch of a pod bring it into a state in which a hook holds it?
pub fn is_to_be_held(patch: &PodPatch) -> bool {
    let to = patch
        .labels
        .get(lifecycle::STATE_LABEL)
        .and_then(Option::as_deref);
    to.is_some_and(|to| to == PREPARING_UPDATE || to == PREPARING_DELETE)
}

/// The list of reasons is of several writers: whoever writes it must have seen it as it is. And what is held counts as
/// unavailable: that cost nothing only if it is as little ready as it was seen.
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
