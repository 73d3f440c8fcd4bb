//! Hooks that hold a pod at certain points of its life until someone else agrees.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::schema::absent::is_false;
use crate::schema::field::checks;
use crate::schema::rules::{LABEL_KEY, rule};

/// Points at which a pod waits: before it is deleted or updated, as long as it has any label or
/// finalizer of the hook; after it was created or updated, until it has all of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Lifecycle {
    /// Holds a pod in state PreparingDelete before it is deleted, as long as the pod has any of
    /// what the hook names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pre_delete: Option<LifecycleHook>,
    /// Holds a pod in state PreparingUpdate before an in-place update, as long as the pod has any
    /// of what the hook names, and in state Updated after it, until the pod has all of it again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_place_update: Option<LifecycleHook>,
    /// Holds a new pod in state PreparingNormal until the pod has all of what the hook names; only
    /// then is it counted as available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pre_normal: Option<LifecycleHook>,
}

/// By what the hook's owner holds a pod. A hook that names nothing holds no pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LifecycleHook {
    /// Labels and their values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels_handler: Option<BTreeMap<String, String>>,
    /// Finalizers: a domain, / and a name, such as example.com/in-use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), inner(length(max = LABEL_KEY)))]
    #[schemars(transform = checks([are_finalizers()]))]
    pub finalizers_handler: Vec<String>,
    /// Whether a pod that waits in PreparingDelete or PreparingUpdate is taken out of service
    /// meanwhile. It is put back when the update is done. A pod in PreparingDelete does not come
    /// back when it is wanted again, if this is set in preDelete or inPlaceUpdate. Has no effect on
    /// preNormal. Defaults to false.
    #[serde(default, skip_serializing_if = "is_false")]
    pub mark_pod_not_ready: bool,
}

/// Rule of finalizers. One that no pod can have would hold pods for ever after their creation or
/// update.
fn are_finalizers() -> Value {
    let valid = "self.all(name, name.matches('^[^/]+/[^/]+$'))";
    let message = "'has %s, but a finalizer is a domain, / and a name, such as \"example.com/in-use\"'\
                   .format([self.filter(name, !name.matches('^[^/]+/[^/]+$'))])";
    rule(valid, message)
}
