//! Budgets of another cluster that may hold the same pods. Each pod counts once. The reader of
//! another cluster reads no pods, so that only the selectors say which pods two budgets share.

use std::cmp::{max, min};
use std::collections::BTreeSet;

use berth_api::v1alpha1::DistributedPodDisruptionBudget;
use berth_api::v1alpha1::distributedpoddisruptionbudget::{Member, MemberKind};
use berth_api::v1beta1::PodUnavailableBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::federation::{Brings, Silence};
use crate::budget::native::NativeBudget;
use crate::objects::selector::Selector;

/// The largest selector that is kept and compared, in bytes, because another cluster can send a
/// selector of any size.
const LARGEST: usize = 8 << 10;

/// The pods of its namespace that a budget holds, from its object alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Held {
    /// Pods whose labels match.
    Selected {
        /// The selector.
        selector: Selector,
        /// The selector of ignored pods.
        ignored: Option<Selector>,
    },
    /// The pods are unknown: it may be any of the namespace.
    Unknown,
}

impl Held {
    /// From the selector in the spec.
    pub fn of_distributed(budget: &DistributedPodDisruptionBudget) -> Self {
        read(&budget.spec.selector).map_or(Self::Unknown, |selector| Self::Selected {
            selector,
            ignored: None,
        })
    }

    /// From the selector in the spec, or from the workload's selector in the status, by which the
    /// number in the same status was counted.
    pub fn of_unavailable(budget: &PodUnavailableBudget) -> Self {
        let spec = &budget.spec;
        let selector = match (&spec.selector, &spec.target_ref) {
            (Some(selector), None) => read(selector),
            (None, Some(_)) => counted_by(budget),
            _ => None,
        };
        match (selector, spec.ignored_pod_selector.as_ref().map(read)) {
            (Some(selector), None) => Self::Selected {
                selector,
                ignored: None,
            },
            (Some(selector), Some(Some(ignored))) => Self::Selected {
                selector,
                ignored: Some(ignored),
            },
            _ => Self::Unknown,
        }
    }

    /// From the selector in the spec. `None` if there is no selector, so that the budget holds no
    /// pod.
    pub fn of_native(budget: &NativeBudget) -> Option<Self> {
        let selector = read(budget.spec.selector.as_ref()?);
        Some(selector.map_or(Self::Unknown, |selector| Self::Selected {
            selector,
            ignored: None,
        }))
    }

    /// Whether one pod may match both.
    fn may_share(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Selected { selector: one, .. },
                Self::Selected {
                    selector: other, ..
                },
            ) => !one.excludes(other),
            _ => true,
        }
    }

    /// Whether both certainly hold the same pods.
    fn is_same(&self, other: &Self) -> bool {
        matches!(self, Self::Selected { .. }) && self == other
    }
}

fn read(selector: &LabelSelector) -> Option<Selector> {
    Selector::new(selector)
        .ok()
        .filter(|selector| selector.weight() <= LARGEST)
}

fn counted_by(budget: &PodUnavailableBudget) -> Option<Selector> {
    let text = budget
        .status
        .as_ref()?
        .ledger
        .as_ref()?
        .selector
        .as_deref()?;
    Selector::parse(text)
        .ok()
        .filter(|selector| selector.weight() <= LARGEST)
}

/// A budget of another cluster. Empty for a budget in this cluster, whose pods are known and
/// counted once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Elsewhere {
    /// Its kind, once a read has found it.
    pub kind: Option<MemberKind>,
    /// The pods that it holds. `None` if it holds none.
    pub held: Option<Held>,
    /// The other contexts that may lead to the same cluster as the budget's own context.
    pub aliases: BTreeSet<String>,
}

/// A budget in `spec.federation`, and its own contribution.
#[derive(Debug)]
pub struct Brought<'a> {
    /// Its context, namespace and name.
    pub member: &'a Member,
    /// Its object in the other cluster.
    pub elsewhere: &'a Elsewhere,
    /// Its contribution.
    pub brings: &'a mut Result<Brings, Silence>,
}

/// The pods that budgets in `spec.federation` share.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sharing {
    /// How many healthy pods of each budget are counted already, or may be.
    pub counted: Vec<usize>,
    /// The budgets that may hold the same pods, by their indexes in `spec.federation`.
    pub groups: Vec<Vec<usize>>,
}

