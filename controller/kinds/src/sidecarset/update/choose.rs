//! Chooses the pods that get the new images now.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::fields::update_order::UpdateScatterTerm;
use berth_api::v1beta1::sidecarset::SidecarSetLostPod;
use berth_workload::objects::intstr::{self, Round};
use berth_workload::objects::pod::Pod;
use berth_workload::objects::selector::Selector;
use berth_workload::update::pod_order;
use berth_workload::update::update_order::UpdateOrder;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::ahead;
use super::pods::Member;
use super::settings::{Settings, unreadable};
use crate::sidecarset::Snapshot;

/// The pods that are updated now, and those that are not.
#[derive(Default)]
pub(in crate::sidecarset) struct Chosen<'a> {
    /// The pods to update now, in order.
    pub(in crate::sidecarset) now: Vec<&'a Member<'a>>,
    /// The pods that wait, each with the reason.
    pub(in crate::sidecarset) later: Vec<(&'a Member<'a>, String)>,
    /// Pods out of service for updates and repair, those that are updated now among them.
    pub(in crate::sidecarset) unavailable: usize,
    /// How long until the first pod stops to count as unavailable. `None` if no pod waits, or if no
    /// pod's count ends by time alone.
    pub(in crate::sidecarset) ends_after: Option<SignedDuration>,
}

/// The message for pods that wait because none may be out of service.
pub(in crate::sidecarset) const NO_BUDGET: &str = "waits, for spec.updateStrategy.maxUnavailable is 0, and no pod that serves is updated: set it to 1 or more";

impl Settings {
    /// The settings of the spec for these pods. `repaired` pods are out of service for repair.
    /// `lost` are pods that repair deleted and whose workloads have not replaced them.
    ///
    /// # Errors
    /// The sentence names the field, the value and the remedy.
    pub(in crate::sidecarset) fn new(
        snapshot: &Snapshot,
        members: &[Member<'_>],
        (repaired, lost): (usize, Vec<SidecarSetLostPod>),
        now: Timestamp,
    ) -> Result<Self, String> {
        let strategy = &snapshot.set.spec.update_strategy;
        let field = |name: &str, error: String| format!("spec.updateStrategy.{name}: {error}");
        let selector = strategy.selector.as_ref().map(Selector::new).transpose();
        let (all, total) = (members.iter().map(|member| member.pod), members.len());
        let max_unavailable = strategy
            .max_unavailable
            .clone()
            .unwrap_or(IntOrString::Int(1));
        Ok(Self {
            waits: if !snapshot.updates() {
                Some("stays, for spec.updateStrategy.type is NotUpdate")
            } else {
                strategy
                    .paused
                    .then_some("waits, for spec.updateStrategy.paused is true")
            },
            selector: selector.map_err(|error| field("selector", error))?,
            partition: intstr::partition(strategy.partition.as_ref(), total)
                .map_err(|error| field("partition", error))?,
            max_unavailable: intstr::resolve(&max_unavailable, total, Round::Up)
                .map_err(|error| field("maxUnavailable", error))?,
            repaired,
            lost,
            order: UpdateOrder::new(
                strategy.priority_strategy.as_ref(),
                &terms(&strategy.scatter_strategy, all),
            )
            .map_err(|error| field("priorityStrategy", error))?,
            turns: snapshot.turns.clone(),
            hash: snapshot.hashes.hash.clone(),
            now,
        })
    }

    /// Whether the selector of the update strategy matches the pod. Without a selector every pod
    /// matches.
    pub(in crate::sidecarset) fn selects(&self, pod: &Pod) -> bool {
        self.selector
            .as_ref()
            .is_none_or(|selector| selector.matches(|key| pod.metadata.label(key)))
    }

    /// Whether the pod needs an update, an update in place is possible, and the selector matches.
    /// The limits do not count.
    pub(in crate::sidecarset) fn reaches(&self, member: &Member<'_>) -> bool {
        !member.is_updated && member.is_upgradable && self.selects(member.pod)
    }

    /// Whether all of `pods` pods may be updated at once.
    pub(in crate::sidecarset) const fn updates_all_at_once(&self, pods: usize) -> bool {
        self.partition == 0 && self.max_unavailable >= pods
    }

    /// The message for a pod that waits while so many pods count. `first` is one of them.
    fn waits_for(&self, unavailable: usize, first: Option<&Member<'_>>) -> String {
        if self.max_unavailable == 0 {
            return NO_BUDGET.to_owned();
        }
        let first = first.map(|first| &first.pod.metadata);
        let first = first.map_or_else(String::new, |pod| {
            format!(", {}/{} among them", pod.namespace, pod.name)
        });
        format!(
            "waits for spec.updateStrategy.maxUnavailable: {unavailable} of {} that may be are out of service{first}",
            self.max_unavailable
        )
    }

    /// Whether no pod that serves may be updated.
    pub(in crate::sidecarset) const fn has_no_budget(&self) -> bool {
        self.max_unavailable == 0
    }

    /// Whether the partition keeps pods as they are.
    pub(in crate::sidecarset) const fn has_partition(&self) -> bool {
        self.partition > 0
    }
}

/// The scatter terms without duplicates. A term with the value `*` becomes one term for each value
/// that the label has on these pods.
fn terms<'a>(
    wanted: &[UpdateScatterTerm],
    pods: impl Iterator<Item = &'a Arc<Pod>> + Clone,
) -> Vec<UpdateScatterTerm> {
    let mut terms: Vec<UpdateScatterTerm> = Vec::new();
    for term in wanted {
        let values: BTreeSet<_> = if term.value == "*" {
            pods.clone()
                .filter_map(|pod| pod.metadata.label(&term.key))
                .map(str::to_owned)
                .collect()
        } else {
            [term.value.clone()].into()
        };
        let new = values.into_iter().map(|value| UpdateScatterTerm {
            key: term.key.clone(),
            value,
        });
        let new: Vec<_> = new.filter(|new| !terms.contains(new)).collect();
        terms.extend(new);
    }
    terms
}

