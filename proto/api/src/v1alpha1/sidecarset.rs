//! SidecarSet: containers that pods get when they are created, and that are updated by themselves afterwards.

use k8s_openapi::api::core::v1::LocalObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::v1beta1::sidecarset::{
    SidecarContainer, SidecarSetInjectionStrategy, SidecarSetPatchPodMetadata,
    SidecarSetUpdateStrategy,
};
pub use crate::v1beta1::sidecarset::{
    SidecarSetCondition, SidecarSetInjection, SidecarSetRepair, SidecarSetStatus,
};

/// Which pods get which containers, and how a change reaches those that have them.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "apps.kruise.io",
    version = "v1alpha1",
    kind = "SidecarSet",
    storage = false,
    status = "SidecarSetStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "SidecarSet gives pods further containers when they are created, and updates those containers in place, without the workload of the pods."
)]
#[serde(rename_all = "camelCase")]
pub struct SidecarSetSpec {
    /// Which pods get the containers, by their labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// The one namespace whose pods get the containers. Not together with namespaceSelector.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// In which namespaces, by their labels. Without it, in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// Init containers that pods get. One with `restartPolicy: Always` runs beside the pod's containers. Injected in the order of
    /// their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub init_containers: Vec<SidecarContainer>,
    /// Containers that pods get.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<SidecarContainer>,
    /// Volumes that the containers mount or read variables from: see `kubectl explain pod.spec.volumes`. A pod gets no others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<Map<String, Value>>,
    /// How a change reaches pods that have the containers.
    #[serde(default)]
    pub update_strategy: SidecarSetUpdateStrategy,
    /// What pods get when they are created.
    #[serde(default)]
    pub injection_strategy: SidecarSetInjectionStrategy,
    /// Secrets by which the containers' images are pulled, in the pods' namespaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_pull_secrets: Vec<LocalObjectReference>,
    /// How many old revisions are kept, at least 1. Defaults to 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision_history_limit: Option<i32>,
    /// Annotations that pods get.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patch_pod_metadata: Vec<SidecarSetPatchPodMetadata>,
}
