//! Faults of a SidecarSet in view of other objects, for its admission.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::v1beta1::sidecarset::{PatchPolicy, SidecarContainer, SidecarSet, SidecarSetSpec};
use berth_workload::objects::selector::Selector;
use berth_workload::update::revision::Revision;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::metadata;
use super::{allowed, resources};
use crate::sidecarset::history::wanted::{base_of, pinned};
use crate::sidecarset::names::BASE;
use crate::sidecarset::sidecar;

/// Each fault, with field, value and remedy. `others` are the existing SidecarSets, including the
/// old form of this one. `history` has its revisions, and `allowed` the pod annotations that it may
/// write, if known.
pub fn faults(
    set: &SidecarSet,
    others: &[Arc<SidecarSet>],
    history: Option<&[Arc<Revision>]>,
    allowed: Option<&BTreeSet<String>>,
) -> Vec<String> {
    let mut faults = expressions(&set.spec);
    faults.extend(annotations(&set.spec, allowed));
    if let (Some(history), Some(pin)) = (history, &set.spec.injection_strategy.revision)
        && let Err(lost) = pinned(pin, history)
    {
        faults.push(lost);
    }
    let base = base_of(set);
    faults.extend(base.and_then(|base| of_base(set, base, others)));
    let is_beside = |other: &&Arc<SidecarSet>| {
        let (name, of_other) = (&other.metadata.name, base_of(other));
        // A pod that gets a canary does not get its base, but may get another canary of that base.
        let takes_turns = name.as_ref() == base || of_other == set.metadata.name.as_ref();
        *name != set.metadata.name && !takes_turns && may_meet_in_pods(&set.spec, &other.spec)
    };
    for other in others.iter().filter(is_beside) {
        faults.extend(conflicts(&set.spec, other));
    }
    faults
}

fn expressions(spec: &SidecarSetSpec) -> Vec<String> {
    let of = |(sidecar, list): (&SidecarContainer, sidecar::List)| {
        let policy = sidecar.resources_policy.as_ref()?;
        let at = format!(
            "spec.{}[{}].resourcesPolicy",
            list.name(),
            sidecar::name(sidecar)
        );
        Some(
            resources::problems(policy)
                .into_iter()
                .map(move |(field, problem)| format!("{at}.{field}: {problem}")),
        )
    };
    sidecar::all(spec).filter_map(of).flatten().collect()
}

/// The fault of a canary's base: the base must exist, and a canary can neither have a canary as its
/// base nor be one's base.
fn of_base(set: &SidecarSet, base: &String, others: &[Arc<SidecarSet>]) -> Option<String> {
    let field = format!("metadata.annotations[{BASE}]");
    let Some(found) = others
        .iter()
        .find(|other| other.metadata.name.as_ref() == Some(base))
    else {
        return Some(format!(
            "{field}: there is no SidecarSet {base}; name one that is there"
        ));
    };
    if let Some(of_base) = base_of(found) {
        return Some(format!(
            "{field}: {base} is a canary itself: name its base {of_base}"
        ));
    }
    let canary = others
        .iter()
        .find(|other| base_of(other) == set.metadata.name.as_ref())?;
    let canary = canary.metadata.name.as_deref().unwrap_or_default();
    Some(format!(
        "{field}: {canary} is a canary of this one, which cannot be a canary then: delete it, or remove the annotation"
    ))
}

/// Faults of annotations that no pod would get.
fn annotations(spec: &SidecarSetSpec, allowed: Option<&BTreeSet<String>>) -> Vec<String> {
    let mut faults = written_twice(spec);
    for (index, patch) in spec.patch_pod_metadata.iter().enumerate() {
        for key in patch.annotations.keys() {
            let why = if metadata::is_ours(key) {
                "is one by which a pod says which sidecars it has: remove it".to_owned()
            } else if allowed.is_some_and(|allowed| !allowed.contains(key)) {
                let key = allowed::KEY;
                format!(
                    "is not allowed by ConfigMap kruise-configuration, key {key}: add an expression there, or remove it"
                )
            } else {
                continue;
            };
            faults.push(format!(
                "spec.patchPodMetadata[{index}].annotations: Invalid value {key:?}: {why}"
            ));
        }
    }
    faults
}

