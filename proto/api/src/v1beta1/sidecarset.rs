//! SidecarSet: containers that pods get when they are created, and that are updated by themselves afterwards.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{LocalObjectReference, ObjectFieldSelector};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::absent::{is_false, is_zero_i32, is_zero_i64};
use crate::update_order::{UpdatePriorityStrategy, UpdateScatterTerm};

/// Which pods get which containers, and how a change reaches those that have them.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "apps.kruise.io",
    version = "v1beta1",
    kind = "SidecarSet",
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
    /// A name for this version of the containers, by which injectionStrategy.revision may ask for it later.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub custom_version: String,
}

/// Annotations, and what becomes of those that a pod has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SidecarSetPatchPodMetadata {
    /// The annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Retain keeps what a pod has, Overwrite replaces it, MergePatchJson merges JSON texts. Defaults to Retain.
    #[serde(default)]
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

/// A container, with what only a sidecar has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SidecarContainer {
    /// Before or behind the pod's own containers. Defaults to BeforeAppContainer, for init containers to AfterAppContainer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_inject_policy: Option<PodInjectPolicy>,
    /// How its image is changed.
    #[serde(default)]
    pub upgrade_strategy: SidecarContainerUpgradeStrategy,
    /// Whether it mounts what the pod's own containers mount.
    #[serde(default)]
    pub share_volume_policy: ShareVolumePolicy,
    /// Whether it has the block devices that the pod's own containers have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share_volume_device_policy: Option<ShareVolumePolicy>,
    /// Variables that it takes over from the pod's own containers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transfer_env: Vec<TransferEnvVar>,
    /// Resources that are made from those of the pod's own containers. Not together with resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources_policy: Option<ResourcesPolicy>,
    /// The container's own fields: see `kubectl explain pod.spec.containers`.
    #[serde(flatten)]
    pub container: Map<String, Value>,
}

/// Where a container stands among those of its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum PodInjectPolicy {
    /// In front of the pod's own.
    BeforeAppContainer,
    /// Behind them.
    AfterAppContainer,
}

/// How the image of a sidecar is changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SidecarContainerUpgradeStrategy {
    /// ColdUpgrade restarts the container with the new image. HotUpgrade runs it as two containers, of which one works, so that the
    /// new one can take over from the old. Defaults to ColdUpgrade. It cannot be changed later.
    #[serde(default)]
    pub upgrade_type: UpgradeType,
    /// With HotUpgrade: the image of the container that does not work.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hot_upgrade_empty_image: String,
}

/// How the image of a sidecar is changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum UpgradeType {
    /// The container is restarted.
    #[default]
    ColdUpgrade,
    /// The new one runs before the old one ends.
    HotUpgrade,
}

/// Whether something of the pod's own containers is shared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShareVolumePolicy {
    /// enabled or disabled. Defaults to disabled.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<ShareVolumePolicyType>,
}

/// enabled or disabled. Defaults to disabled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ShareVolumePolicyType {
    /// It is.
    Enabled,
    /// It is not.
    #[default]
    Disabled,
}

/// Variables of a container of the pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TransferEnvVar {
    /// The container.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source_container_name: String,
    /// Where the pod says which container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_container_name_from: Option<SourceContainerNameSource>,
    /// The variable.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub env_name: String,
    /// Several variables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env_names: Vec<String>,
}

/// Where a pod names a container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceContainerNameSource {
    /// `metadata.labels['<key>']` or `metadata.annotations['<key>']`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field_ref: Option<ObjectFieldSelector>,
}

/// Resources that are made from those of others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourcesPolicy {
    /// sum or max of the containers that are looked at.
    pub target_containers_mode: TargetContainersMode,
    /// Which containers are looked at, by name: the pod's own, those beside them with `restartPolicy: Always` among them. Defaults
    /// to `.*`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub target_containers_name_regex: String,
    /// How they are made.
    pub resources_expr: ResourcesExpr,
}

/// How resources of several containers become one number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TargetContainersMode {
    /// Added up.
    #[default]
    Sum,
    /// The largest.
    Max,
}

/// Expressions for limits and requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourcesExpr {
    /// For limits. Where a container that is looked at has no limit, there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<ResourceExpressions>,
    /// For requests. A container without a request has its limit, or 0 without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<ResourceExpressions>,
}

/// Expressions with `+ - * / ( )`, `max(a, b)`, `min(a, b)`, percentages, quantities and one variable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceExpressions {
    /// With the variable `cpu`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cpu: String,
    /// With the variable `memory`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub memory: String,
}

/// What pods get when they are created.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SidecarSetInjectionStrategy {
    /// No pod gets anything. Pods that have the containers are still updated.
    #[serde(default, skip_serializing_if = "is_false")]
    pub paused: bool,
    /// An older revision than the latest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<SidecarSetInjectRevision>,
}

