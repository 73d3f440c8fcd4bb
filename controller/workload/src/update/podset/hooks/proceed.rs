//! The next lifecycle state of pods that no hook holds any more.

use std::sync::Arc;

use berth_api::fields::lifecycle::LifecycleHook;
use jiff::Timestamp;

use super::{after_update, patch_status};
use crate::objects::pod::lifecycle::{
    self, NORMAL, PREPARING_DELETE, PREPARING_NORMAL, PREPARING_UPDATE, UPDATED, UPDATING, hook,
};
use crate::objects::pod::{Pod, gates, unready};
use crate::plan::{Plan, PodPatch, Step};
use crate::update::inplace::exact::UpdateDecision;
use crate::update::inplace::state::{Before, State};
use crate::update::inplace::steps::{self, Phase};
use crate::update::podset::chosen::Chosen;
use crate::update::podset::{Uids, WorkloadView};
use crate::update::revision::{self, REVISION_LABEL};

/// Opens the gates of new pods, and brings each pod into the next state that its hooks allow: one
/// patch per pod. Without a choice of pods to update, no update is reverted. For pods that stay,
/// the plan says what they wait for.
pub fn proceed(
    view: &WorkloadView<'_>,
    chosen: Option<&Chosen>,
    returning: &Uids,
    pods: &[Arc<Pod>],
    plan: &mut Plan,
    now: Timestamp,
) {
    let mut steps = Vec::new();
    for pod in pods.iter().filter(|pod| pod.is_active()) {
        let scheduled = !pod.spec.node_name.is_empty();
        let mut conditions = if scheduled {
            gates::unset(pod, now)
        } else {
            Vec::new()
        };
        let mut patch = PodPatch::default();
        let next = next(view, chosen, returning, pod);
        if let Some((state, _)) = next {
            lifecycle::set(&mut patch, state, now);
            conditions.extend(unready::without_hooks(pod, now));
        } else if let Some(reason) = waits_for(view, pod) {
            plan.wait_for_pod(pod, reason);
        }
        if conditions.is_empty() && patch.labels.is_empty() {
            continue;
        }
        let why = next.map_or("is scheduled: its readiness gates open", |(_, why)| why);
        steps.push(Step::new(
            patch_status(pod, conditions, patch),
            format!("pod {} {why}", pod.metadata.name),
        ));
    }
    plan.add_stage("open gates", steps);
}

/// The next state of a pod, and the reason.
fn next(
    view: &WorkloadView<'_>,
    chosen: Option<&Chosen>,
    returning: &Uids,
    pod: &Pod,
) -> Option<(&'static str, &'static str)> {
    let is_chosen = chosen.is_some_and(|chosen| chosen.has(pod));
    match lifecycle::state(pod) {
        PREPARING_NORMAL if is_normal(view, pod) => Some((
            NORMAL,
            "is scheduled: its readiness gates open, and it serves from when it is ready",
        )),
        UPDATED if !is_chosen && hook::is_whole(view.workload.hooks.in_place_update, pod) => {
            Some((
                NORMAL,
                "is updated, and has all of hook inPlaceUpdate again",
            ))
        }
        PREPARING_UPDATE
            if !steps::is_under_way(pod) && chosen.is_some_and(|chosen| !chosen.waits(pod)) =>
        {
            Some((after_update(view, pod)?, "need not be updated any more"))
        }
        PREPARING_DELETE if returning.contains(&pod.metadata.uid) => {
            Some((returned(view, pod)?, "is wanted again, and not deleted"))
        }
        _ => None,
    }
}

/// Whether a pod that was never in service is ready for service.
fn is_normal(view: &WorkloadView<'_>, pod: &Pod) -> bool {
    !pod.spec.node_name.is_empty() && hook::is_whole(view.workload.hooks.pre_normal, pod)
}

/// The next state of a pod that was held before its deletion and is needed again. `None` if this
/// round first settles its in-place update.
fn returned(view: &WorkloadView<'_>, pod: &Pod) -> Option<&'static str> {
    if !is_interrupted(pod) {
        return Some(if is_normal(view, pod) {
            NORMAL
        } else {
            PREPARING_NORMAL
        });
    }
    let unproven = |phase: &Phase| {
        matches!(
            phase,
            Phase::Patched(
                _,
                UpdateDecision::Wait(_)
                    | UpdateDecision::NeedsDaemon(_)
                    | UpdateDecision::Resize(_)
            )
        )
    };
    // Without the label, only the gate shows that an update is under way. Pods without a gate, and
    // pods that were resized in service, need the label before the update continues.
    (!steps::is_under_way(pod) || unproven(&view.phase(pod))).then_some(UPDATING)
}

/// Whether an in-place update was under way when the pod was held before its deletion. The gate
/// shows it, or otherwise the record: of resources, which leave the pod in service, or of
/// containers whose gate was opened before the proof.
fn is_interrupted(pod: &Pod) -> bool {
    if steps::is_under_way(pod) {
        return true;
    }
    let label = pod.metadata.label(REVISION_LABEL).unwrap_or_default();
    let is_gated = gates::has_gate(pod, gates::IN_PLACE_UPDATE_READY);
    // A record of OpenKruise has no container ids, and is never settled.
    let names_containers =
        |state: &State| state.last_container_statuses.values().any(Before::is_known);
    let unsettled = |state: State| {
        !state.is_settled()
            && (!is_gated || !state.resources.is_empty() || names_containers(&state))
    };
    State::of(pod)
        .filter(|state| revision::same(&state.revision, label))
        .is_some_and(unsettled)
}

/// A message about what the pod's state and its hooks wait for.
fn waits_for(view: &WorkloadView<'_>, pod: &Pod) -> Option<String> {
    let held = |hook, name, of: fn(&LifecycleHook, &Pod) -> Vec<String>, until: &str| {
        let parts = of(hook?, pod);
        (!parts.is_empty()).then(|| format!("waits for hook {name}: {until} {}", parts.join(", ")))
    };
    let (present, missing) = (hook::present, hook::missing);
    match lifecycle::state(pod) {
        PREPARING_NORMAL => held(
            view.workload.hooks.pre_normal,
            "preNormal",
            missing,
            "until the pod has",
        ),
        PREPARING_UPDATE => held(
            view.workload.hooks.in_place_update,
            "inPlaceUpdate",
            present,
            "as long as the pod has",
        ),
        UPDATED => held(
            view.workload.hooks.in_place_update,
            "inPlaceUpdate",
            missing,
            "until the pod has again",
        ),
        PREPARING_DELETE => held(
            view.workload.hooks.pre_delete,
            "preDelete",
            present,
            "as long as the pod has",
        ),
        _ => None,
    }
}
