//! Kubernetes' own budgets, with the fields that Berth reads.

use std::collections::BTreeMap;

use berth_api::commands::{self, Named};
use berth_api::names::POLICY_GROUP;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::objects::pod::{Condition, Metadata, Pod};
use crate::objects::selector::Selector;

/// A PodDisruptionBudget. The feed decodes watch events straight into it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct NativeBudget {
    /// Name, uid, owners.
    pub metadata: Metadata,
    /// The pods that it selects, and how many must stay.
    pub spec: NativeBudgetSpec,
    /// The numbers that Kubernetes' controller counted.
    pub status: NativeBudgetStatus,
}

/// The pods that it selects, and how many must stay.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NativeBudgetSpec {
    /// The selector. Without one the budget selects no pod; an empty one selects all.
    pub selector: Option<LabelSelector>,
    /// The value as it is in the spec.
    pub min_available: Option<Value>,
    /// The value as it is in the spec.
    pub max_unavailable: Option<Value>,
    /// Whether a pod that is not ready may leave.
    pub unhealthy_pod_eviction_policy: EvictionPolicy,
}

/// Whether a pod that is not ready may leave.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum EvictionPolicy {
    /// Always.
    AlwaysAllow,
    /// Only while enough other pods are healthy. The default, also for unknown values.
    #[default]
    #[serde(other)]
    IfHealthyBudget,
}

/// The answer of the eviction API for a pod that one native budget holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Eviction {
    /// The eviction is allowed.
    Allowed,
    /// The budget was changed, and its pods are not counted since then.
    NotCounted,
    /// The budget allows no more pods out of service.
    UsedUp,
}

/// The numbers that Kubernetes' controller counted.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NativeBudgetStatus {
    /// The generation that was counted.
    pub observed_generation: i64,
    /// How many evictions are allowed.
    pub disruptions_allowed: i32,
    /// How many pods are healthy.
    pub current_healthy: i32,
    /// How many pods must be healthy.
    pub desired_healthy: i32,
    /// How many pods are expected.
    pub expected_pods: i32,
    /// Granted pods whose eviction the budget's controller has not seen yet.
    pub disrupted_pods: BTreeMap<String, IgnoredAny>,
    /// Why Kubernetes' controller cannot count the pods. Until it can, it allows no eviction.
    #[serde(rename = "conditions", deserialize_with = "sync_failure")]
    pub sync_failure: Option<Box<str>>,
}

/// Most characters of the failure that are kept.
const LONGEST_FAILURE: usize = 512;

/// Reads the message of condition DisruptionAllowed, if its reason is SyncFailed.
fn sync_failure<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<str>>, D::Error> {
    let conditions = Option::<Vec<Condition>>::deserialize(deserializer)?.unwrap_or_default();
    let failed = conditions
        .into_iter()
        .find(|one| &*one.type_ == "DisruptionAllowed" && &*one.reason == "SyncFailed");
    Ok(failed.map(|one| one.message.chars().take(LONGEST_FAILURE).collect()))
}

impl NativeBudget {
    /// Whether it holds a pod of these labels.
    pub fn selects(&self, pod: &Metadata) -> bool {
        self.selector()
            .is_some_and(|selector| selector.matches(|key| pod.label(key)))
    }

    /// The answer of the eviction API for a pod that the budget holds, by its counted numbers. An
    /// earlier grant for the same pod does not count there.
    pub fn on_eviction(&self, pod: &Pod) -> Eviction {
        let status = &self.status;
        if self.is_free(pod) {
            Eviction::Allowed
        } else if status.observed_generation < self.metadata.generation {
            Eviction::NotCounted
        } else if status.disruptions_allowed > 0 {
            Eviction::Allowed
        } else {
            Eviction::UsedUp
        }
    }