/// Which revision pods get.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SidecarSetInjectRevision {
    /// The newest revision that had this customVersion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_version: Option<String>,
    /// A ControllerRevision of the SidecarSet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision_name: Option<String>,
    /// Always: every pod gets it. Partial: pods that an update would reach get the latest instead, with a percentage as partition
    /// by chance. Defaults to Always.
    #[serde(default)]
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
pub struct SidecarSetUpdateStrategy {
    /// RollingUpdate changes images in pods that have the containers. NotUpdate leaves them alone. Defaults to RollingUpdate.
    #[serde(default, rename = "type")]
    pub type_: SidecarSetUpdateStrategyType,
    /// No update begins.
    #[serde(default, skip_serializing_if = "is_false")]
    pub paused: bool,
    /// Only these pods are updated, by their labels. Not together with partition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// How many pods stay as they are, a number or a percentage of the matched pods. Defaults to 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<IntOrString>,
    /// How many pods may be out of service for updates, a number or a percentage of the matched pods, rounded up. Defaults to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
    /// Which pods are updated first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_strategy: Option<UpdatePriorityStrategy>,
    /// Pods with these labels are spread over the whole update. The value `*` stands for each value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
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

/// How far it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SidecarSetStatus {
    /// The metadata.generation that this status speaks of.
    #[serde(default, skip_serializing_if = "is_zero_i64")]
    pub observed_generation: i64,
    /// Pods that the selectors match and that have the containers.
    #[serde(default)]
    pub matched_pods: i32,
    /// Of those, pods that have the latest containers.
    #[serde(default)]
    pub updated_pods: i32,
    /// Of the matched pods, those that are ready.
    #[serde(default)]
    pub ready_pods: i32,
    /// Of the updated pods, those that are ready.
    #[serde(default, skip_serializing_if = "is_zero_i32")]
    pub updated_ready_pods: i32,
    /// The ControllerRevision of the latest containers.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub latest_revision: String,
    /// How often the name of a new revision was taken by another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// InjectionReady: the apiserver asks for pods that are created. Repairing: pods without the containers are replaced. Blocked: what
    /// holds an update back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<SidecarSetCondition>,
    /// The selected pods, counted by what they have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub injection: Option<SidecarSetInjection>,
    /// The pod that is replaced last, as the annotation apps.kruise.io/sidecarset-repair asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repair: Option<SidecarSetRepair>,
}

/// A condition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SidecarSetCondition {
    /// Which.
    #[serde(rename = "type")]
    pub type_: String,
    /// True, False or Unknown.
    pub status: String,
    /// When that changed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// Why, in a word.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why, in a sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// The selected pods, counted by what they have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SidecarSetInjection {
    /// Pods that the selectors match.
    #[serde(default)]
    pub selected: i32,
    /// Pods that have the containers.
    #[serde(default)]
    pub injected: i32,
    /// Pods that were created while the selectors were in force, and do not have them.
    #[serde(default)]
    pub missed: i32,
    /// Pods that it did not select when they were created, and that do not have them.
    #[serde(default)]
    pub older: i32,
    /// Pods that could not get them.
    #[serde(default)]
    pub refused: i32,
    /// Pods whose containers are not those that their record names.
    #[serde(default)]
    pub drifted: i32,
    /// Pods that differ from the latest containers in more than images.
    #[serde(default)]
    pub not_upgradable: i32,
    /// Pods with containers of it in place of their own of the same names.
    #[serde(default, skip_serializing_if = "is_zero_i32")]
    pub replaced: i32,
    /// Of which selector and namespaceSelector the numbers are.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub selector_hash: String,
    /// Since when these are in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
}

/// A pod that is replaced, for it lacks the containers. Written before anything is done to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SidecarSetRepair {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub pod: String,
    /// Its uid.
    pub uid: String,
    /// The uid of the workload that makes another.
    pub owner: String,
    /// When the newest pod of that workload was created by then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newest: Option<Time>,
    /// Since when it is its turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// The apiserver did not let it go, for a PodDisruptionBudget as a rule.
    #[serde(default, skip_serializing_if = "is_false")]
    pub refused: bool,
    /// Its turn is over: another one is next.
    #[serde(default, skip_serializing_if = "is_false")]
    pub over: bool,
    /// Since when its workload is to make another that is ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<Time>,
    /// Pods in whose place their workloads made no other, or one that lacks the containers, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<SidecarSetLostPod>,
}

/// A pod in whose place its workload made no other, or one that lacks the containers, too: no more
/// pods of that are taken.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SidecarSetLostPod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub pod: String,
    /// The uid of its workload.
    pub owner: String,
    /// When the newest pod of that workload was created by then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newest: Option<Time>,
    /// When the successor was seen to lack the containers; absent where none came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Time>,
    /// How often in a row successors of this workload's pods lacked the containers.
    #[serde(default, skip_serializing_if = "is_zero_i32")]
    pub stops: i32,
}
