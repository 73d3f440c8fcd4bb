//! Advanced StatefulSet: pods with a name, claims and a place in the order of their own, updated in place where that is possible.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::v1beta1;
pub use crate::v1beta1::statefulset::{StatefulSetCondition, StatefulSetStatus};

/// What the pods shall be, how many, and how a change reaches them.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "apps.kruise.io",
    version = "v1alpha1",
    kind = "StatefulSet",
    namespaced,
    storage = false,
    status = "StatefulSetStatus",
    derive = "Default",
    derive = "PartialEq",
    shortname = "sts",
    shortname = "asts",
    doc = "StatefulSet keeps pods running that each have a name, claims and a place in the order of their own, and brings changes to them. A change of images, labels or annotations can reach the pods in place: same pod, same node, same IP.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.labelSelector"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct StatefulSetSpec {
    // OpenKruise's v1alpha1 lacks six of them. Without `reserveOrdinals`, for example, pods of other ordinals are deleted.
    /// The fields of v1beta1.
    #[serde(flatten)]
    pub spec: v1beta1::statefulset::StatefulSetSpec,
}
