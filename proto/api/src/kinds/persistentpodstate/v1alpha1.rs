//! PersistentPodState: where the pods of a workload ran last, so that those that take their place
//! run there, too.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kinds::persistentpodstate::v1beta1;
use crate::kinds::persistentpodstate::v1beta1::{MOST_KEYS, of_spec};
pub use crate::kinds::persistentpodstate::v1beta1::{
    PersistentPodAnnotation, PersistentPodStateStatus, PodState, RetentionPolicy, TargetReference,
};
use crate::schema::field::{checks, defaults_to};
use crate::schema::rules::LABEL_KEY;

/// Of which workload, and what is kept.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "apps.kruise.io",
    version = "v1alpha1",
    kind = "PersistentPodState",
    namespaced,
    storage = false,
    status = "PersistentPodStateStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "PersistentPodState records on which nodes the pods of a workload ran, and lets those that take their place run there again."
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
    pub node_topology_keys: Vec<String>,
}

/// Labels of nodes, and how much they count.
pub type PreferredTopologyTerm = v1beta1::PreferredTopologyTerm<NodeTopologyTerm>;
