//! A budget limits how many of its pods may be out of service on purpose, for every kind of
//! operation.
//!
//! The status of a budget is its ledger. The leader counts pods and settles entries ([`count`]).
//! The webhook and the controllers reserve from the counted numbers ([`ledger`]). A reservation is
//! a write that names the version it read, so that two replicas cannot reserve the same pod. The
//! answer to each request is in [`judge`], and the answer to a drain of a node in [`drain`].

pub mod beyond;
pub mod child;
pub mod count;
pub mod disruption;
pub mod drain;
pub mod expected;
pub mod federation;
pub mod floor;
pub mod judge;
pub mod ledger;
pub mod native;
pub mod sharing;
pub mod surge;
pub mod target;
pub mod webhook_calls;

use std::borrow::Cow;

use berth_api::IntOrString;
use berth_api::kinds::podunavailablebudget::annotations::{AnnotationFault, annotation_faults};
use berth_api::v1alpha1::distributedpoddisruptionbudget::{
    DistributedPodDisruptionBudgetSpec, UnhealthyPodEvictionPolicy,
};
use berth_api::v1beta1::PodUnavailableBudget;
use berth_api::v1beta1::podunavailablebudget::{
    PodUnavailableBudgetSpec, ProtectedOperation, UnhealthyPodPolicy,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::feature_gates::{Gate, Gates};
use crate::objects::intstr::{Round, resolve};
use crate::objects::pod::{Metadata, Pod};
use crate::objects::selector::Selector;
use berth_api::names::annotation::PUB_NO_PROTECT;

/// The checked spec of a budget.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// The pods that the budget holds. `None` if a workload says it.
    pub selector: Option<Selector>,
    /// Pods that the budget ignores.
    ignored: Option<Selector>,
    /// How many pods may be unavailable, or must be available.
    pub amount: Amount,
    /// The operations that the budget protects pods from.
    operations: Vec<ProtectedOperation>,
    /// Whether UPDATE includes every resize. A resize that restarts no container can still harm the
    /// application.
    resizes_are_updates: bool,
    /// How many pods are expected, if the spec says so itself.
    pub total: Option<usize>,
    /// Whether a pod that is not available may go.
    pub unhealthy: UnhealthyPodPolicy,
    /// Conditions that a healthy pod must have besides Ready.
    healthy_conditions: Vec<String>,
    /// Whether another budget may name this one. If so, the ledger records every request, even if
    /// none of its own pods must stay.
    may_be_named: bool,
}

/// How many pods a budget may lose, or must keep.
#[derive(Debug, Clone, PartialEq)]
pub enum Amount {
    /// Most pods that may be unavailable.
    MaxUnavailable(IntOrString),
    /// Fewest pods that must be available.
    MinAvailable(IntOrString),
}

/// A fault of a budget that only its author can mend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The field.
    pub field: Cow<'static, str>,
    /// The fault, and the remedy.
    pub message: String,
}

fn fault(field: &'static str, message: String) -> Fault {
    Fault {
        field: field.into(),
        message,
    }
}

/// The fault of a spec that has both of two fields, or neither.
fn either(field: &'static str, other: &str, both: bool) -> Fault {
    let said = if both {
        format!("stands beside {other}: remove one of them")
    } else {
        format!("and {other} are both missing: set one of them")
    };
    fault(field, said)
}

/// The selector of a field. An empty one would select every pod.
fn read(field: &'static str, selector: &LabelSelector) -> Result<Selector, Fault> {
    let selector = Selector::new(selector).map_err(|problem| fault(field, problem))?;
    if selector.is_empty() {
        let problem = "is empty and would select every pod: set matchLabels";
        return Err(fault(field, problem.to_owned()));
    }
    Ok(selector)
}

/// Most characters of a value that a message shows.
const LONGEST_VALUE: usize = 64;
/// The protected operations of a budget that names none.
const BY_DEFAULT: [ProtectedOperation; 3] = [
    ProtectedOperation::Delete,
    ProtectedOperation::Update,
    ProtectedOperation::Evict,
];

impl Rules {
    /// Reads a budget: its spec, and annotations of v1alpha1 that bypassed the webhook and could
    /// not become fields.
    ///
    /// # Errors
    /// As [`Self::of`], or the value of such an annotation is invalid.
    pub fn of_budget(budget: &PodUnavailableBudget) -> Result<Self, Fault> {
        let (spec, annotations) = (&budget.spec, budget.metadata.annotations.as_ref());
        let protects = Some(&*spec.protect_operations).filter(|named| !named.is_empty());
        let said = |key: &str| annotations.and_then(|all| all.get(key)).map(String::as_str);
        let total = spec.protect_total_replicas.map(i64::from);
        if let Some(AnnotationFault {
            key,
            value,
            problem,
        }) = annotation_faults(said, protects, total).first()
        {
            let value: String = value.chars().take(LONGEST_VALUE).collect();
            let field = Cow::Owned(format!("metadata.annotations[{key}]"));
            return Err(Fault {
                field,
                message: format!("{value:?} {problem}"),
            });
        }
        Self::of(spec)
    }

