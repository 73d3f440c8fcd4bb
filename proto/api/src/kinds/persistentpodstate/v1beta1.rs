//! PersistentPodState: where the pods of a workload ran last, so that those that take their place
//! run there, too.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::schema::field::{checks, defaults_to};
use crate::schema::rules::LABEL_KEY;

/// The most labels of nodes, and annotations of pods.
pub(crate) const MOST_KEYS: usize = 16;

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
    doc = "PersistentPodState records on which nodes the pods of a workload ran, and lets those that take their place run there again.",
    printcolumn = r#"{"name": "KIND", "type": "string", "jsonPath": ".spec.targetRef.kind", "description": "The kind of the workload."}"#,
    printcolumn = r#"{"name": "TARGET", "type": "string", "jsonPath": ".spec.targetRef.name", "description": "The workload."}"#,
    printcolumn = r#"{"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp", "description": "Time since the creation."}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = checks(of_spec()))]
pub struct PersistentPodStateSpec {
    /// The workload, in the same namespace. It cannot be changed later.
    pub target_ref: TargetReference,
    /// Annotations of pods that are kept, too: a pod that takes the place of another gets them back
    /// where its template has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_KEYS))]
    pub persistent_pod_annotations: Vec<PersistentPodAnnotation>,
    /// Labels of nodes that a pod's next node must share with its last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required_persistent_topology: Option<NodeTopologyTerm>,
    /// Labels of nodes that a pod's next node should share with its last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_KEYS))]
    pub preferred_persistent_topology: Vec<PreferredTopologyTerm>,
    /// WhenScaled drops the record of a pod that is beyond the replicas and gone. WhenDeleted keeps
    /// it until the workload goes. Defaults to WhenScaled.
    #[serde(default)]
    #[schemars(transform = defaults_to("WhenScaled"))]
    pub persistent_pod_state_retention_policy: RetentionPolicy,
}

/// Labels of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeTopologyTerm {
    /// Their keys, such as kubernetes.io/hostname.
    #[serde(default)]
    #[schemars(length(min = 1, max = MOST_KEYS), inner(length(min = 1, max = LABEL_KEY)))]
    pub keys: Vec<String>,
}

/// Labels of nodes, and how much they count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreferredTopologyTerm<T = NodeTopologyTerm> {
    /// How much, from 1 to 100.
    #[schemars(range(min = 1, max = 100))]
    pub weight: i32,
    /// Which labels.
    pub preference: T,
}

/// A workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetReference {
    /// Its group and version; the version does not matter.
    #[schemars(length(min = 1, max = 253))]
    pub api_version: String,
    /// Its kind.
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// An annotation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PersistentPodAnnotation {
    /// Its key.
    #[schemars(length(min = 1, max = LABEL_KEY))]
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

/// Rules of the spec.
pub(crate) fn of_spec() -> [Value; 2] {
    [is_pinned_by_something(), is_of_one_workload()]
}

fn is_pinned_by_something() -> Value {
    let valid = "has(self.requiredPersistentTopology) || (has(self.preferredPersistentTopology) && size(self.preferredPersistentTopology) > 0)";
    json!({"rule": valid, "message": "has neither requiredPersistentTopology nor preferredPersistentTopology, so nothing would be kept: set one of them"})
}

fn is_of_one_workload() -> Value {
    // A StatefulSet that moves from Kubernetes' kind to ours, or back, takes its pods along.
    let same = "self.targetRef.kind == oldSelf.targetRef.kind && self.targetRef.name == oldSelf.targetRef.name && \
                (self.targetRef.apiVersion.split('/')[0] == oldSelf.targetRef.apiVersion.split('/')[0] || \
                (self.targetRef.kind == 'StatefulSet' && [self, oldSelf].all(s, s.targetRef.apiVersion.split('/')[0] in ['apps', 'apps.kruise.io'])))";
    json!({"rule": same, "reason": "FieldValueForbidden", "fieldPath": ".targetRef",
           "message": "cannot be changed, the records are of the pods of that workload: create another PersistentPodState; only that of a StatefulSet may go from apps to apps.kruise.io and back, with its pods"})
}
