//! Kubernetes' own budgets, as far as ours look at them.

use std::collections::BTreeMap;

use berth_api::names::POLICY_GROUP;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::objects::pod::{Metadata, Pod};
use crate::objects::selector::Selector;

/// A PodDisruptionBudget. The feed decodes watch events straight into it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct NativeBudget {
    /// Name, uid, owners.
    pub metadata: Metadata,
    /// Which pods, and how many.
    pub spec: NativeBudgetSpec,
    /// What its controller counted.
    pub status: NativeBudgetStatus,
}

/// Which pods, and how many.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NativeBudgetSpec {
    /// Without one it selects no pod, with an empty one all.
    pub selector: Option<LabelSelector>,
    /// As a person wrote it.
    pub min_available: Option<Value>,
    /// As a person wrote it.
    pub max_unavailable: Option<Value>,
    /// Whether a pod that is not ready may go.
    pub unhealthy_pod_eviction_policy: EvictionPolicy,
}

/// Whether a pod that is not ready may go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum EvictionPolicy {
    /// Always.
    AlwaysAllow,
    /// Only while enough others are healthy. So it is where a budget says nothing, or what nobody knows here.
    #[default]
    #[serde(other)]
    IfHealthyBudget,
}

/// What the eviction API says of a pod that one native budget holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Eviction {
    /// It may go.
    Allowed,
    /// The budget was changed, and its pods are not counted since.
    NotCounted,
    /// As many are out of service as may be.
    UsedUp,
}

/// What its controller counted.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NativeBudgetStatus {
    /// The generation that was counted.
    pub observed_generation: i64,
    /// How many evictions may be.
    pub disruptions_allowed: i32,
    /// How many pods are healthy.
    pub current_healthy: i32,
    /// How many must be.
    pub desired_healthy: i32,
    /// How many are expected.
    pub expected_pods: i32,
    /// Pods that were granted, and of which nothing is seen yet.
    pub disrupted_pods: BTreeMap<String, IgnoredAny>,
}

impl NativeBudget {
    /// Whether it holds a pod of these labels.
    pub fn selects(&self, pod: &Metadata) -> bool {
        self.selector()
            .is_some_and(|selector| selector.matches(|key| pod.label(key)))
    }

    /// What the eviction API says of a pod that it holds, by what it has counted. That the pod was granted before is no grant there.
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

    /// Whether a pod that it holds takes nothing, for it is not ready.
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

    /// Takes what the eviction API takes for a pod that it lets go.
    pub fn take(&mut self, pod: &Pod) {
        if !self.is_free(pod) {
            self.status.disruptions_allowed -= 1;
            self.status
                .disrupted_pods
                .insert(pod.metadata.name.to_string(), IgnoredAny);
        }
    }

    /// Which pods it holds; `None`: none.
    pub fn selector(&self) -> Option<Selector> {
        self.spec
            .selector
            .as_ref()
            .and_then(|selector| Selector::new(selector).ok())
    }
}

/// Whether the eviction API asks any native budget about a pod.
pub fn are_asked(pod: &Pod) -> bool {
    pod.is_active() && &*pod.status.phase != "Pending"
}

/// Why the apiserver would not evict a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedNatively {
    /// In words.
    pub message: String,
    /// Whether the native budget is one that a budget of ours keeps.
    pub is_ours: bool,
}

/// Why the apiserver would not evict a pod, by all native budgets of its namespace: `None` if it would.
pub fn refused(pod: &Pod, natives: &[NativeBudget]) -> Option<RefusedNatively> {
    if !are_asked(pod) {
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
            let message = match one.on_eviction(pod) {
                Eviction::Allowed => return None,
                Eviction::NotCounted => {
                    format!(
                        "{name} was changed a moment ago, and its pods are not counted yet: try again"
                    )
                }
                Eviction::UsedUp => format!(
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
