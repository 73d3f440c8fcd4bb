//! A budget of either kind, in the form that reservations need.

use std::sync::Arc;

use berth_api::v1alpha1::DistributedPodDisruptionBudget;
use berth_api::v1alpha1::distributedpoddisruptionbudget::{Member, MemberKind};
use berth_api::v1beta1::PodUnavailableBudget;
use berth_api::v1beta1::podunavailablebudget::{
    Ledger, PodUnavailableBudgetStatus, Replacement, TargetReference,
};
use berth_api::weight::{Limits, without_managed_fields};
use berth_runtime::{Key, Resource};
use berth_workload::budget::federation::{Brings, MemberReport, Origin, Shared};
use berth_workload::budget::judge::Account;
use berth_workload::budget::target::may_be_of;
use berth_workload::budget::{Fault, Rules, floor};
use berth_workload::feature_gates::Gates;
use berth_workload::objects::patch::merge::merge_patch;
use berth_workload::objects::pod::Metadata;
use berth_workload::objects::resource::{
    DISTRIBUTED_POD_DISRUPTION_BUDGETS, POD_UNAVAILABLE_BUDGETS,
};
use berth_workload::objects::selector::Selector;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use crate::stores::watched::Watched;

/// A budget of either kind.
#[derive(Debug, Clone)]
pub(crate) enum Budget {
    /// OpenKruise's kind.
    Unavailable(Arc<PodUnavailableBudget>),
    /// The kind that can name other budgets in `federation`.
    Distributed(Arc<DistributedPodDisruptionBudget>),
}

/// Identifies a budget. Requests reserve from budgets in this order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BudgetKey {
    pub(crate) resource: Resource,
    pub(crate) key: Key,
}

impl BudgetKey {
    /// The name of the budget in messages.
    pub(in crate::budgets) fn words(&self) -> String {
        format!(
            "{} {}/{}",
            self.resource.kind, self.key.namespace, self.key.name
        )
    }
}

impl Budget {
    /// Parses the text of an object; `None` if it is no budget, or beyond the limits.
    pub(in crate::budgets) fn read(resource: &str, object: &str) -> Option<Self> {
        let is_distributed = resource == DISTRIBUTED_POD_DISRUPTION_BUDGETS.plural;
        if !is_distributed && resource != POD_UNAVAILABLE_BUDGETS.plural {
            return None;
        }
        let object = without_managed_fields(object);
        Limits::of_budgets().check_object(&object).ok()?;
        if is_distributed {
            serde_json::from_str::<Watched<_>>(&object)
                .ok()
                .map(|budget| Self::Distributed(budget.0))
        } else {
            serde_json::from_str::<Watched<_>>(&object)
                .ok()
                .map(|budget| Self::Unavailable(budget.0))
        }
    }

