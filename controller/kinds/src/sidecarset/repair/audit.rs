//! Pods that lack the containers which a SidecarSet gives to new pods, and the reasons.

use std::sync::Arc;

use berth_workload::objects::pod::Pod;
use berth_workload::update::revision;
use jiff::Timestamp;
use serde_json::json;

use super::refused;
use crate::sidecarset::update::pods::Member;
use crate::sidecarset::{Snapshot, on_pod};

/// The reason why a pod needs repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::sidecarset) enum Lack {
    /// It lacks the containers, though it was created while the selectors were in force: the
    /// apiserver did not call the webhook, or no replica answered.
    Missed,
    /// It lacks the containers, because their injection was refused when the pod was created.
    Refused,
    /// It lacks the containers, because it is older than the SidecarSet, than its present
    /// selectors, or than the labels by which they select its namespace.
    Older,
    /// It lacks the latest containers, and no update in place can bring them.
    NotUpgradable,
}

impl Lack {
    /// In words that follow the pod.
    pub(in crate::sidecarset) const fn words(self) -> &'static str {
        match self {
            Self::Missed => {
                "was created while the SidecarSet selected it, and has none of its containers"
            }
            Self::Refused => {
                "was refused the containers of the SidecarSet when it was created, and has none of them"
            }
            Self::Older => {
                "is older than the SidecarSet, its selectors or its namespace's labels, and has none of the containers"
            }
            Self::NotUpgradable => {
                "differs from the SidecarSet in more than images, which no update in place can change"
            }
        }
    }
}

/// The hash by which a status records the selectors that it is about.
pub(in crate::sidecarset) fn selector_hash(snapshot: &Snapshot) -> String {
    let spec = &snapshot.set.spec;
    revision::hash(&json!([spec.selector, spec.namespace_selector]), 0)
}

/// The time since when the selectors are in force. The status has it for the selectors that it is
/// about. For other selectors the time is now, so that no pod counts as missed for which the
/// apiserver could not have called the webhook. Pods state their age in whole seconds, so the time
/// is rounded up.
pub(in crate::sidecarset) fn in_force_since(
    snapshot: &Snapshot,
    now: Timestamp,
) -> Option<Timestamp> {
    let made = snapshot
        .set
        .metadata
        .creation_timestamp
        .as_ref()
        .map(|time| time.0);
    let said = snapshot
        .set
        .status
        .as_ref()
        .and_then(|status| status.injection.as_ref());
    match said.filter(|said| !said.selector_hash.is_empty()) {
        None => made,
        Some(said) if said.selector_hash == selector_hash(snapshot) => {
            made.max(said.since.as_ref().map(|time| time.0))
        }
        Some(_) => made.max(next_second(now)),
    }
}

fn next_second(time: Timestamp) -> Option<Timestamp> {
    Timestamp::from_second(time.as_second().saturating_add(1)).ok()
}

/// The pods that need repair.
pub(in crate::sidecarset) fn lacking<'a>(
    snapshot: &'a Snapshot,
    members: &[Member<'a>],
    now: Timestamp,
) -> Vec<(&'a Arc<Pod>, Lack)> {
    let since = in_force_since(snapshot, now);
    let without = snapshot
        .pods
        .iter()
        .filter(|pod| pod.is_active() && !on_pod::is_injected(pod, snapshot.name()));
    let without = without.map(|pod| {
        // Before its namespace had the label, the apiserver could not have called the webhook for
        // the pod. That time is in whole seconds, too.
        let labelled = snapshot
            .labelled
            .get(&pod.metadata.namespace)
            .and_then(|time| next_second(*time));
        let lack = if pod.metadata.creation_timestamp < since.max(labelled) {
            Lack::Older
        } else if refused::reason(pod, snapshot.name()).is_some() {
            Lack::Refused
        } else {
            Lack::Missed
        };
        (pod, lack)
    });
    let outdated = members
        .iter()
        .filter(|member| !member.is_updated && !member.is_upgradable);
    without
        .chain(outdated.map(|member| (member.pod, Lack::NotUpgradable)))
        .collect()
}

#[cfg(test)]
mod tests;
