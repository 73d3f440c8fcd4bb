//! The condition of a pod that says which SidecarSets can update it in place.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::name::Name;
use berth_workload::objects::pod::{Condition, Pod};
use berth_workload::plan::{Action, Plan, PodPatch, Step, Target};
use jiff::Timestamp;

use crate::sidecarset::Snapshot;
use crate::sidecarset::names::UPGRADABLE;

/// The longest message that the controller reads, and the most names from it that it uses at once.
/// Every account that may write a pod's status can write this message.
const MOST_BYTES: usize = 16 * 1024;
const MOST_NAMES: usize = 64;

fn said(pod: &Pod) -> BTreeMap<String, bool> {
    let message = pod
        .condition(UPGRADABLE)
        .map(|condition| &condition.message);
    let read = message
        .filter(|text| text.len() <= MOST_BYTES)
        .and_then(|text| serde_json::from_str(text).ok());
    read.unwrap_or_default()
}

/// The value of the condition for this SidecarSet.
pub(in crate::sidecarset) fn says(pod: &Pod, set: &str) -> Option<bool> {
    said(pod).get(set).copied()
}

/// Whether the condition has a value for this SidecarSet.
pub fn speaks_of(pod: &Pod, set: &str) -> bool {
    // Most pods' conditions name other SidecarSets, so a search in the text is enough. A
    // SidecarSet's name needs no escaping.
    let may = pod
        .condition(UPGRADABLE)
        .is_some_and(|condition| condition.message.contains(&format!("\"{set}\"")));
    may && says(pod, set).is_some()
}

/// The SidecarSets that the condition names.
pub fn spoken_of(pod: &Pod) -> Vec<String> {
    let names = said(pod)
        .into_keys()
        .filter(|name| Name::parse(name).is_ok());
    names.take(MOST_NAMES).collect()
}

/// The write that sets the value for this SidecarSet; `None` if the condition has it already.
pub(in crate::sidecarset) fn step(pod: &Pod, set: &str, can: bool, now: Timestamp) -> Option<Step> {
    let mut sets = said(pod);
    if sets.insert(set.to_owned(), can) == Some(can) {
        return None;
    }
    Some(write(
        pod,
        &sets,
        if can {
            "can be updated in place"
        } else {
            "differs in more than images"
        },
        now,
    ))
}

/// The write that removes this SidecarSet from the condition; `None` if the condition does not name
/// it.
fn without(pod: &Pod, set: &str, now: Timestamp) -> Option<Step> {
    if !speaks_of(pod, set) || !pod.is_active() {
        return None;
    }
    let mut sets = said(pod);
    sets.remove(set)?;
    Some(write(
        pod,
        &sets,
        &format!("has nothing of SidecarSet {set} any more, of which its condition speaks"),
        now,
    ))
}

fn write(pod: &Pod, sets: &BTreeMap<String, bool>, what: &str, now: Timestamp) -> Step {
    let old = pod.condition(UPGRADABLE);
    let all = sets.values().all(|can| *can);
    let (status, reason) = if all {
        ("True", "AllSidecarsetUpgradable")
    } else {
        ("False", "UpdateImmutableField")
    };
    let since = old
        .filter(|condition| &*condition.status == status)
        .and_then(|condition| condition.last_transition_time);
    let condition = Condition {
        type_: UPGRADABLE.into(),
        status: status.into(),
        last_transition_time: since.or(Some(now)),
        reason: reason.into(),
        // A map with string keys always serialises.
        message: serde_json::to_string(&sets).unwrap_or_default().into(),
    };
    let target = Target::as_seen(&pod.metadata);
    let action = Action::PatchPodStatus {
        target,
        conditions: vec![condition],
        patch: PodPatch::default(),
    };
    Step::new(
        action,
        format!(
            "pod {}/{} {what}",
            pod.metadata.namespace, pod.metadata.name
        ),
    )
}

/// The plan after a SidecarSet is gone: removes its name from the conditions of these pods.
pub fn forget<'a>(set: &str, pods: impl IntoIterator<Item = &'a Arc<Pod>>, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    plan.add_stage(
        "conditions of pods",
        pods.into_iter()
            .filter_map(|pod| without(pod, set, now))
            .collect(),
    );
    plan
}

/// The same for pods that a SidecarSet no longer selects, or that do not have its containers,
/// without pods that this round writes in another way.
pub(in crate::sidecarset) fn forget_strangers(
    snapshot: &Snapshot,
    members: &BTreeSet<&str>,
    written: &BTreeSet<Option<String>>,
    (plan, now): (&mut Plan, Timestamp),
) {
    let bare = snapshot
        .pods
        .iter()
        .filter(|pod| !members.contains(&*pod.metadata.uid));
    let strangers = snapshot.strangers.iter().chain(bare);
    let strangers = strangers.filter(|pod| !written.contains(&Some(pod.metadata.uid.to_string())));
    plan.stages
        .extend(forget(snapshot.name(), strangers, now).stages);
}

#[cfg(test)]
mod tests;
