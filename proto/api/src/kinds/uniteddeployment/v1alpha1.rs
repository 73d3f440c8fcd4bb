//! UnitedDeployment: one workload for each domain, among which the replicas of one application are
//! divided.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kinds::uniteddeployment::v1beta1;
use crate::kinds::uniteddeployment::v1beta1::rules::name;
use crate::kinds::uniteddeployment::v1beta1::shapes::one_value;
use crate::schema::field::checks;

/// What runs in each domain, and how many of the replicas each domain gets.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "apps.kruise.io",
    version = "v1alpha1",
    kind = "UnitedDeployment",
    namespaced,
    storage = false,
    status = "UnitedDeploymentStatus",
    derive = "Default",
    derive = "PartialEq",
    shortname = "ud",
    doc = "UnitedDeployment runs one application in several domains, such as zones, node pools or architectures: it makes one workload for each of them, a subset, and divides the replicas among them.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.labelSelector"
    ),
    validation = name(),
)]
#[serde(rename_all = "camelCase")]
pub struct UnitedDeploymentSpec {
    /// The fields of v1beta1; in `template.cloneSetTemplate.spec` those of a v1alpha1 CloneSet.
    #[serde(flatten)]
    pub spec: v1beta1::UnitedDeploymentSpec,
}

/// What is there. Some of it has two places, because OpenKruise 1.9.0 and before know only the
/// older ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = checks(one_value()))]
pub struct UnitedDeploymentStatus {
    /// The fields of v1beta1.
    #[serde(flatten)]
    pub status: v1beta1::UnitedDeploymentStatus,
    /// Pods that the division gives to each subset, by its name. v1beta1 has them in subsetStatuses
    /// alone.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 1024))]
    pub subset_replicas: BTreeMap<String, i32>,
    /// How far the update is. v1beta1 has it in updatedRevision and subsetStatuses alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_status: Option<UpdateStatus>,
}

/// How far the update is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateStatus {
    /// The revision of the template.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub updated_revision: String,
    /// Pods of each subset that stay at the old revision, by its name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 1024))]
    pub current_partitions: BTreeMap<String, i32>,
}
