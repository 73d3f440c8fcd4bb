//! SidecarSet: containers that pods get when they are created, and that are updated by themselves
//! afterwards.

pub(crate) mod container_rules;
mod containers;
pub(crate) mod rules;
mod status;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::LocalObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

pub use self::containers::{
    PodInjectPolicy, ResourceExpressions, ResourcesExpr, ResourcesPolicy, ShareVolumePolicy,
    ShareVolumePolicyType, SidecarContainer, SidecarContainerUpgradeStrategy,
    SourceContainerNameSource, TargetContainersMode, TransferEnvVar, UpgradeType,
};
pub use self::status::{
    SidecarSetCondition, SidecarSetInjection, SidecarSetLostPod, SidecarSetRepair, SidecarSetStatus,
};

use self::container_rules::{by_name, sidecars};
use self::rules::{
    EVERYTHING, EVERYWHERE, MOST_PATCHES, MOST_SECRETS, MOST_VOLUMES, annotations, label_value,
    names_a_revision, of_spec, secrets, selected_or_kept_back, short_values, volume,
};
use crate::fields::update_order::{UpdatePriorityStrategy, UpdateScatterTerm};
use crate::kinds::cloneset::v1beta1::{DEFAULT_REVISION_HISTORY_LIMIT, MAX_REVISION_HISTORY_LIMIT};
use crate::schema::absent::is_false;
use crate::schema::field::{checks, defaults_to, int_or_percent, label_selector, list_by, with};
use crate::schema::rules::{DNS_SUBDOMAIN, LABEL_VALUE, label_name, not_empty};

/// Which pods get which containers, and how a change reaches those that have them.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "apps.kruise.io",
    version = "v1beta1",
    kind = "SidecarSet",
    status = "SidecarSetStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "SidecarSet gives pods further containers when they are created, and updates those containers in place, without the workload of the pods.",
    validation = label_name(63, "labels of its revisions are made from it"),
    printcolumn = r#"{"name": "MATCHED", "type": "integer", "jsonPath": ".status.matchedPods", "description": "Pods that are selected and have the containers."}"#,
    printcolumn = r#"{"name": "UPDATED", "type": "integer", "jsonPath": ".status.updatedPods", "description": "Pods that have the latest containers."}"#,
    printcolumn = r#"{"name": "READY", "type": "integer", "jsonPath": ".status.readyPods", "description": "Pods that are ready."}"#,
    printcolumn = r#"{"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp", "description": "Time since the creation."}"#,
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = checks(of_spec()))]
pub struct SidecarSetSpec {
    /// Which pods get the containers, by their labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = label_selector, transform = checks([not_empty(EVERYTHING)]))]
    pub selector: Option<LabelSelector>,
    /// In which namespaces, by their labels. Without it, in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = label_selector, transform = checks([not_empty(EVERYWHERE)]))]
    pub namespace_selector: Option<LabelSelector>,
    /// Init containers that pods get. One with `restartPolicy: Always` runs beside the pod's
    /// containers. Injected in the order of their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = sidecars(true))]
    pub init_containers: Vec<SidecarContainer>,
    /// Containers that pods get.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = sidecars(false))]
    pub containers: Vec<SidecarContainer>,
    /// Volumes that the containers mount or read variables from: see `kubectl explain
    /// pod.spec.volumes`. A pod gets no others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = with(by_name(MOST_VOLUMES)))]
    #[schemars(transform = with(json!({"items": volume()})))]
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
    #[schemars(range(min = 0, max = MAX_REVISION_HISTORY_LIMIT))]
    #[schemars(transform = defaults_to(DEFAULT_REVISION_HISTORY_LIMIT))]
    pub revision_history_limit: Option<i32>,
    /// Annotations that pods get.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_PATCHES))]
    pub patch_pod_metadata: Vec<SidecarSetPatchPodMetadata>,
    /// A name for this version of the containers, by which injectionStrategy.revision may ask for
    /// it later.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = LABEL_VALUE), transform = checks([label_value()]))]
    pub custom_version: String,
}

/// Annotations, and what becomes of those that a pod has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["annotations"]))]
pub struct SidecarSetPatchPodMetadata {
    /// The annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(transform = with(annotations()))]
    pub annotations: BTreeMap<String, String>,
    /// Retain keeps what a pod has, Overwrite replaces it, MergePatchJson merges JSON texts.
    /// Defaults to Retain.
    #[serde(default)]
    #[schemars(transform = defaults_to("Retain"))]
    pub patch_policy: PatchPolicy,
}

/// What becomes of an annotation that a pod has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum PatchPolicy {
    /// It stays.
    #[default]
    Retain,
    /// It is replaced.
    Overwrite,
    /// Both are JSON, and are merged.
    MergePatchJson,
}

/// What pods get when they are created.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SidecarSetInjectionStrategy {
    /// No pod gets anything. Pods that have the containers are still updated.
    #[serde(default, skip_serializing_if = "is_false")]
    pub paused: bool,
    /// An older revision than the latest.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = checks([names_a_revision()]))]
    pub revision: Option<SidecarSetInjectRevision>,
}

/// Which revision pods get.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SidecarSetInjectRevision {
    /// The newest revision that had this customVersion.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = LABEL_VALUE), transform = checks([label_value()]))]
    pub custom_version: Option<String>,
    /// A ControllerRevision of the SidecarSet.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub revision_name: Option<String>,
    /// Always: every pod gets it. Partial: pods that an update would reach get the latest instead,
    /// with a percentage as partition by chance. Defaults to Always.
    #[serde(default)]
    #[schemars(transform = defaults_to("Always"))]
    pub policy: InjectRevisionPolicy,
}

/// Which pods get an older revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum InjectRevisionPolicy {
    /// All.
    #[default]
    Always,
    /// Those that no update would reach.
    Partial,
}

/// How a change reaches pods that have the containers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = checks([selected_or_kept_back()]))]
pub struct SidecarSetUpdateStrategy {
    /// RollingUpdate changes images in pods that have the containers. NotUpdate leaves them alone.
    /// Defaults to RollingUpdate.
    #[serde(default, rename = "type")]
    #[schemars(transform = defaults_to("RollingUpdate"))]
    pub type_: SidecarSetUpdateStrategyType,
    /// No update begins.
    #[serde(default, skip_serializing_if = "is_false")]
    pub paused: bool,
    /// Only these pods are updated, by their labels. Not together with partition.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = label_selector)]
    #[schemars(transform = checks([not_empty("is empty: set matchLabels or matchExpressions, or remove it")]))]
    pub selector: Option<LabelSelector>,
    /// How many pods stay as they are, a number or a percentage of the matched pods. Defaults to 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = defaults_to(0), transform = int_or_percent)]
    pub partition: Option<IntOrString>,
    /// How many pods may be out of service for updates, a number or a percentage of the matched
    /// pods, rounded up. Defaults to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = defaults_to(1), transform = int_or_percent)]
    pub max_unavailable: Option<IntOrString>,
    /// Which pods are updated first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_strategy: Option<UpdatePriorityStrategy>,
    /// Pods with these labels are spread over the whole update. The value `*` stands for each
    /// value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), transform = list_by(["key", "value"]), transform = short_values)]
    pub scatter_strategy: Vec<UpdateScatterTerm>,
}

/// Whether pods that have the containers are changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum SidecarSetUpdateStrategyType {
    /// They are.
    #[default]
    RollingUpdate,
    /// They are not.
    NotUpdate,
}
