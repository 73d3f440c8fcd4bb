//! What budgets contribute to a budget that names them, and how many own pods must then stay.

use std::cmp::{max, min};

use berth_api::names::condition::TOTAL_KNOWN;
use berth_api::v1alpha1::DistributedPodDisruptionBudget;
use berth_api::v1beta1::PodUnavailableBudget;
use berth_api::v1beta1::podunavailablebudget::PodUnavailableBudgetStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::Amount;
use super::ledger::is_counted;
use crate::budget::native::NativeBudget;

/// The pods that one budget contributes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Brings {
    /// How many are healthy, without the granted ones.
    pub healthy: usize,
    /// How many are expected.
    pub expected: usize,
}

/// How many of a budget's pods another budget already contributes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shared {
    /// Pods that the selector matches: each of them may be a healthy pod of the budget.
    pub pods: usize,
    /// Expected pods.
    pub expected: usize,
}

/// The contribution of a budget is unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Silence {
    /// The cause, with the remedy.
    pub why: String,
    /// How many of its pods are certain to stay nevertheless.
    pub keeps: usize,
}

impl Silence {
    /// An unknown contribution with its cause. No pods are certain to stay.
    pub fn of(why: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            keeps: 0,
        }
    }
}

const NOT_COUNTED: &str = "has not counted its pods since it was made or changed";
const NO_TOTAL: &str =
    "does not know how many pods are expected: set spec.protectTotalReplicas there";
const NOT_REPORTED: &str = "was made or changed a moment ago, and which of its pods are counted already is not told yet: try again";

fn number(number: i32) -> usize {
    usize::try_from(number).unwrap_or(0)
}

impl Brings {
    /// The own pods of a budget that federates others.
    ///
    /// # Errors
    /// The budget has not counted its pods.
    pub fn of_distributed(budget: &DistributedPodDisruptionBudget) -> Result<Self, Silence> {
        let status = budget
            .status
            .as_ref()
            .ok_or_else(|| Silence::of(NOT_COUNTED))?;
        let is_counted = status
            .ledger
            .as_ref()
            .is_some_and(|ledger| !ledger.counted.is_empty());
        if !is_counted
            || budget.metadata.generation.unwrap_or_default() != status.observed_generation
        {
            return Err(Silence::of(NOT_COUNTED));
        }
        Ok(Self {
            healthy: number(status.own.healthy),
            expected: number(status.own.expected),
        })
    }

    /// The contribution of a PodUnavailableBudget.
    ///
    /// # Errors
    /// The budget has not counted its pods, or the number of expected pods is unknown.
    pub fn of_unavailable(budget: &PodUnavailableBudget) -> Result<Self, Silence> {
        let status = budget
            .status
            .as_ref()
            .ok_or_else(|| Silence::of(NOT_COUNTED))?;
        if !is_counted(status, budget.metadata.generation.unwrap_or_default()) {
            return Err(Silence::of(NOT_COUNTED));
        }
        // Fewer pods may exist than are expected, and then too many pods of other budgets could
        // leave.
        if status
            .conditions
            .iter()
            .any(|condition| condition.type_ == TOTAL_KNOWN)
        {
            return Err(Silence::of(NO_TOTAL));
        }
        Ok(Self::of_account(status))
    }

    /// The own pods of a budget, from its status.
    pub fn of_account(status: &PodUnavailableBudgetStatus) -> Self {
        Self {
            healthy: number(status.current_available),
            expected: number(status.total_replicas),
        }
    }

    /// The contribution of a native budget: the numbers of Kubernetes, less what the eviction API
    /// has granted since.
    ///
    /// # Errors
    /// Kubernetes has not counted the pods.
    pub fn of_native(budget: &NativeBudget) -> Result<Self, Silence> {
        let status = &budget.status;
        if status.observed_generation != budget.metadata.generation
            || status.observed_generation == 0
        {
            return Err(Silence::of(NOT_COUNTED));
        }
        let granted = status.disrupted_pods.len();
        let healthy = number(status.current_healthy).saturating_sub(granted);
        Ok(Self {
            healthy,
            expected: number(status.expected_pods),
        })
    }

    /// Subtracts pods that another budget already contributes. All of them are assumed to be
    /// healthy, so that the result is never too high.
    pub fn without(self, shared: Shared) -> Self {
        let healthy = self.healthy.saturating_sub(shared.pods);
        Self {
            healthy,
            expected: self.expected.saturating_sub(shared.expected),
        }
    }

