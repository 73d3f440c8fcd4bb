//! DistributedPodDisruptionBudget: how many pods of several namespaces and clusters stay in
//! service.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::kinds::podunavailablebudget::v1beta1::{Ledger, ProtectedOperation};
use crate::schema::absent::{is_zero_i32, is_zero_i64};
use crate::schema::budgets::{SELECTS_EVERY_POD, amount, one_of, unchanged};
use crate::schema::field::{checks, conditions, defaults_to, label_selector, list_by};
use crate::schema::rules::{DNS_LABEL, DNS_SUBDOMAIN, not_empty};

/// The most budgets that one federates: each is read before a pod goes.
const MOST_MEMBERS: u32 = 16;
/// The most conditions that a healthy pod must have.
const MOST_CONDITIONS: u32 = 16;

/// Whose pods, how many of them and of those of other budgets, and from what.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "policy.kruise.io",
    version = "v1alpha1",
    kind = "DistributedPodDisruptionBudget",
    namespaced,
    shortname = "dpdb",
    status = "DistributedPodDisruptionBudgetStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "DistributedPodDisruptionBudget says how many pods must stay in service, its own and those of other budgets together, when somebody evicts, deletes or updates one of its own.",
    printcolumn = r#"{"name": "Min Available", "type": "string", "jsonPath": ".spec.minAvailable", "description": "Pods that must stay healthy."}"#,
    printcolumn = r#"{"name": "Max Unavailable", "type": "string", "jsonPath": ".spec.maxUnavailable", "description": "Pods that may be out of service."}"#,
    printcolumn = r#"{"name": "Allowed", "type": "integer", "jsonPath": ".status.disruptionsAllowed", "description": "Own pods that may be taken out of service now."}"#,
    printcolumn = r#"{"name": "Current", "type": "integer", "jsonPath": ".status.currentHealthy", "description": "Pods that are healthy, own and federated ones."}"#,
    printcolumn = r#"{"name": "Desired", "type": "integer", "jsonPath": ".status.desiredHealthy", "description": "Pods that must stay healthy, own and federated ones."}"#,
    printcolumn = r#"{"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp", "description": "Time since the creation."}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = checks([one_of("minAvailable", "maxUnavailable"), unchanged("selector")]))]
pub struct DistributedPodDisruptionBudgetSpec {
    /// The budget's own pods, of the same namespace, by their labels. It cannot be changed later.
    #[schemars(transform = label_selector, transform = checks([not_empty(SELECTS_EVERY_POD)]))]
    pub selector: LabelSelector,
    /// The fewest pods that must stay healthy, own ones and those of federation together: a number,
    /// or a percentage of all expected ones, rounded up. Either this or maxUnavailable.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = amount)]
    pub min_available: Option<IntOrString>,
    /// The most pods that may be out of service, own ones and those of federation together: a
    /// number, or a percentage of all expected ones, rounded up. Either this or minAvailable.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = amount)]
    pub max_unavailable: Option<IntOrString>,
    /// Other budgets whose own pods also count. Pods of budgets that they federate do not count.
    /// This budget binds another budget only if that budget names this one, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_MEMBERS), transform = list_by(["cluster", "namespace", "name"]))]
    pub federation: Vec<Member>,
    /// IfHealthyBudget lets a pod that is not healthy go only while enough others are. AlwaysAllow
    /// lets it go regardless of the budget. Defaults to IfHealthyBudget.
    #[serde(default)]
    #[schemars(transform = defaults_to("IfHealthyBudget"))]
    pub unhealthy_pod_eviction_policy: UnhealthyPodEvictionPolicy,
    /// From what the pods are protected. Empty: EVICT, DELETE and UPDATE. RESIZE is a change of
    /// resources that restarts no container.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub protect_operations: Vec<ProtectedOperation>,
    /// Conditions of a pod that must be True besides Ready, for it to be healthy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_CONDITIONS), inner(length(min = 1, max = 316)))]
    pub healthy_conditions: Vec<String>,
    /// Minimum number of own pods that stay, even if other budgets have capacity. Budgets of other
    /// clusters count on this number while they cannot read this budget. Defaults to 0.
    #[serde(default, skip_serializing_if = "is_zero_i32")]
    #[schemars(range(min = 0, max = i32::MAX))]
    pub floor: i32,
    /// How long others may count on a floor that was lowered, or whose budget was deleted: so long
    /// it binds on. In seconds; defaults to 60.
    #[serde(default = "lease_seconds")]
    #[schemars(range(min = 10, max = 3600), transform = defaults_to(60))]
    pub lease_seconds: i32,
}

const fn lease_seconds() -> i32 {
    60
}

/// A budget whose pods count, too.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    /// Its cluster, by its context in the kubeconfig of other clusters. Without it, this one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253), transform = defaults_to(""))]
    pub cluster: String,
    /// Its namespace.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub namespace: String,
    /// Its name.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub name: String,
    /// Its kind. Without it a DistributedPodDisruptionBudget, or, if there is none of that name, a
    /// PodDisruptionBudget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<MemberKind>,
}

