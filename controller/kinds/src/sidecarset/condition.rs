//! The condition of a pod that says which SidecarSets can update it in place.

use std::collections::BTreeMap;

use berth_workload::plan::{Action, PodPatch, Step, Target};
use berth_workload::pod::{Condition, Pod};
use jiff::Timestamp;

use super::names::UPGRADABLE;

/// What the condition says of this SidecarSet.
pub(super) fn says(pod: &Pod, set: &str) -> Option<bool> {
    let sets: BTreeMap<String, bool> = serde_json::from_str(&pod.condition(UPGRADABLE)?.message).ok()?;
    sets.get(set).copied()
}

/// What makes the condition say so of this SidecarSet; `None` if it says so already.
pub(super) fn step(pod: &Pod, set: &str, can: bool, now: Timestamp) -> Option<Step> {
    let old = pod.condition(UPGRADABLE);
    let mut sets: BTreeMap<String, bool> =
        old.and_then(|condition| serde_json::from_str(&condition.message).ok()).unwrap_or_default();
    if sets.insert(set.to_owned(), can) == Some(can) {
        return None;
    }
    let all = sets.values().all(|can| *can);
    let (status, reason) = if all { ("True", "AllSidecarsetUpgradable") } else { ("False", "UpdateImmutableField") };
    let since =
        old.filter(|condition| &*condition.status == status).and_then(|condition| condition.last_transition_time);
    let condition = Condition {
        type_: UPGRADABLE.into(),
        status: status.into(),
        last_transition_time: since.or(Some(now)),
        reason: reason.into(),
        // A map with string keys always serialises.
        message: serde_json::to_string(&sets).unwrap_or_default().into(),
    };
    let target = Target::as_seen(&pod.metadata);
    let action = Action::PatchPodStatus { target, conditions: vec![condition], patch: PodPatch::default() };
    let what = if can { "can be updated in place" } else { "differs in more than images" };
    Some(Step::new(action, format!("pod {}/{} {what}", pod.metadata.namespace, pod.metadata.name)))
}