    /// Limits the healthy pods to the expected ones. Another cluster's tenants write these numbers:
    /// with surplus pods, they could let more local pods leave than `maxUnavailable` allows.
    pub fn without_surplus(self) -> Self {
        Self {
            healthy: min(self.healthy, self.expected),
            ..self
        }
    }

    /// Takes each number from the side that lets fewer pods leave.
    pub fn at_most(self, other: Self) -> Self {
        Self {
            healthy: min(self.healthy, other.healthy),
            expected: max(self.expected, other.expected),
        }
    }
}

/// The identity of a budget and of its spec. While neither changes, the budget selects the same
/// pods.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// Its uid.
    pub uid: String,
    /// Its generation.
    pub generation: i64,
}

impl Origin {
    /// The origin of a budget of Berth's kinds.
    pub fn of(metadata: &ObjectMeta) -> Self {
        let (uid, generation) = (metadata.uid.clone(), metadata.generation);
        Self {
            uid: uid.unwrap_or_default(),
            generation: generation.unwrap_or_default(),
        }
    }

    /// The origin of a native budget.
    pub fn of_native(budget: &NativeBudget) -> Self {
        Self {
            uid: budget.metadata.uid.to_string(),
            generation: budget.metadata.generation,
        }
    }
}

/// The leader's last report on a budget in this cluster that another budget names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemberReport {
    /// How many of its pods another budget already contributes.
    pub shared: Shared,
    /// The budget of the report. Empty if an older build wrote the report.
    pub origin: Origin,
    /// Its contribution without these pods; `None` if it was unknown.
    pub brought: Option<Brings>,
    /// Whether another counted budget of the same namespace may hold the same pods.
    pub may_share: bool,
}

impl MemberReport {
    /// The contribution of a budget that has these pods now. If another budget may hold the same
    /// pods, at most the reported contribution: only the leader knows whether newly counted pods
    /// are counted elsewhere.
    ///
    /// # Errors
    /// The leader has reported nothing on this budget.
    pub fn bring(&self, origin: &Origin, now: Brings) -> Result<Brings, Silence> {
        let now = now.without(self.shared);
        if !self.may_share {
            return Ok(now);
        }
        let is_it = self.origin.uid.is_empty() || self.origin == *origin;
        let brought = self
            .brought
            .filter(|_| is_it)
            .ok_or_else(|| Silence::of(NOT_REPORTED))?;
        Ok(now.at_most(brought))
    }
}

/// The pods of a budget and of the budgets that it names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Whole {
    /// How many pods of the other budgets are healthy.
    pub others: usize,
    /// How many own and other pods are expected.
    pub expected: usize,
    /// How many own and other pods must be healthy.
    pub desired: usize,
    /// Minimum number of own pods that stay healthy, even if other budgets have capacity.
    pub floor: usize,
}

impl Whole {
    /// Computes the sums from the expected own pods, the own pods that always stay, and the
    /// contributions of the other budgets.
    ///
    /// # Errors
    /// A contribution is unknown, and without its expected pods the number that must be healthy is
    /// unknown.
    pub fn of(
        amount: &Amount,
        (expected, floor): (usize, usize),
        others: &[Result<Brings, Silence>],
    ) -> Result<Self, String> {
        let silent = others
            .iter()
            .enumerate()
            .find_map(|(at, other)| Some((at, other.as_ref().err()?)));
        if amount.depends_on_total()
            && let Some((at, Silence { why, .. })) = silent
        {
            return Err(format!(
                "{} is of all expected pods, and how many spec.federation[{at}] expects is not known: it {why}; or set \
                 spec.minAvailable to a number of pods",
                amount.words()
            ));
        }
        // Other clusters can report arbitrarily large numbers.
        let sum = |all: usize, more: usize| all.saturating_add(more);
        let expected = others
            .iter()
            .flatten()
            .map(|brings| brings.expected)
            .fold(expected, sum);
        let healthy = |other: &Result<Brings, Silence>| {
            other
                .as_ref()
                .map_or_else(|silence| silence.keeps, |brings| brings.healthy)
        };
        let others = others.iter().map(healthy).fold(0, sum);
        Ok(Self {
            others,
            expected,
            desired: amount.desired(expected)?,
            floor,
        })
    }

    /// How many own pods must be healthy.
    pub fn left_to_own(&self) -> usize {
        max(self.desired.saturating_sub(self.others), self.floor)
    }

    /// How many of `own` healthy own pods may leave.
    pub fn allowed(&self, own: usize) -> usize {
        min(own, own.saturating_sub(self.left_to_own()))
    }
}
