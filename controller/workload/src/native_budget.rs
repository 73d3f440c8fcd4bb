//! Kubernetes' own budgets, as far as ours look at them.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::pod::Metadata;
use crate::selector::Selector;

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
        self.selector().is_some_and(|selector| selector.matches(|key| pod.label(key)))
    }

    /// Which pods it holds; `None`: none.
    pub fn selector(&self) -> Option<Selector> {
        self.spec.selector.as_ref().and_then(|selector| Selector::new(selector).ok())
    }
}