    /// Reads a spec.
    ///
    /// # Errors
    /// A fault that no schema refuses: both or neither of the two selectors or of the two amounts
    /// are set, or one of them is invalid.
    pub fn of(spec: &PodUnavailableBudgetSpec) -> Result<Self, Fault> {
        let selector = match (&spec.selector, &spec.target_ref) {
            (Some(selector), None) => Some(read("spec.selector", selector)?),
            (None, Some(_)) => None,
            (found, _) => return Err(either("spec.selector", "spec.targetRef", found.is_some())),
        };
        let (field, amount) = match (&spec.max_unavailable, &spec.min_available) {
            (Some(most), None) => ("spec.maxUnavailable", Amount::MaxUnavailable(most.clone())),
            (None, Some(least)) => ("spec.minAvailable", Amount::MinAvailable(least.clone())),
            (found, _) => {
                return Err(either(
                    "spec.maxUnavailable",
                    "spec.minAvailable",
                    found.is_some(),
                ));
            }
        };
        amount.desired(1).map_err(|problem| fault(field, problem))?;
        let ignored = spec
            .ignored_pod_selector
            .as_ref()
            .map(|selector| read("spec.ignoredPodSelector", selector))
            .transpose()?;
        let total = spec
            .protect_total_replicas
            .map(|total| usize::try_from(total).ok().filter(|total| *total > 0));
        if total == Some(None) {
            return Err(fault(
                "spec.protectTotalReplicas",
                "is less than 1: set how many pods are expected, or remove it".to_owned(),
            ));
        }
        let operations = if spec.protect_operations.is_empty() {
            BY_DEFAULT.to_vec()
        } else {
            spec.protect_operations.clone()
        };
        Ok(Self {
            selector,
            ignored,
            amount,
            operations,
            resizes_are_updates: true,
            total: total.flatten(),
            unhealthy: spec.unhealthy_pod_policy,
            healthy_conditions: Vec::new(),
            may_be_named: false,
        })
    }

    /// Reads the spec of a budget that federates others.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub fn of_distributed(spec: &DistributedPodDisruptionBudgetSpec) -> Result<Self, Fault> {
        let unhealthy_pod_policy = match spec.unhealthy_pod_eviction_policy {
            UnhealthyPodEvictionPolicy::IfHealthyBudget => UnhealthyPodPolicy::IfHealthyBudget,
            UnhealthyPodEvictionPolicy::AlwaysAllow => UnhealthyPodPolicy::AlwaysAllow,
        };
        let rules = Self::of(&PodUnavailableBudgetSpec {
            selector: Some(spec.selector.clone()),
            max_unavailable: spec.max_unavailable.clone(),
            min_available: spec.min_available.clone(),
            protect_operations: spec.protect_operations.clone(),
            unhealthy_pod_policy,
            ..PodUnavailableBudgetSpec::default()
        })?;
        Ok(Self {
            healthy_conditions: spec.healthy_conditions.clone(),
            may_be_named: true,
            ..rules
        })
    }

    /// Applies the feature gates. Before this call, or if InPlacePodVerticalScaling is off, UPDATE
    /// includes every resize.
    #[must_use]
    pub fn with_gates(self, gates: Gates) -> Self {
        Self {
            resizes_are_updates: !gates.has(Gate::InPlacePodVerticalScaling),
            ..self
        }
    }

    /// Whether a serving pod has all conditions that the budget asks for.
    pub fn finds_healthy(&self, pod: &Pod) -> bool {
        let has = |type_: &String| {
            pod.status
                .conditions
                .iter()
                .any(|found| *found.type_ == **type_ && &*found.status == "True")
        };
        self.healthy_conditions.iter().all(has)
    }

    /// The operations that the budget protects pods from.
    pub fn operations(&self) -> &[ProtectedOperation] {
        &self.operations
    }

    /// Whether the budget protects pods from an operation. A budget that lists RESIZE reviews every
    /// resize that restarts no container, whether or not UPDATE includes resizes.
    pub fn protects_from(&self, operation: ProtectedOperation) -> bool {
        let is_update = operation == ProtectedOperation::Resize && self.resizes_are_updates;
        self.operations.contains(&operation)
            || (is_update && self.operations.contains(&ProtectedOperation::Update))
    }

    /// Whether the budget ignores a pod with these labels and annotations although its selector
    /// matches.
    pub fn ignores(&self, pod: &Metadata) -> bool {
        pod.annotation(PUB_NO_PROTECT) == Some("true")
            || self
                .ignored
                .as_ref()
                .is_some_and(|ignored| ignored.matches(|key| pod.label(key)))
    }
}

impl Amount {
    /// How many of `total` pods must be available. Percentages are rounded up, both of
    /// `maxUnavailable` and of `minAvailable`.
    ///
    /// # Errors
    /// The amount is negative or not a percentage.
    pub fn desired(&self, total: usize) -> Result<usize, String> {
        match self {
            Self::MaxUnavailable(most) => {
                Ok(total.saturating_sub(resolve(most, total, Round::Up)?))
            }
            Self::MinAvailable(least) => resolve(least, total, Round::Up),
        }
    }

    /// Whether the number of pods that must be available depends on the number of expected pods.
    pub fn depends_on_total(&self) -> bool {
        !matches!(self, Self::MinAvailable(IntOrString::Int(_)))
    }

    /// The field and its value, as the spec has them.
    pub fn words(&self) -> String {
        let (field, value) = match self {
            Self::MaxUnavailable(value) => ("maxUnavailable", value),
            Self::MinAvailable(value) => ("minAvailable", value),
        };
        match value {
            IntOrString::Int(number) => format!("{field} {number}"),
            IntOrString::String(text) => format!("{field} {text}"),
        }
    }
}

#[cfg(test)]
mod tests;
