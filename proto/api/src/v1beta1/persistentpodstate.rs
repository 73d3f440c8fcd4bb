//! PersistentPodState: where the pods of a workload ran last, so that those that take their place run there, too.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Of which workload, and what is kept.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "apps.kruise.io",
    version = "v1beta1",
    kind = "PersistentPodState",
    namespaced,
    status = "PersistentPodStateStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "PersistentPodState records on which nodes the pods of a workload ran, and lets those that take their place run there again."
)]
#[serde(rename_all = "camelCase")]
pub struct PersistentPodStateSpec {
    /// The workload, in the same namespace. It cannot be changed later.
    pub target_ref: TargetReference,
    /// Annotations of pods that are kept, too: a pod that takes the place of another gets them back where its template has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub persistent_pod_annotations: Vec<PersistentPodAnnotation>,
    /// Labels of nodes that a pod's next node must share with its last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required_persistent_topology: Option<NodeTopologyTerm>,
    /// Labels of nodes that a pod's next node should share with its last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preferred_persistent_topology: Vec<PreferredTopologyTerm>,
    /// WhenScaled drops the record of a pod that is beyond the replicas and gone. WhenDeleted keeps it until the workload goes.
    /// Defaults to WhenScaled.
    #[serde(default)]
    pub persistent_pod_state_retention_policy: RetentionPolicy,
}

/// Labels of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeTopologyTerm {
    /// Their keys, such as kubernetes.io/hostname.
    #[serde(default)]
    pub keys: Vec<String>,
}

/// Labels of nodes, and how much they count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreferredTopologyTerm {
    /// How much, from 1 to 100.
    pub weight: i32,
    /// Which labels.
    pub preference: NodeTopologyTerm,
}

/// A workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetReference {
    /// Its group and version; the version does not matter.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
}

/// An annotation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PersistentPodAnnotation {
    /// Its key.
    pub key: String,
}

/// How long the record of a pod is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum RetentionPolicy {
    /// Until the pod is beyond the replicas and gone.
    #[default]
    WhenScaled,
    /// Until the workload goes.
    WhenDeleted,
}

/// Where pods ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PersistentPodStateStatus {
    /// The metadata.generation that this status speaks of.
    #[serde(default)]
    pub observed_generation: i64,
    /// By pod: where it was when it was ready last.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pod_states: BTreeMap<String, PodState>,
}

/// Where a pod was when it was ready last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodState {
    /// The node.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node_name: String,
    /// Those of its labels that the spec names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_topology_labels: BTreeMap<String, String>,
    /// Those of the pod's annotations that the spec names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}
