//! Containers of a SidecarSet: a container's fields are a pod's, with those that only a sidecar
//! has.

use k8s_openapi::api::core::v1::ObjectFieldSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::container_rules::{
    EXPRESSION, MOST_NAMES, MOST_VARIABLES, NAME, REFERENCE, REGEX, compiles, field_ref,
    has_resources, no_blanks, share_disabled, upgrades,
};
use crate::schema::field::{checks, defaults_to};

/// A container, with what only a sidecar has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SidecarContainer {
    /// Before or behind the pod's own containers. Defaults to BeforeAppContainer, for init
    /// containers to AfterAppContainer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_inject_policy: Option<PodInjectPolicy>,
    /// How its image is changed.
    #[serde(default)]
    // A default is held to the rules before the defaults of its fields are filled in.
    #[schemars(transform = defaults_to(json!({"upgradeType": "ColdUpgrade"})))]
    pub upgrade_strategy: SidecarContainerUpgradeStrategy,
    /// Whether it mounts what the pod's own containers mount.
    #[serde(default)]
    #[schemars(transform = defaults_to(json!({})), transform = share_disabled)]
    pub share_volume_policy: ShareVolumePolicy,
    /// Whether it has the block devices that the pod's own containers have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share_volume_device_policy: Option<ShareVolumePolicy>,
    /// Variables that it takes over from the pod's own containers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_VARIABLES))]
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
#[schemars(transform = checks(upgrades()))]
pub struct SidecarContainerUpgradeStrategy {
    /// ColdUpgrade restarts the container with the new image. HotUpgrade runs it as two containers,
    /// of which one works, so that the new one can take over from the old. Defaults to ColdUpgrade.
    /// It cannot be changed later.
    #[serde(default)]
    #[schemars(transform = defaults_to("ColdUpgrade"))]
    pub upgrade_type: UpgradeType,
    /// With HotUpgrade: the image of the container that does not work.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = REFERENCE), transform = checks([no_blanks()]))]
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
    #[schemars(length(max = NAME))]
    pub source_container_name: String,
    /// Where the pod says which container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_container_name_from: Option<SourceContainerNameSource>,
    /// The variable.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = REFERENCE))]
    pub env_name: String,
    /// Several variables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_NAMES), inner(length(max = REFERENCE)))]
    pub env_names: Vec<String>,
}

/// Where a pod names a container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceContainerNameSource {
    /// `metadata.labels['<key>']` or `metadata.annotations['<key>']`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = field_ref)]
    pub field_ref: Option<ObjectFieldSelector>,
}

/// Resources that are made from those of others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourcesPolicy {
    /// sum or max of the containers that are looked at.
    pub target_containers_mode: TargetContainersMode,
    /// Which containers are looked at, by name: the pod's own, those beside them with
    /// `restartPolicy: Always` among them. Defaults to `.*`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = REGEX), transform = defaults_to(".*"))]
    #[schemars(transform = checks([compiles()]))]
    pub target_containers_name_regex: String,
    /// How they are made.
    #[schemars(transform = checks([has_resources()]))]
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
    /// For limits. If a target container has no limit, the sidecar gets none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<ResourceExpressions>,
    /// For requests. A container without a request has its limit, or 0 without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<ResourceExpressions>,
}

/// Expressions with `+ - * / ( )`, `max(a, b)`, `min(a, b)`, percentages, quantities and one
/// variable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceExpressions {
    /// With the variable `cpu`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = EXPRESSION))]
    pub cpu: String,
    /// With the variable `memory`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = EXPRESSION))]
    pub memory: String,
}