/// Faults of annotations that one patch overwrites and another one writes: a second call of the
/// webhook would find another text than the first one.
fn written_twice(spec: &SidecarSetSpec) -> Vec<String> {
    let mut faults = Vec::new();
    let mut known = BTreeMap::new();
    for (index, key, policy) in writes(spec) {
        let before = known.insert(key, policy);
        if before.is_some_and(|before| collide(before, policy)) {
            faults.push(format!(
                "spec.patchPodMetadata[{index}].annotations: Invalid value {key:?}: another patch writes it, too: write it in one of them"
            ));
        }
    }
    faults
}

/// The annotations that patches write: the patch's index, the key, and how.
fn writes(spec: &SidecarSetSpec) -> impl Iterator<Item = (usize, &String, PatchPolicy)> {
    let patches = spec.patch_pod_metadata.iter().enumerate();
    let writing = patches.filter(|(_, patch)| patch.patch_policy != PatchPolicy::Retain);
    writing.flat_map(|(index, patch)| {
        let keys = patch.annotations.keys();
        keys.map(move |key| (index, key, patch.patch_policy))
    })
}

/// Whether two patches of one annotation give another text in another order.
fn collide(one: PatchPolicy, other: PatchPolicy) -> bool {
    [one, other].contains(&PatchPolicy::Overwrite)
}

/// Faults of parts that both SidecarSets would give a pod, and of which a pod can have only one.
fn conflicts(spec: &SidecarSetSpec, other: &SidecarSet) -> Vec<String> {
    let name = other.metadata.name.as_deref().unwrap_or_default();
    let remedy = format!("SidecarSet {name}, which may select the same pods");
    let mut faults = Vec::new();
    let in_pods = |spec: &SidecarSetSpec| -> BTreeSet<String> {
        sidecar::all(spec)
            .flat_map(|(sidecar, list)| sidecar::names_in_pod(sidecar, list))
            .collect()
    };
    for container in in_pods(spec).intersection(&in_pods(&other.spec)) {
        faults.push(format!(
            "spec.containers: {container} is a container of {remedy}: give it another name"
        ));
    }
    let volume_name =
        |volume: &serde_json::Map<String, serde_json::Value>| volume.get("name").cloned();
    for volume in &spec.volumes {
        let same = other
            .spec
            .volumes
            .iter()
            .find(|known| volume_name(known) == volume_name(volume));
        if same.is_some_and(|known| known != volume) {
            let volume = volume_name(volume).unwrap_or_default();
            faults.push(format!(
                "spec.volumes: {volume} is another volume in {remedy}: give it another name"
            ));
        }
    }
    for (_, key, policy) in writes(spec) {
        let meets =
            |(_, known, how): (usize, &String, PatchPolicy)| known == key && collide(how, policy);
        if writes(&other.spec).any(meets) {
            faults.push(format!(
                "spec.patchPodMetadata: {key} is written by {remedy}: write it in one of them"
            ));
        }
    }
    faults
}

/// Whether a pod may be selected by both. An invalid selector is another fault, and excludes no
/// pod.
fn may_meet_in_pods(one: &SidecarSetSpec, other: &SidecarSetSpec) -> bool {
    let both = |one: &Option<LabelSelector>, other: &Option<LabelSelector>| {
        let read = |selector: &Option<LabelSelector>| {
            selector.as_ref().and_then(|it| Selector::new(it).ok())
        };
        read(one)
            .zip(read(other))
            .is_none_or(|(one, other)| !one.excludes(&other))
    };
    both(&one.namespace_selector, &other.namespace_selector) && both(&one.selector, &other.selector)
}

#[cfg(test)]
mod tests;