/// The reason why an outdated pod waits although the limits allow its update, and how long it waits
/// at most. Its updates failed repeatedly, or its node still downloads the new image.
pub(in crate::sidecarset) fn held(
    snapshot: &Snapshot,
    latest: &str,
    member: &Member<'_>,
    now: Timestamp,
) -> Option<(String, SignedDuration)> {
    let aside = snapshot
        .turns
        .held(&member.pod.metadata.uid, &snapshot.hashes.hash, now);
    aside.or_else(|| ahead::held(snapshot, latest, member, now))
}

/// Chooses the pods to update. A pod that serves waits until `maxUnavailable` allows its update. A
/// pod that does not serve waits for this only while a pod with the new images fails. `held` gives
/// the reason if a pod waits for something else.
pub(in crate::sidecarset) fn choose<'a>(
    settings: &Settings,
    members: &'a [Member<'a>],
    mut held: impl FnMut(&Member<'_>) -> Option<String>,
) -> Chosen<'a> {
    let mut chosen = Chosen::default();
    let mut candidates: Vec<&Member<'_>> = Vec::new();
    for member in members
        .iter()
        .filter(|member| !member.is_updated && member.is_upgradable)
    {
        match stays(settings, member) {
            Some(why) => chosen.later.push((member, why)),
            None => candidates.push(member),
        }
    }
    let candidates = in_order(settings, members, &candidates);
    let (turn, staying) = candidates.split_at(candidates.len().saturating_sub(settings.partition));
    chosen.later.extend(staying.iter().map(|member| {
        (
            *member,
            "stays, for spec.updateStrategy.partition".to_owned(),
        )
    }));
    let counted: Vec<_> = members
        .iter()
        .filter_map(|member| Some((member, member.counts_for(settings.now)?)))
        .collect();
    let mut unavailable = settings.repaired + counted.len();
    let fails = members
        .iter()
        .any(|member| member.is_updated && member.failing.is_some());
    for member in turn {
        if let Some(why) = settings.waits.map(str::to_owned).or_else(|| held(member)) {
            chosen.later.push((member, why));
            continue;
        }
        let is_free = !member.is_ready && !fails;
        // A pod that is on the way to an earlier form is counted already, and must not count twice.
        let own = usize::from(member.counts_for(settings.now).is_some());
        if !is_free && unavailable - own >= settings.max_unavailable {
            let first = counted
                .first()
                .map(|(first, _)| *first)
                .or_else(|| chosen.now.first().copied());
            chosen
                .later
                .push((member, settings.waits_for(unavailable, first)));
            let limited = counted
                .iter()
                .map(|(_, left)| *left)
                .filter(|left| *left < SignedDuration::MAX);
            chosen.ends_after = limited.min();
            continue;
        }
        unavailable += 1 - own;
        chosen.now.push(member);
    }
    chosen.unavailable = unavailable;
    chosen
}

/// Why an outdated pod is no candidate.
fn stays(settings: &Settings, member: &Member<'_>) -> Option<String> {
    if !settings.selects(member.pod) {
        return Some("is not selected by spec.updateStrategy.selector".to_owned());
    }
    if let Some(why) = member.unreadable {
        return Some(unreadable(why));
    }
    let unproven = member.unproven.as_ref();
    let why = unproven.filter(|_| member.failing.is_none())?;
    Some(format!("its last update is under way: {why}"))
}

/// The candidates in the order of their updates. The namespaces take turns, and within a namespace
/// the spec gives the order.
fn in_order<'a>(
    settings: &Settings,
    members: &[Member<'_>],
    candidates: &[&'a Member<'a>],
) -> Vec<&'a Member<'a>> {
    let mut pods: Vec<_> = candidates.iter().map(|member| member.pod.clone()).collect();
    pod_order::for_update(&mut pods);
    let all: Vec<_> = members.iter().map(|member| member.pod.clone()).collect();
    let pods = settings.turns.by_namespace(
        settings.order.arrange(pods, &all),
        &settings.hash,
        settings.now,
    );
    let members: BTreeMap<_, _> = candidates
        .iter()
        .map(|member| (&*member.pod.metadata.uid, *member))
        .collect();
    pods.iter()
        .filter_map(|pod| members.get(&*pod.metadata.uid).copied())
        .collect()
}

#[cfg(test)]
mod tests;