/// Subtracts pods that may be counted already from each contribution, in order. A budget that
/// another context names again contributes nothing.
///
/// The shared pods are unknown. Budgets that may hold the same pods hold at least as many pods as
/// the largest of them, and at most the sum of all. The number that lets fewer pods leave counts:
/// - Healthy pods and pods of a floor: the minimum, which is the number of the largest budget.
/// - Expected pods: the maximum, which is the sum, because more expected pods require more healthy
///   pods. Only budgets that certainly hold the same pods expect as many as the largest of them.
pub fn count_once(all: &mut [Brought<'_>]) -> Sharing {
    let mut counted = vec![0; all.len()];
    leave_out_again(all, &mut counted);
    let groups = groups(all);
    for group in &groups {
        let alone: Vec<usize> = group.iter().map(|at| expected(&all[*at])).collect();
        let mut most_healthy = 0;
        for (place, at) in group.iter().enumerate() {
            let before = group[..place].iter().zip(&alone);
            let same = before.filter(|(other, _)| is_same(&all[**other], &all[*at]));
            let most_expected = same.map(|(_, expected)| *expected).max().unwrap_or(0);
            let healthy = match &mut *all[*at].brings {
                Ok(brings) => {
                    brings.expected = brings.expected.saturating_sub(most_expected);
                    &mut brings.healthy
                }
                Err(silence) => &mut silence.keeps,
            };
            counted[*at] = min(*healthy, most_healthy);
            most_healthy = max(most_healthy, *healthy);
            *healthy -= counted[*at];
        }
    }
    Sharing { counted, groups }
}

/// Marks the contribution of each repeated budget as unknown. If the allowed number depends on
/// expected pods, no pod may then leave. Two contexts only seem to lead to one cluster, and two
/// different budgets must not count as one.
fn leave_out_again(all: &mut [Brought<'_>], counted: &mut [usize]) {
    for (at, counted) in counted.iter_mut().enumerate() {
        let (before, from) = all.split_at_mut(at);
        let Some(one) = from.first_mut() else { return };
        let Some(first) = before
            .iter()
            .find(|other| brings_any(other) && is_again(one, other))
        else {
            continue;
        };
        *counted = one
            .brings
            .as_ref()
            .map_or_else(|silence| silence.keeps, |brings| brings.healthy);
        *one.brings = Err(Silence::of(again(&first.member.cluster)));
    }
}

/// Why a budget that an earlier context names contributes nothing again.
fn again(context: &str) -> String {
    format!(
        "is that of context {context:?} again, for both contexts lead to one cluster as far as is known, so it counts there alone: take one of \
         the two out of spec.federation; where one cluster was made of a copy of the other, delete the Lease of the controllers in one of them"
    )
}

/// Whether both name the same budget by different contexts.
fn is_again(one: &Brought<'_>, other: &Brought<'_>) -> bool {
    let is_named_so =
        one.member.namespace == other.member.namespace && one.member.name == other.member.name;
    let is_kind = one.elsewhere.kind.is_some() && one.elsewhere.kind == other.elsewhere.kind;
    is_named_so
        && is_kind
        && one.member.cluster != other.member.cluster
        && may_be_together(one, other)
}

/// Whether both may be in one cluster.
fn may_be_together(one: &Brought<'_>, other: &Brought<'_>) -> bool {
    one.member.cluster == other.member.cluster
        || one.elsewhere.aliases.contains(&other.member.cluster)
        || other.elsewhere.aliases.contains(&one.member.cluster)
}

fn expected(one: &Brought<'_>) -> usize {
    one.brings.as_ref().map_or(0, |brings| brings.expected)
}

/// Whether both certainly hold the same pods. That two contexts lead to one cluster is never
/// certain.
fn is_same(one: &Brought<'_>, other: &Brought<'_>) -> bool {
    let held = one
        .elsewhere
        .held
        .as_ref()
        .zip(other.elsewhere.held.as_ref());
    one.member.cluster == other.member.cluster
        && held.is_some_and(|(one, other)| one.is_same(other))
}

/// Whether both may count one pod.
fn may_share(one: &Brought<'_>, other: &Brought<'_>) -> bool {
    let held = one
        .elsewhere
        .held
        .as_ref()
        .zip(other.elsewhere.held.as_ref());
    one.member.namespace == other.member.namespace
        && may_be_together(one, other)
        && held.is_some_and(|(one, other)| one.may_share(other))
}

/// Whether the budget contributes anything. A budget with an unknown contribution and no floor
/// contributes nothing.
fn brings_any(one: &Brought<'_>) -> bool {
    one.brings
        .as_ref()
        .err()
        .is_none_or(|silence| silence.keeps > 0)
}

/// Groups of budgets that may share pods, directly or through other budgets of the group.
fn groups(all: &[Brought<'_>]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (at, one) in all.iter().enumerate().filter(|(_, one)| brings_any(one)) {
        let (near, apart): (Vec<_>, Vec<_>) = groups
            .into_iter()
            .partition(|group| group.iter().any(|other| may_share(&all[*other], one)));
        groups = apart;
        let mut group: Vec<usize> = near.into_iter().flatten().chain([at]).collect();
        group.sort_unstable();
        groups.push(group);
    }
    groups.retain(|group| group.len() > 1);
    groups.sort_unstable();
    groups
}

#[cfg(test)]
mod tests;