    /// Why Kubernetes' controller cannot count the pods, and the remedy, as a sentence without the
    /// budget's name; `None` if it can.
    pub fn uncounted(&self) -> Option<String> {
        let why = self.status.sync_failure.as_ref()?;
        let Metadata {
            namespace, name, ..
        } = &self.metadata;
        // For a number of pods that must stay, the controller needs no replicas of workloads.
        let remedy = match (&self.spec.max_unavailable, &self.spec.min_available) {
            (None, Some(Value::Number(_))) => {
                let budget = Named {
                    resource: "pdb",
                    namespace,
                    name,
                };
                format!("see {}", commands::describe(budget))
            }
            _ => {
                "set spec.minAvailable to a number in place of maxUnavailable or a percentage, or \
                 select only pods of workloads with the subresource scale"
                    .to_owned()
            }
        };
        Some(format!(
            "allows no pod to go, because Kubernetes cannot count its pods (SyncFailed): {why}; \
             {remedy}"
        ))
    }

    /// Whether the eviction takes nothing from the budget, because the pod is not ready.
    fn is_free(&self, pod: &Pod) -> bool {
        let status = &self.status;
        let is_ready = pod
            .condition("Ready")
            .is_some_and(|condition| &*condition.status == "True");
        let may_unready_go = match self.spec.unhealthy_pod_eviction_policy {
            EvictionPolicy::AlwaysAllow => true,
            EvictionPolicy::IfHealthyBudget => {
                status.current_healthy >= status.desired_healthy && status.desired_healthy > 0
            }
        };
        !is_ready && may_unready_go
    }

    /// Subtracts an allowed eviction as the eviction API does.
    pub fn take(&mut self, pod: &Pod) {
        if !self.is_free(pod) {
            self.status.disruptions_allowed -= 1;
            self.status
                .disrupted_pods
                .insert(pod.metadata.name.to_string(), IgnoredAny);
        }
    }

    /// The selector; `None` if the budget selects no pod.
    pub fn selector(&self) -> Option<Selector> {
        self.spec
            .selector
            .as_ref()
            .and_then(|selector| Selector::new(selector).ok())
    }
}

/// Whether the eviction API checks native budgets for a pod.
pub fn review_evictions(pod: &Pod) -> bool {
    pod.is_active() && &*pod.status.phase != "Pending"
}

/// Why the apiserver would not evict a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedNatively {
    /// The message.
    pub message: String,
    /// Whether Berth keeps this native budget for one of its own.
    pub is_ours: bool,
}

/// Why the apiserver would not evict a pod, by all native budgets of its namespace. `None` if it
/// would.
pub fn refused(pod: &Pod, natives: &[NativeBudget]) -> Option<RefusedNatively> {
    if !review_evictions(pod) {
        return None;
    }
    let holding: Vec<_> = natives
        .iter()
        .filter(|native| native.selects(&pod.metadata))
        .collect();
    let name = |native: &NativeBudget| {
        format!(
            "PodDisruptionBudget {}/{}",
            native.metadata.namespace, native.metadata.name
        )
    };
    match holding.as_slice() {
        [] => None,
        [one] => {
            let (name, status) = (name(one), &one.status);
            let is_ours = one
                .metadata
                .controller()
                .is_some_and(|owner| owner.api_version.starts_with(POLICY_GROUP));
            let message = match (one.on_eviction(pod), one.uncounted()) {
                (Eviction::Allowed, _) => return None,
                (_, Some(uncounted)) => format!("{name} {uncounted}"),
                (Eviction::NotCounted, _) => {
                    format!(
                        "{name} was changed a moment ago, and its pods are not counted yet: try again"
                    )
                }
                (Eviction::UsedUp, _) => format!(
                    "{name} allows no more pods to go: {} of {} are healthy and {} must be; try again when more are",
                    status.current_healthy, status.expected_pods, status.desired_healthy
                ),
            };
            Some(RefusedNatively { message, is_ours })
        }
        [first, second, ..] => {
            let message = format!(
                "{} and {} hold pod {}, and the apiserver evicts no pod that two of them hold: delete one, or give their selectors the same \
                 label with different values",
                name(first),
                name(second),
                pod.metadata.name
            );
            Some(RefusedNatively {
                message,
                is_ours: false,
            })
        }
    }
}

#[cfg(test)]
mod tests;
