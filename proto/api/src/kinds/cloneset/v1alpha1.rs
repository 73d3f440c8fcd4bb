//! CloneSet: a set of interchangeable pods, updated in place where that is possible.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::fields::inplace::InPlaceUpdateStrategy;
use crate::fields::lifecycle::Lifecycle;
use crate::fields::template::{PodTemplate, VolumeClaimTemplate};
use crate::fields::update_order::{UpdatePriorityStrategy, UpdateScatterTerm};
use crate::kinds::cloneset::v1beta1::rules::{surge_in_place, v1alpha1_rules};
pub use crate::kinds::cloneset::v1beta1::{CloneSetCondition, CloneSetStatus};
use crate::kinds::cloneset::v1beta1::{
    DEFAULT_MAX_UNAVAILABLE, DEFAULT_REVISION_HISTORY_LIMIT, MAX_REVISION_HISTORY_LIMIT,
};
use crate::schema::absent::{is_false, is_zero_i32};
use crate::schema::field::{checks, defaults_to, int_or_percent, list_by, with};
use crate::schema::pods::{selector, selector_matches_template};
use crate::schema::template;

/// What the pods shall be, how many, and how a change reaches them.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "apps.kruise.io",
    version = "v1alpha1",
    kind = "CloneSet",
    namespaced,
    storage = false,
    status = "CloneSetStatus",
    derive = "Default",
    derive = "PartialEq",
    shortname = "clone",
    doc = "CloneSet keeps a number of interchangeable pods running and brings changes to them. A change of images, labels or annotations can reach the pods in place: same pod, same node, same IP.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.labelSelector"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = checks(selector_matches_template()), transform = checks(v1alpha1_rules()))]
pub struct CloneSetSpec {
    /// How many pods are wanted. Defaults to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = i32::MAX), transform = defaults_to(1))]
    pub replicas: Option<i32>,
    /// Which pods belong to the CloneSet, by their labels. It must match the template's labels and
    /// cannot be changed later. Pods that match but have another owner, or none, are left alone.
    #[schemars(transform = selector("CloneSet"))]
    pub selector: LabelSelector,
    /// The pods that are made. Its fields are those of a pod, see `kubectl explain pod.spec`; any
    /// of them may be used. A change of an image or of metadata can be made in place, any other
    /// change replaces pods.
    #[schemars(transform = with(template::pod("CloneSet")))]
    pub template: PodTemplate,
    /// Claims of which every pod gets one of its own, named `<template>-<cloneset>-<instance>` and
    /// mounted as a volume of the template's name. See `kubectl explain pvc.spec`. They go with a
    /// pod that the controller deletes; those of a pod that someone else deletes stay for the next
    /// one, or go too if scaleStrategy.disablePVCReuse is set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volume_claim_templates: Vec<VolumeClaimTemplate>,
    /// How the number of pods changes.
    #[serde(default)]
    #[schemars(transform = defaults_to(json!({})))]
    pub scale_strategy: CloneSetScaleStrategy,
    /// How a changed template reaches the pods: how many at a time (maxUnavailable, maxSurge), how
    /// far (partition, paused), in which order (priorityStrategy, scatterStrategy), and whether in
    /// place (type, inPlaceUpdateStrategy).
    #[serde(default)]
    #[schemars(transform = defaults_to(json!({})))]
    pub update_strategy: CloneSetUpdateStrategy,
    /// How many old revisions of the template are kept to roll back to, at most 200. Defaults to
    /// 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = MAX_REVISION_HISTORY_LIMIT))]
    #[schemars(transform = defaults_to(DEFAULT_REVISION_HISTORY_LIMIT))]
    pub revision_history_limit: Option<i32>,
    /// Seconds for which a pod must have been ready before it counts as available. Defaults to 0.
    #[serde(default, skip_serializing_if = "is_zero_i32")]
    #[schemars(range(min = 0, max = i32::MAX))]
    pub min_ready_seconds: i32,
    /// Points at which a pod waits until someone else agrees.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifecycle: Option<Lifecycle>,
    /// Seconds without progress after which the condition Progressing turns False with reason
    /// ProgressDeadlineExceeded. Time spent paused does not count. Without it there is no such
    /// condition.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = i32::MAX))]
    pub progress_deadline_seconds: Option<i32>,
}

