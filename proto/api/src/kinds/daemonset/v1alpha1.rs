//! Advanced DaemonSet: one pod on each node that fits, updated node by node, in place where that is
//! possible.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::fields::lifecycle::Lifecycle;
use crate::fields::template::PodTemplate;
use crate::kinds::cloneset::v1beta1::{DEFAULT_REVISION_HISTORY_LIMIT, MAX_REVISION_HISTORY_LIMIT};
use crate::kinds::daemonset::v1beta1;
use crate::kinds::daemonset::v1beta1::DEFAULT_BURST_REPLICAS;
use crate::kinds::daemonset::v1beta1::rules::{
    more_than_none, name, no_hook_of_updates, v1alpha1_ways,
};
use crate::schema::absent::is_zero_i32;
use crate::schema::field::{checks, defaults_to, int_or_percent, with};
use crate::schema::pods::{selector, selector_matches_template};
use crate::schema::template;

/// What the pods shall be, on which nodes, and how a change reaches them.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "apps.kruise.io",
    version = "v1alpha1",
    kind = "DaemonSet",
    namespaced,
    storage = false,
    status = "DaemonSetStatus",
    derive = "Default",
    derive = "PartialEq",
    shortname = "daemon",
    shortname = "ads",
    doc = "DaemonSet keeps one pod running on each node that fits its template, and brings changes to them node by node. A change of images, labels or annotations can reach the pods in place: same pod, same IP.",
    validation = name(),
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = checks(selector_matches_template()))]
pub struct DaemonSetSpec {
    /// Which pods belong to the DaemonSet, by their labels. It must match the template's labels and
    /// cannot be changed later.
    #[schemars(transform = selector("DaemonSet"))]
    pub selector: LabelSelector,
    /// The pods that are made. Their fields are those of a pod, see `kubectl explain pod.spec`;
    /// nodeName, nodeSelector, affinity and tolerations say on which nodes. A change of an image or
    /// of metadata can be made in place, any other change replaces pods.
    #[schemars(transform = with(template::pod("DaemonSet")))]
    pub template: PodTemplate,
    /// How a changed template reaches the pods.
    #[serde(default)]
    #[schemars(transform = defaults_to(json!({})), transform = checks(v1alpha1_ways()))]
    pub update_strategy: DaemonSetUpdateStrategy,
    /// Seconds for which a pod must have been ready before it counts as available. Defaults to 0.
    #[serde(default, skip_serializing_if = "is_zero_i32")]
    #[schemars(range(min = 0, max = i32::MAX))]
    pub min_ready_seconds: i32,
    /// How many pods are created, and how many deleted, at a time: a number, or a percentage of the
    /// nodes that shall have a pod, rounded down, at least 1. Defaults to 250.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = defaults_to(DEFAULT_BURST_REPLICAS), transform = int_or_percent)]
    #[schemars(transform = checks([more_than_none()]))]
    pub burst_replicas: Option<IntOrString>,
    /// How many old revisions of the template are kept to roll back to, at most 200. Defaults to
    /// 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = MAX_REVISION_HISTORY_LIMIT))]
    #[schemars(transform = defaults_to(DEFAULT_REVISION_HISTORY_LIMIT))]
    pub revision_history_limit: Option<i32>,
    /// Points at which a pod waits until someone else agrees. A DaemonSet knows preDelete alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = checks([no_hook_of_updates()]))]
    pub lifecycle: Option<Lifecycle>,
}

/// How a changed template reaches the pods.
pub type DaemonSetUpdateStrategy = v1beta1::DaemonSetUpdateStrategy<RollingUpdateType>;

/// How a pod is brought to the update revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum RollingUpdateType {
    /// By a new pod.
    #[default]
    Standard,
    /// In place where possible, by a new pod otherwise.
    InPlaceIfPossible,
    /// Another word for Standard with maxSurge 1 and maxUnavailable 0, where these are not given.
    Surging,
}

/// What the controller saw and did last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DaemonSetStatus {
    /// The fields of v1beta1.
    #[serde(flatten)]
    pub status: v1beta1::DaemonSetStatus,
    /// The hash of the template as it is now: the label controller-revision-hash of updated pods.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub daemon_set_hash: String,
}
