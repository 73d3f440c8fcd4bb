//! PodUnavailableBudget: how many pods may be out of service because somebody wants it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::budgets::{SELECTS_EVERY_POD, amount, one_of, unchanged};
use crate::schema::field::{defaults_to, label_selector, rules};
use crate::schema::rules::not_empty;
pub use crate::v1beta1::podunavailablebudget::{
    PodUnavailableBudgetStatus, TargetReference, UnhealthyPodPolicy,
};

/// Whose pods, and how many of them. From what they are protected, and how many are expected, annotations say.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "policy.kruise.io",
    version = "v1alpha1",
    kind = "PodUnavailableBudget",
    namespaced,
    storage = false,
    shortname = "pub",
    status = "PodUnavailableBudgetStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "PodUnavailableBudget says how many pods may be out of service at once because somebody evicts, deletes or updates them."
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = rules([one_of("selector", "targetRef"), one_of("maxUnavailable", "minAvailable")]), transform = rules([unchanged("selector"), unchanged("targetRef")]))]
pub struct PodUnavailableBudgetSpec {
    /// Pods of the same namespace, by their labels. Either this or targetRef. It cannot be changed later.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = label_selector, transform = rules([not_empty(SELECTS_EVERY_POD)]))]
    pub selector: Option<LabelSelector>,
    /// A workload of the same namespace, whose pods are meant. Either this or selector. It cannot be changed later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetReference>,
    /// The most pods that may be unavailable, a number or a percentage of all expected ones, rounded up. Either this or
    /// minAvailable.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = amount)]
    pub max_unavailable: Option<IntOrString>,
    /// The fewest pods that must stay available, a number or a percentage of all expected ones, rounded up. Either this or
    /// maxUnavailable.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = amount)]
    pub min_available: Option<IntOrString>,
    /// AlwaysAllow lets pods that are not available go whatever the budget says. IfHealthyBudget only while enough others are
    /// available. Defaults to AlwaysAllow.
    #[serde(default)]
    #[schemars(transform = defaults_to("AlwaysAllow"))]
    pub unhealthy_pod_policy: UnhealthyPodPolicy,
}