/// How the number of pods changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CloneSetScaleStrategy {
    /// Names of pods that go first. With fewer replicas at the same time they are what is removed;
    /// without, they are replaced. Names of pods that are gone are taken off the list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(length(min = 1, max = 253)), extend("x-kubernetes-list-type" = "set"))]
    pub pods_to_delete: Vec<String>,
    /// While scaling up: no more pods are created as long as this many, a number or a percentage of
    /// the replicas, are not available yet. Without it all are created at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = int_or_percent)]
    pub max_unavailable: Option<IntOrString>,
    /// Whether a replaced pod gets new claims instead of those of the one before it. Defaults to
    /// false: claims are reused. (v1beta1 has the opposite, enablePVCReuse, and does not reuse
    /// where nothing is said.)
    #[serde(default, rename = "disablePVCReuse", skip_serializing_if = "is_false")]
    #[schemars(transform = defaults_to(false))]
    pub disable_pvc_reuse: bool,
}

/// How a changed template reaches the pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = checks([surge_in_place("type")]))]
pub struct CloneSetUpdateStrategy {
    /// ReCreate replaces pods. InPlaceIfPossible changes running pods where only images, labels and
    /// annotations of the template differ and replaces them otherwise. InPlaceOnly never replaces:
    /// a change that cannot be made in place is refused with a condition that names the field.
    /// OnDelete deletes no pods: the change reaches a pod only after its deletion. Defaults to
    /// ReCreate.
    #[serde(default, rename = "type")]
    #[schemars(transform = defaults_to("ReCreate"))]
    pub type_: CloneSetUpdateStrategyType,
    /// How many pods stay at the old revision, a number or a percentage of the replicas, rounded
    /// up: with 10 replicas and partition 8, two pods are updated. Lower it step by step for a
    /// canary. Defaults to 0, all are updated.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = defaults_to(0), transform = int_or_percent)]
    pub partition: Option<IntOrString>,
    /// How many pods may be out of service at a time for the update, a number or a percentage of
    /// the replicas. A percentage is rounded up, or down when maxSurge is not 0. Defaults to 20%.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = defaults_to(DEFAULT_MAX_UNAVAILABLE), transform = int_or_percent)]
    pub max_unavailable: Option<IntOrString>,
    /// How many pods may exist beyond the replicas at a time for the update, a number or a
    /// percentage of the replicas, rounded up. Has no place with InPlaceOnly, which never replaces
    /// pods. Defaults to 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = defaults_to(0), transform = int_or_percent)]
    pub max_surge: Option<IntOrString>,
    /// Stops the update where it is; scaling goes on. Defaults to false.
    #[serde(default, skip_serializing_if = "is_false")]
    pub paused: bool,
    /// Which pods are updated first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_strategy: Option<UpdatePriorityStrategy>,
    /// Labels whose pods are spread over the whole update instead of coming one after the other.
    /// Applied after priorityStrategy; better use only one of the two.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = list_by(["key", "value"]))]
    pub scatter_strategy: Vec<UpdateScatterTerm>,
    /// Details of updating in place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_place_update_strategy: Option<InPlaceUpdateStrategy>,
}

/// How a change reaches the pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum CloneSetUpdateStrategyType {
    /// The controller brings it, by new pods.
    #[default]
    ReCreate,
    /// The controller brings it, in place where possible, by new pods otherwise.
    InPlaceIfPossible,
    /// The controller brings it, in place or not at all.
    InPlaceOnly,
    /// A deletion brings it: the next pod has the change.
    OnDelete,
}
