//! PodUnavailableBudget: how many pods may be out of service because somebody wants it.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::kinds::persistentpodstate::v1beta1::TargetReference;
use crate::schema::absent::{is_false, is_zero_i64};
use crate::schema::budgets::{SELECTS_EVERY_POD, amount, one_of, unchanged};
use crate::schema::field::{checks, conditions, defaults_to, label_selector};
use crate::schema::rules::not_empty;

/// The most pods that a budget may have granted at once and not seen the end of.
pub const MOST_ENTRIES: usize = 2_000;

/// The most pods of a budget that wait at once for another to come in their place.
pub const MOST_REPLACEMENTS: usize = 100;

/// The most containers of one pod that an entry of a ledger names.
pub const MOST_CONTAINERS: usize = 32;

/// The longest user name in an entry of a ledger.
const HOLDER: u32 = 512;
const PROTECTS_NO_POD: &str = "is empty and would select every pod, so that none was protected: set matchLabels or matchExpressions, or remove it";

/// Whose pods, how many of them, and from what.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "policy.kruise.io",
    version = "v1beta1",
    kind = "PodUnavailableBudget",
    namespaced,
    shortname = "pub",
    status = "PodUnavailableBudgetStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "PodUnavailableBudget says how many pods may be out of service at once because somebody evicts, deletes or updates them.",
    printcolumn = r#"{"name": "Allowed", "type": "integer", "jsonPath": ".status.unavailableAllowed", "description": "Pods that may be taken out of service now."}"#,
    printcolumn = r#"{"name": "Current", "type": "integer", "jsonPath": ".status.currentAvailable", "description": "Pods that are available."}"#,
    printcolumn = r#"{"name": "Desired", "type": "integer", "jsonPath": ".status.desiredAvailable", "description": "Pods that must stay available."}"#,
    printcolumn = r#"{"name": "Total", "type": "integer", "jsonPath": ".status.totalReplicas", "description": "Pods that are expected."}"#,
    printcolumn = r#"{"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp", "description": "Time since the creation."}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = checks([one_of("selector", "targetRef"), one_of("maxUnavailable", "minAvailable")]))]
#[schemars(transform = checks([unchanged("selector"), unchanged("targetRef")]))]
pub struct PodUnavailableBudgetSpec {
    /// Pods of the same namespace, by their labels. Either this or targetRef. It cannot be changed
    /// later.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = label_selector, transform = checks([not_empty(SELECTS_EVERY_POD)]))]
    pub selector: Option<LabelSelector>,
    /// A workload of the same namespace, whose pods are meant. Either this or selector. It cannot
    /// be changed later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetReference>,
    /// The most pods that may be unavailable, a number or a percentage of all expected ones,
    /// rounded up. Either this or minAvailable.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = amount)]
    pub max_unavailable: Option<IntOrString>,
    /// The fewest pods that must stay available, a number or a percentage of all expected ones,
    /// rounded up. Either this or maxUnavailable.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = amount)]
    pub min_available: Option<IntOrString>,
    /// From what the pods are protected. Empty: DELETE, UPDATE and EVICT. RESIZE is a change of
    /// resources that restarts no container.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub protect_operations: Vec<ProtectedOperation>,
    /// How many pods are expected. Without it, as many as their workloads want.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = i32::MAX))]
    pub protect_total_replicas: Option<i32>,
    /// Pods that are never protected, by their labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = label_selector, transform = checks([not_empty(PROTECTS_NO_POD)]))]
    pub ignored_pod_selector: Option<LabelSelector>,
    /// AlwaysAllow lets pods that are not available go regardless of the budget. IfHealthyBudget
    /// lets them go only while enough other pods are available. Defaults to AlwaysAllow.
    #[serde(default)]
    #[schemars(transform = defaults_to("AlwaysAllow"))]
    pub unhealthy_pod_policy: UnhealthyPodPolicy,
}

/// What takes a pod out of service.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "UPPERCASE")]
pub enum ProtectedOperation {
    /// It is deleted.
    Delete,
    /// Its spec is changed.
    Update,
    /// It is evicted.
    Evict,
    /// Its resources change, and none of its containers is restarted for that.
    Resize,
}

impl ProtectedOperation {
    /// All that there are.
    pub const ALL: [Self; 4] = [Self::Delete, Self::Update, Self::Evict, Self::Resize];