    pub(in crate::budgets) fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Unavailable(budget) => &budget.metadata,
            Self::Distributed(budget) => &budget.metadata,
        }
    }

    pub(crate) fn key(&self) -> BudgetKey {
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        let ObjectMeta {
            namespace, name, ..
        } = self.metadata();
        let resource = match self {
            Self::Unavailable(_) => POD_UNAVAILABLE_BUDGETS,
            Self::Distributed(_) => DISTRIBUTED_POD_DISRUPTION_BUDGETS,
        };
        BudgetKey {
            resource,
            key: Key::new(&part(namespace), &part(name)),
        }
    }

    fn ledger(&self) -> Option<&Ledger> {
        match self {
            Self::Unavailable(budget) => budget.status.as_ref()?.ledger.as_ref(),
            Self::Distributed(budget) => budget.status.as_ref()?.ledger.as_ref(),
        }
    }

    /// The pods that go once they have a replacement.
    pub(in crate::budgets) fn replacements(&self) -> &[Replacement] {
        self.ledger().map_or(&[], |ledger| &ledger.replacements)
    }

    /// The budget's age: among the budgets of its kind and namespace, those with a smaller value
    /// count first.
    pub(in crate::budgets) fn age(&self) -> (Option<Timestamp>, String) {
        let ObjectMeta {
            creation_timestamp,
            name,
            ..
        } = self.metadata();
        (
            creation_timestamp.as_ref().map(|time| time.0),
            name.clone().unwrap_or_default(),
        )
    }

    /// Whether a target workload says which pods are its, and how many.
    pub(in crate::budgets) fn is_by_target(&self) -> bool {
        matches!(self, Self::Unavailable(budget) if budget.spec.target_ref.is_some())
    }

    /// The budgets whose pods count, too.
    pub(in crate::budgets) fn federation(&self) -> &[Member] {
        match self {
            Self::Unavailable(_) => &[],
            Self::Distributed(budget) => &budget.spec.federation,
        }
    }

    /// The part of the leader's status about each member. Only members in this cluster have numbers
    /// that count.
    pub(in crate::budgets) fn member_reports(
        &self,
        is_here: impl Fn(&Member) -> bool,
    ) -> Vec<MemberReport> {
        let Self::Distributed(budget) = self else {
            return Vec::new();
        };
        let (members, own) = (&budget.spec.federation, budget.metadata.namespace.as_ref());
        let statuses = budget
            .status
            .as_ref()
            .map_or(&[][..], |status| &status.federated_statuses);
        let number = |number: i32| usize::try_from(number).unwrap_or(0);
        let reports = members.iter().enumerate().map(|(at, member)| {
            let is_beside = |(other, one): (usize, &Member)| {
                other != at && is_here(one) && one.namespace == member.namespace
            };
            let may_share =
                own == Some(&member.namespace) || members.iter().enumerate().any(is_beside);
            let Some(status) = statuses.iter().find(|status| status.is_of(member)) else {
                return MemberReport {
                    may_share,
                    ..MemberReport::default()
                };
            };
            let brought = Brings {
                healthy: number(status.healthy),
                expected: number(status.expected),
            };
            MemberReport {
                shared: Shared {
                    pods: number(status.shared),
                    expected: number(status.shared_expected),
                },
                origin: Origin {
                    uid: status.uid.clone(),
                    generation: status.generation,
                },
                brought: status.reachable.then_some(brought),
                may_share,
            }
        });
        reports.collect()
    }

    /// Whether a member entry of a budget in this cluster means this budget.
    pub(crate) fn is_named_by(&self, member: &Member) -> bool {
        let ObjectMeta {
            namespace, name, ..
        } = self.metadata();
        let is_kind = member
            .kind
            .is_none_or(|kind| kind == MemberKind::DistributedPodDisruptionBudget);
        let is_it =
            namespace.as_ref() == Some(&member.namespace) && name.as_ref() == Some(&member.name);
        is_it && is_kind && matches!(self, Self::Distributed(_))
    }

    /// Whether it holds no pod any more. A floor stays in force after the budget was deleted, until
    /// no other cluster counts on it.
    pub(in crate::budgets) fn is_over(&self) -> bool {
        let is_kept = matches!(self, Self::Distributed(budget) if budget.status.as_ref().is_some_and(|status| status.floor.is_some()));
        self.metadata().deletion_timestamp.is_some() && !is_kept
    }

    /// The budget's own pods and its ledger, in the form that decisions use. How many own pods must
    /// stay depends on other budgets.
    pub(in crate::budgets) fn account(&self) -> PodUnavailableBudgetStatus {
        match self {
            Self::Unavailable(budget) => budget.status.clone().unwrap_or_default(),
            Self::Distributed(budget) => {
                let status = budget.status.clone().unwrap_or_default();
                PodUnavailableBudgetStatus {
                    observed_generation: status.observed_generation,
                    current_available: status.own.healthy,
                    total_replicas: status.own.expected,
                    ledger: status.ledger,
                    conditions: status.conditions,
                    ..PodUnavailableBudgetStatus::default()
                }
            }
        }
    }

    /// How many pods may go, by the written status.
    pub(in crate::budgets) fn allowed(&self) -> i32 {
        match self {
            Self::Unavailable(budget) => budget
                .status
                .as_ref()
                .map_or(0, |status| status.unavailable_allowed),
            Self::Distributed(budget) => budget
                .status
                .as_ref()
                .map_or(0, |status| status.disruptions_allowed),
        }
    }

    /// Whether capacity was reserved and released since the last count.
    pub(in crate::budgets) fn is_to_be_recounted(&self) -> bool {
        self.ledger().is_some_and(|ledger| ledger.recount)
    }

    /// The form that decisions on requests use.
    pub(in crate::budgets) fn as_judged<'a>(&self, name: &'a str, holds: &'a Holds) -> Account<'a> {
        let floor = match self {
            Self::Unavailable(_) => None,
            Self::Distributed(budget) => Some(floor::binding(budget)),
        };
        let generation = self.metadata().generation.unwrap_or_default();
        Account {
            name,
            rules: &holds.rules,
            generation,
            status: self.account(),
            floor,
        }
    }

    /// The budget with another ledger.
    pub(in crate::budgets) fn with_account(&self, account: &PodUnavailableBudgetStatus) -> Self {
        match self {
            Self::Unavailable(budget) => {
                let budget = PodUnavailableBudget {
                    status: Some(account.clone()),
                    ..PodUnavailableBudget::clone(budget)
                };
                Self::Unavailable(Arc::new(budget))
            }
            Self::Distributed(budget) => {
                let mut budget = DistributedPodDisruptionBudget::clone(budget);
                let status = budget.status.get_or_insert_default();
                let granted = status.own.healthy - account.current_available;
                status.own.healthy = account.current_available;
                status.current_healthy -= granted;
                status.disruptions_allowed = (status.disruptions_allowed - granted).max(0);
                status.ledger.clone_from(&account.ledger);
                Self::Distributed(Arc::new(budget))
            }
        }
    }

    /// The patch of a ledger. It fails if the ledger has changed since; `None` if nothing changes.
    pub(in crate::budgets) fn patch(&self, account: &PodUnavailableBudgetStatus) -> Option<Value> {
        let patch = merge_patch(&self.status()?, &self.with_account(account).status()?)?;
        let ObjectMeta {
            resource_version,
            uid,
            ..
        } = self.metadata();
        Some(
            json!({"metadata": {"resourceVersion": resource_version, "uid": uid}, "status": patch}),
        )
    }

    fn status(&self) -> Option<Value> {
        let status = match self {
            Self::Unavailable(budget) => serde_json::to_value(&budget.status),
            Self::Distributed(budget) => serde_json::to_value(&budget.status),
        };
        status.ok()
    }
}

