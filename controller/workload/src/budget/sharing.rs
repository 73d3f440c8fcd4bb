//! Budgets of another cluster that may hold the same pods, each of which counts once. Who reads there reads no pods, so what two of them
//! share is told by what they select alone.

use std::cmp::{max, min};
use std::collections::BTreeSet;

use berth_api::v1alpha1::DistributedPodDisruptionBudget;
use berth_api::v1alpha1::distributedpoddisruptionbudget::{Member, MemberKind};
use berth_api::v1beta1::PodUnavailableBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::federation::{Brings, Silence};
use crate::budget::native::NativeBudget;
use crate::objects::selector::Selector;

/// The largest selector that is kept and compared, in bytes: another cluster may tell any.
const LARGEST: usize = 8 << 10;

/// Which pods of its namespace a budget holds, by its object alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Held {
    /// Those of these labels.
    Selected {
        /// Which.
        selector: Selector,
        /// Which of them it leaves out.
        ignored: Option<Selector>,
    },
    /// It may be any.
    Unknown,
}

impl Held {
    /// As its selector says.
    pub fn of_distributed(budget: &DistributedPodDisruptionBudget) -> Self {
        read(&budget.spec.selector).map_or(Self::Unknown, |selector| Self::Selected {
            selector,
            ignored: None,
        })
    }

    /// As its selector says; or the labels by which the pods of its workload were counted, which the same status tells as their number.
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

    /// As its selector says; `None`: without one it holds no pod.
    pub fn of_native(budget: &NativeBudget) -> Option<Self> {
        let selector = read(budget.spec.selector.as_ref()?);
        Some(selector.map_or(Self::Unknown, |selector| Self::Selected {
            selector,
            ignored: None,
        }))
    }

    /// Whether one pod may be of both.
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

    /// Whether each pod of one is of the other, too.
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

/// What a budget of another cluster is. Nothing is said of one in this cluster: its pods themselves are known, and counted once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Elsewhere {
    /// Its kind, once it was found.
    pub kind: Option<MemberKind>,
    /// Which pods. `None` where none.
    pub held: Option<Held>,
    /// The other contexts that may lead to the same cluster as its own.
    pub aliases: BTreeSet<String>,
}

/// A budget of federation, and what it brings alone.
#[derive(Debug)]
pub struct Brought<'a> {
    /// Where it is.
    pub member: &'a Member,
    /// What it is there.
    pub elsewhere: &'a Elsewhere,
    /// How many.
    pub brings: &'a mut Result<Brings, Silence>,
}

/// What budgets of federation have in common.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sharing {
    /// How many healthy pods of each are counted already, or may be.
    pub counted: Vec<usize>,
    /// Which of them may hold the same pods, by their places in federation.
    pub groups: Vec<Vec<usize>>,
}

/// Takes from what each of them brings, in their order, what may be counted already. One that is named once more, by another context,
/// brings nothing.
///
/// Nothing is certain but this: budgets that may hold the same pods hold together at least as many as the largest of them, and at most as
/// many as all of them. Whichever number lets fewer pods go is the one that counts:
/// - healthy ones, and those that stay by a floor: the fewest that there can be, as many as the largest has;
/// - expected ones: the most that there can be, as many as all have, for the more are expected, the more must be healthy. Only those that
///   hold the very same pods expect together what the largest of them does.
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

/// Silences each that is one before it again. Then none may go where it matters how many are expected: contexts that only seem to lead to
/// one cluster must not make too few of two.
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

/// Why one brings nothing that a context before its own has brought.
fn again(context: &str) -> String {
    format!(
        "is that of context {context:?} again, for both contexts lead to one cluster as far as is known, so it counts there alone: take one of \
         the two out of spec.federation; where one cluster was made of a copy of the other, delete the Lease of the controllers in one of them"
    )
}

/// Whether one is the very budget that another is, by another context.
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

/// Whether both hold the very same pods. Nobody is certain of that where they are only as far as is known in one cluster.
fn is_same(one: &Brought<'_>, other: &Brought<'_>) -> bool {
    let held = one
        .elsewhere
        .held
        .as_ref()
        .zip(other.elsewhere.held.as_ref());
    one.member.cluster == other.member.cluster
        && held.is_some_and(|(one, other)| one.is_same(other))
}

/// Whether one pod may be counted by both.
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

/// One that is silent and has no floor brings none.
fn brings_any(one: &Brought<'_>) -> bool {
    one.brings
        .as_ref()
        .err()
        .is_none_or(|silence| silence.keeps > 0)
}

/// Those that may share pods with one another, each directly or by others between them.
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
