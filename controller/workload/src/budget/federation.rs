//! What budgets that are named by another bring, and what is left to the one that names them.

use std::cmp::{max, min};

use berth_api::names::condition::TOTAL_KNOWN;
use berth_api::v1alpha1::DistributedPodDisruptionBudget;
use berth_api::v1beta1::PodUnavailableBudget;
use berth_api::v1beta1::podunavailablebudget::PodUnavailableBudgetStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::Amount;
use super::ledger::is_counted;
use crate::budget::native::NativeBudget;

/// Pods of one budget.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Brings {
    /// How many are healthy, without those that were granted.
    pub healthy: usize,
    /// How many are expected.
    pub expected: usize,
}

/// How many of a budget's pods are counted already.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shared {
    /// Of all pods that it selects: any of them may be among its healthy ones.
    pub pods: usize,
    /// Of those that it expects.
    pub expected: usize,
}

/// Nobody knows what a budget brings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Silence {
    /// Why, with the remedy.
    pub why: String,
    /// How many of its pods are certain to stay all the same.
    pub keeps: usize,
}

impl Silence {
    /// For this reason, and nothing is certain.
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
const NOT_TOLD: &str = "was made or changed a moment ago, and which of its pods are counted already is not told yet: try again";

fn number(number: i32) -> usize {
    usize::try_from(number).unwrap_or(0)
}

impl Brings {
    /// A budget that federates others brings its own pods.
    ///
    /// # Errors
    /// It has not counted them.
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

    /// As a PodUnavailableBudget has counted.
    ///
    /// # Errors
    /// It has not, or not how many are expected.
    pub fn of_unavailable(budget: &PodUnavailableBudget) -> Result<Self, Silence> {
        let status = budget
            .status
            .as_ref()
            .ok_or_else(|| Silence::of(NOT_COUNTED))?;
        if !is_counted(status, budget.metadata.generation.unwrap_or_default()) {
            return Err(Silence::of(NOT_COUNTED));
        }
        // The pods that there are may be fewer than those that are expected, and then too many of others could go.
        if status
            .conditions
            .iter()
            .any(|condition| condition.type_ == TOTAL_KNOWN)
        {
            return Err(Silence::of(NO_TOTAL));
        }
        Ok(Self::of_account(status))
    }

    /// A budget's own pods, as its account has them.
    pub fn of_account(status: &PodUnavailableBudgetStatus) -> Self {
        Self {
            healthy: number(status.current_available),
            expected: number(status.total_replicas),
        }
    }

    /// As Kubernetes has counted, less what the eviction API has granted since.
    ///
    /// # Errors
    /// It has not.
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

    /// Without pods that are counted elsewhere. They are taken for healthy here: so never too many are counted.
    pub fn without(self, shared: Shared) -> Self {
        let healthy = self.healthy.saturating_sub(shared.pods);
        Self {
            healthy,
            expected: self.expected.saturating_sub(shared.expected),
        }
    }

    /// No more healthy pods than its workloads want. Another cluster's tenants write these numbers: with surplus pods beyond
    /// them, they could let more local pods go than `maxUnavailable` allows.
    pub fn without_surplus(self) -> Self {
        Self {
            healthy: min(self.healthy, self.expected),
            ..self
        }
    }

    /// Of each number that one which lets fewer pods go.
    pub fn at_most(self, other: Self) -> Self {
        Self {
            healthy: min(self.healthy, other.healthy),
            expected: max(self.expected, other.expected),
        }
    }
}

/// Which budget it is, and by which spec: as long as neither changes it selects the same pods.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// Its uid.
    pub uid: String,
    /// Its generation.
    pub generation: i64,
}

impl Origin {
    /// Of one of our kinds.
    pub fn of(metadata: &ObjectMeta) -> Self {
        let (uid, generation) = (metadata.uid.clone(), metadata.generation);
        Self {
            uid: uid.unwrap_or_default(),
            generation: generation.unwrap_or_default(),
        }
    }

    /// Of a native one.
    pub fn of_native(budget: &NativeBudget) -> Self {
        Self {
            uid: budget.metadata.uid.to_string(),
            generation: budget.metadata.generation,
        }
    }
}

/// What the leader has told last of a budget in this cluster that another names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Told {
    /// How many of its pods are counted already.
    pub shared: Shared,
    /// Which budget that was. Empty by a build that did not tell.
    pub origin: Origin,
    /// What it brought without them; `None` where nobody knew.
    pub brought: Option<Brings>,
    /// Whether another that is counted with it may hold the same pods: it is of the same namespace.
    pub may_share: bool,
}

impl Told {
    /// What a budget brings that has so many pods now. Where another may hold them, too, no more than was told: what it has counted since
    /// may be counted already, and only the leader knows.
    ///
    /// # Errors
    /// Nothing was told of this one.
    pub fn bring(&self, origin: &Origin, now: Brings) -> Result<Brings, Silence> {
        let now = now.without(self.shared);
        if !self.may_share {
            return Ok(now);
        }
        let is_it = self.origin.uid.is_empty() || self.origin == *origin;
        let brought = self
            .brought
            .filter(|_| is_it)
            .ok_or_else(|| Silence::of(NOT_TOLD))?;
        Ok(now.at_most(brought))
    }
}

/// What a budget and those that it names have and need.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Whole {
    /// How many pods of the others are healthy.
    pub others: usize,
    /// How many pods are expected, own ones and others.
    pub expected: usize,
    /// How many must be healthy, own ones and others.
    pub desired: usize,
    /// How many own ones must be, whatever the others have.
    pub floor: usize,
}

impl Whole {
    /// Of so many own pods, of which so many never go, and what each of the others brings.
    ///
    /// # Errors
    /// One of them is silent, and without how many it expects nobody knows how many must be healthy.
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
        // As other clusters tell them, such numbers are anybody's.
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

    /// How many of so many healthy own pods may go.
    pub fn allowed(&self, own: usize) -> usize {
        min(own, own.saturating_sub(self.left_to_own()))
    }
}