    /// As manifests have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Delete => "DELETE",
            Self::Update => "UPDATE",
            Self::Evict => "EVICT",
            Self::Resize => "RESIZE",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|operation| operation.name() == name)
    }

    /// Whether a pod that it befell is counted as unavailable only until it serves again, not until
    /// it is gone.
    pub const fn is_change(self) -> bool {
        matches!(self, Self::Update | Self::Resize)
    }
}

/// Whether a pod that is not available may go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum UnhealthyPodPolicy {
    /// Always.
    #[default]
    AlwaysAllow,
    /// While as many are available as the budget wants.
    IfHealthyBudget,
}

/// What the budget has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodUnavailableBudgetStatus {
    /// The metadata.generation that this status speaks of.
    #[serde(default, skip_serializing_if = "is_zero_i64")]
    pub observed_generation: i64,
    /// When each pod was allowed to be evicted or deleted, of which nothing is seen yet.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = MOST_ENTRIES))]
    pub disrupted_pods: BTreeMap<String, Time>,
    /// When each pod was allowed to be changed, which does not serve again yet.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = MOST_ENTRIES))]
    pub unavailable_pods: BTreeMap<String, Time>,
    /// How many more pods may be taken out of service now.
    #[serde(default)]
    pub unavailable_allowed: i32,
    /// How many pods are available, without those that were allowed to go or to change.
    #[serde(default)]
    pub current_available: i32,
    /// How many pods must stay available.
    #[serde(default)]
    pub desired_available: i32,
    /// How many pods are expected.
    #[serde(default)]
    pub total_replicas: i32,
    /// Who uses the budget up, and by which view of the pods it was counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ledger: Option<Ledger>,
    /// Enforced and Blocked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = conditions("Enforced or Blocked."))]
    pub conditions: Vec<Condition>,
}

/// Who uses a budget up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ledger {
    /// The newest resourceVersion of a pod that was known when pods were counted last. The leader
    /// does not count from an older view.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 64))]
    pub counted: String,
    /// By which view what was granted was settled, while pods cannot be counted.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 64))]
    pub settled: String,
    /// Which pods are meant, by the labels that the workload of targetRef selects.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 65_536))]
    pub selector: Option<String>,
    /// Something was taken back since, so more may go than the numbers say: pods are counted again
    /// at once.
    #[serde(default, skip_serializing_if = "is_false")]
    pub recount: bool,
    /// What was granted and is not settled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_ENTRIES))]
    pub entries: Vec<LedgerEntry>,
    /// Pods that go when another has come in their place: what room there is then is theirs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_REPLACEMENTS))]
    pub replacements: Vec<Replacement>,
}

/// A pod that goes when another has come in its place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Replacement {
    /// Its name.
    #[schemars(length(max = 253))]
    pub pod: String,
    /// Its uid.
    #[schemars(length(max = 128))]
    pub uid: String,
    /// Who wants it to go.
    #[schemars(length(max = HOLDER))]
    pub holder: String,
    /// When that was asked for last.
    pub time: Time,
    /// The Deployment whose pod it is: with that it goes, when it has no other owner any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deployment: Option<DeploymentReference>,
}

/// A Deployment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentReference {
    /// Its name.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Its uid.
    #[schemars(length(max = 128))]
    pub uid: String,
}

/// A pod that was allowed to go or to change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LedgerEntry {
    /// Its name.
    #[schemars(length(max = 253))]
    pub pod: String,
    /// Its uid.
    #[schemars(length(max = 128))]
    pub uid: String,
    /// What befalls it.
    pub operation: ProtectedOperation,
    /// Who does it: a user, or a workload of Berth's.
    #[schemars(length(max = HOLDER))]
    pub holder: String,
    /// When it was allowed.
    pub time: Time,
    /// The pod's metadata.generation before, where it changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// Containers that are to be replaced, by id.
    #[serde(
        default,
        rename = "containerIDs",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(length(max = MOST_CONTAINERS), inner(length(max = 256)))]
    pub container_ids: Vec<String>,
    /// Whether containers are restarted for other resources.
    #[serde(default, skip_serializing_if = "is_false")]
    pub resizes: bool,
    /// A name of its own, where it may be taken back because of what other budgets have.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub grant: Option<String>,
}
