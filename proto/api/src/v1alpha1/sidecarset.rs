//! SidecarSet: containers that pods get when they are created, and that are updated by themselves afterwards.

use k8s_openapi::api::core::v1::LocalObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::schema::field::{defaults_to, label_selector, rules, with};
use crate::schema::rules::{label_name, not_empty};
use crate::v1beta1::cloneset::{DEFAULT_REVISION_HISTORY_LIMIT, MAX_REVISION_HISTORY_LIMIT};
use crate::v1beta1::sidecarset::container_rules::{NAME, by_name, sidecars};
use crate::v1beta1::sidecarset::rules::{
    EVERYTHING, EVERYWHERE, MOST_PATCHES, MOST_SECRETS, MOST_VOLUMES, namespace, secrets,
    v1alpha1_rules, volume,
};
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
    doc = "SidecarSet gives pods further containers when they are created, and updates those containers in place, without the workload of the pods.",
    validation = label_name(63, "labels of its revisions are made from it"),
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = rules(v1alpha1_rules()))]
pub struct SidecarSetSpec {
    /// Which pods get the containers, by their labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = label_selector, transform = rules([not_empty(EVERYTHING)]))]
    pub selector: Option<LabelSelector>,
    /// The one namespace whose pods get the containers. Not together with namespaceSelector.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = NAME), transform = rules([namespace()]))]
    pub namespace: String,
    /// In which namespaces, by their labels. Without it, in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = label_selector, transform = rules([not_empty(EVERYWHERE)]))]
    pub namespace_selector: Option<LabelSelector>,
    /// Init containers that pods get. One with `restartPolicy: Always` runs beside the pod's containers. Injected in the order of
    /// their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = sidecars(true))]
    pub init_containers: Vec<SidecarContainer>,
    /// Containers that pods get.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = sidecars(false))]
    pub containers: Vec<SidecarContainer>,
    /// Volumes that the containers mount or read variables from: see `kubectl explain pod.spec.volumes`. A pod gets no others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = with(by_name(MOST_VOLUMES)), transform = with(json!({"items": volume()})))]
    pub volumes: Vec<Map<String, Value>>,
    /// How a change reaches pods that have the containers.
    #[serde(default)]
    #[schemars(transform = defaults_to(json!({})))]
    pub update_strategy: SidecarSetUpdateStrategy,
    /// What pods get when they are created.
    #[serde(default)]
    pub injection_strategy: SidecarSetInjectionStrategy,
    /// Secrets by which the containers' images are pulled, in the pods' namespaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_SECRETS), transform = secrets)]
    pub image_pull_secrets: Vec<LocalObjectReference>,
    /// How many old revisions are kept, at least 1. Defaults to 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = MAX_REVISION_HISTORY_LIMIT), transform = defaults_to(DEFAULT_REVISION_HISTORY_LIMIT))]
    pub revision_history_limit: Option<i32>,
    /// Annotations that pods get.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_PATCHES))]
    pub patch_pod_metadata: Vec<SidecarSetPatchPodMetadata>,
}