/// The kind of a budget whose pods count, too.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum MemberKind {
    /// Berth's.
    DistributedPodDisruptionBudget,
    /// Kubernetes' own.
    PodDisruptionBudget,
    /// OpenKruise's.
    PodUnavailableBudget,
}

impl MemberKind {
    /// As manifests have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::DistributedPodDisruptionBudget => "DistributedPodDisruptionBudget",
            Self::PodDisruptionBudget => "PodDisruptionBudget",
            Self::PodUnavailableBudget => "PodUnavailableBudget",
        }
    }
}

/// Whether a pod that is not healthy may go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum UnhealthyPodEvictionPolicy {
    /// While as many are healthy as the budget wants.
    #[default]
    IfHealthyBudget,
    /// Always.
    AlwaysAllow,
}

/// What the budget and those that it federates have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DistributedPodDisruptionBudgetStatus {
    /// The metadata.generation that this status speaks of.
    #[serde(default, skip_serializing_if = "is_zero_i64")]
    pub observed_generation: i64,
    /// How many more of its own pods may be taken out of service now.
    #[serde(default)]
    pub disruptions_allowed: i32,
    /// How many pods are healthy, own ones and those of federation together, without those that
    /// were allowed to go or to change.
    #[serde(default)]
    pub current_healthy: i32,
    /// How many of them must stay healthy.
    #[serde(default)]
    pub desired_healthy: i32,
    /// How many pods are expected, own ones and those of federation together.
    #[serde(default)]
    pub expected_pods: i32,
    /// The budget's own pods alone: what it brings to those that name it.
    #[serde(default)]
    pub own: OwnPods,
    /// How many of them never go, as other clusters may have read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor: Option<FloorStatus>,
    /// The PodDisruptionBudget of the same name, which tells the scheduler, autoscalers and the
    /// eviction API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub child_status: Option<ChildStatus>,
    /// What each of federation has, in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_MEMBERS))]
    pub federated_statuses: Vec<FederatedStatus>,
    /// Who uses the budget up, and by which view of the pods it was counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ledger: Option<Ledger>,
    /// DisruptionAllowed, Enforced, Federated, ChildPDB and Blocked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = conditions("DisruptionAllowed, Enforced, Federated, ChildPDB or Blocked."))]
    pub conditions: Vec<Condition>,
}

/// The pods of one budget alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OwnPods {
    /// How many are healthy, without those that were allowed to go or to change.
    #[serde(default)]
    pub healthy: i32,
    /// How many are expected.
    #[serde(default)]
    pub expected: i32,
}

/// How many pods never go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FloorStatus {
    /// So many.
    #[serde(default)]
    pub pods: i32,
    /// How long that binds on when spec.floor is lowered, in seconds.
    #[serde(default)]
    pub lease_seconds: i32,
}

/// The native budget that this one keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChildStatus {
    /// Its name.
    pub name: String,
    /// Its spec.minAvailable: what must stay here, given what the others have.
    #[serde(default)]
    pub min_available: i32,
    /// How many evictions it allows.
    #[serde(default)]
    pub disruptions_allowed: i32,
}

impl FederatedStatus {
    /// Whether it tells of this one.
    pub fn is_of(&self, member: &Member) -> bool {
        self.cluster == member.cluster
            && self.namespace == member.namespace
            && self.name == member.name
    }
}

/// What a budget of federation has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FederatedStatus {
    /// Its kind; empty where there is none of that name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Its cluster, where that is another.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cluster: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid, where it is in this cluster.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 128))]
    pub uid: String,
    /// Its metadata.generation, where it is in this cluster.
    #[serde(default, skip_serializing_if = "is_zero_i64")]
    pub generation: i64,
    /// Whether its numbers are known. If not, none of its pods counts as healthy, or as many as its
    /// floor says.
    #[serde(default)]
    pub reachable: bool,
    /// How many of its pods are healthy, without those that were allowed to go and those that are
    /// counted already.
    #[serde(default)]
    pub healthy: i32,
    /// How many it expects, without those that are counted already.
    #[serde(default)]
    pub expected: i32,
    /// How many of its pods are counted already, for this budget or one before it in federation
    /// selects them, too, or may do so in another cluster.
    #[serde(default, skip_serializing_if = "is_zero_i32")]
    pub shared: i32,
    /// How many of those that it expects are counted already.
    #[serde(default, skip_serializing_if = "is_zero_i32")]
    pub shared_expected: i32,
    /// When other numbers than before were read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_changed: Option<Time>,
    /// When it was read last, where it cannot be read now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_read: Option<Time>,
    /// Why its numbers are not known, and the remedy.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 2048))]
    pub message: String,
}
