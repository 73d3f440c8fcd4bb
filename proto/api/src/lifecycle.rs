//! Hooks that hold a pod at certain points of its life until someone else agrees.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::absent::is_false;

/// Points at which a pod waits until every label and finalizer of the hook is gone from it (or, for `inPlaceUpdate` and
/// `preNormal`, is there again).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Lifecycle {
    /// Holds a pod in state PreparingDelete before it is deleted, as long as the pod still has what the hook names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pre_delete: Option<LifecycleHook>,
    /// Holds a pod in state PreparingUpdate before an in-place update, and in state Updated after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_place_update: Option<LifecycleHook>,
    /// Holds a new pod in state PreparingNormal until the pod has what the hook names; only then is it counted as
    /// available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pre_normal: Option<LifecycleHook>,
}

/// What a pod must carry for the hook to hold it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LifecycleHook {
    /// Labels and their values. A pod is hooked while it has all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels_handler: Option<BTreeMap<String, String>>,
    /// Finalizers. A pod is hooked while it has all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub finalizers_handler: Vec<String>,
    /// Whether a pod that waits in PreparingDelete or PreparingUpdate is taken out of service meanwhile. It is put back
    /// when the update is done. Has no effect on preNormal. Defaults to false.
    #[serde(default, skip_serializing_if = "is_false")]
    pub mark_pod_not_ready: bool,
}
