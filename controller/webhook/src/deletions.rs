//! Namespaces and CustomResourceDefinitions with the label `policy.kruise.io/delete-protection:
//! Cascading`: before one is deleted, the replica that the apiserver calls counts what is in it.
//!
//! The entry is in the chart if the feature gate is on. The right to write its bundle is a right to
//! write the rest of it, too. So this file has all fields of the entry, and other values are
//! reverted.

mod refusals;

use berth_api::names::{delete_protection, label};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhook;
use serde_json::{Value, json};

use crate::endpoint::{ClientConfig, Endpoint};
use crate::secret_path::handler_path;

pub use refusals::RefusedDeletions;

/// The entry in the chart's ValidatingWebhookConfiguration.
pub const GUARD: &str = "guard-deletion.policy.kruise.io";

/// The first part of the path of the handler. Only the apiserver knows the last part, because the
/// answers name objects in namespaces.
pub const GUARD_PATH: &str = "/guard-deletion";

/// How long the apiserver waits for an answer, in seconds.
const TIMEOUT: i32 = 5;

/// The strategic merge for the entry, with this bundle and the path of this seed. `None` if the
/// entry needs no change.
pub(crate) fn patch(
    found: &ValidatingWebhook,
    endpoint: &Endpoint,
    (bundle, seed): (&str, &str),
) -> Option<Value> {
    let path = handler_path(GUARD_PATH, seed);
    let is_reached = endpoint.is_in(&ClientConfig::from(&found.client_config), &path, bundle);
    let (found, wanted) = (serde_json::to_value(found).unwrap_or_default(), fields());
    let differs = wanted
        .as_object()
        .into_iter()
        .flatten()
        .any(|(field, wanted)| found[field] != *wanted);
    if is_reached && !differs {
        return None;
    }
    let mut patch = if differs {
        replacing(wanted)
    } else {
        json!({})
    };
    patch["name"] = json!(GUARD);
    patch["clientConfig"] = endpoint.client_config(&path, bundle);
    Some(patch)
}

/// All fields of the entry besides its name and `clientConfig`, with the chart's values and the
/// apiserver's defaults.
fn fields() -> Value {
    let rule = |group: &str, resource: &str| {
        json!({
            "apiGroups": [group], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": [resource], "scope": "*",
        })
    };
    json!({
        "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail", "timeoutSeconds": TIMEOUT,
        "matchPolicy": "Equivalent", "namespaceSelector": {},
        "objectSelector": {"matchLabels": {label::DELETE_PROTECTION: delete_protection::CASCADING}},
        "rules": [rule("", "namespaces"), rule("apiextensions.k8s.io", "customresourcedefinitions")],
        "matchConditions": [
            {"name": "is-not-terminating", "expression": "!has(oldObject.metadata.deletionTimestamp)"},
        ],
    })
}

/// A strategic merge adds to selectors and conditions; this makes it replace them.
fn replacing(mut fields: Value) -> Value {
    for selector in ["namespaceSelector", "objectSelector"] {
        fields[selector]["$patch"] = json!("replace");
    }
    if let Some(conditions) = fields["matchConditions"].as_array_mut() {
        conditions.insert(0, json!({"$patch": "replace"}));
    }
    fields
}

#[cfg(test)]
mod tests;