/// Which pods a budget holds.
#[derive(Debug)]
pub(crate) struct Holds {
    pub(crate) rules: Result<Rules, Fault>,
    selector: Option<Selector>,
    /// The target workload, while no count has said yet which pods are its.
    target: Option<TargetReference>,
}

impl Holds {
    pub(in crate::budgets) fn of(budget: &Budget) -> Self {
        let (rules, selector) = match budget {
            Budget::Unavailable(budget) => {
                (Rules::of_budget(budget), budget.spec.selector.as_ref())
            }
            Budget::Distributed(budget) => (
                Rules::of_distributed(&budget.spec),
                Some(&budget.spec.selector),
            ),
        };
        let of_target = || Selector::parse(target_selector(budget)?).ok();
        let of_spec = selector.and_then(|selector| Selector::new(selector).ok());
        let is_any = |selector: &Selector| !selector.is_empty();
        let selector = of_spec
            .filter(is_any)
            .or_else(|| of_target().filter(is_any));
        let target = match budget {
            Budget::Unavailable(budget) => budget.spec.target_ref.clone(),
            Budget::Distributed(_) => None,
        };
        Self {
            rules,
            selector,
            target,
        }
    }

    /// With the operations that these feature gates protect pods from.
    pub(in crate::budgets) fn with_gates(self, gates: Gates) -> Self {
        Self {
            rules: self.rules.map(|rules| rules.with_gates(gates)),
            ..self
        }
    }

    /// Whether a pod of these labels and annotations is one of the budget's, protected or not.
    pub(crate) fn selects(&self, pod: &Metadata) -> bool {
        match (&self.selector, &self.target) {
            (Some(selector), _) => selector.matches(|key| pod.label(key)),
            (None, Some(target)) => may_be_of(pod, target),
            (None, None) => false,
        }
    }

    /// As [`Self::selects`], but any pod if the target has not said yet which pods are its.
    pub(crate) fn may_select(&self, pod: &Metadata) -> bool {
        (self.selector.is_none() && self.target.is_some()) || self.selects(pod)
    }

    /// Whether it protects a pod of these labels and annotations.
    pub(crate) fn holds(&self, pod: &Metadata) -> bool {
        self.selects(pod) && !self.rules.as_ref().is_ok_and(|rules| rules.ignores(pod))
    }

    /// The selector of its pods.
    pub(in crate::budgets) fn selector(&self) -> Option<&Selector> {
        self.selector.as_ref()
    }
}

fn target_selector(budget: &Budget) -> Option<&str> {
    let Budget::Unavailable(budget) = budget else {
        return None;
    };
    budget.status.as_ref()?.ledger.as_ref()?.selector.as_deref()
}

#[cfg(test)]
mod tests;
