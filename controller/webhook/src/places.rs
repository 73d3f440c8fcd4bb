//! Where the bundle of authorities must stand for clients to trust us, and how it gets there.
//!
//! The apiserver reads it in the CRDs' conversion and in the ValidatingWebhookConfiguration;
//! daemons read it in a ConfigMap. Another writer may overwrite any of them (`kubectl replace`,
//! `helm upgrade --force`): each pass repairs them.

use berth_api::kinds::{self, KINDS, Kind};
use k8s_openapi::api::admissionregistration::v1::{RuleWithOperations, ValidatingWebhook};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::deletions::{self, GUARD};
use crate::endpoint::{ClientConfig, Endpoint};
use crate::secret_path::handler_path;

/// The ValidatingWebhookConfiguration of the chart.
pub const VALIDATING: &str = "kruise-validating-webhook-configuration";
/// The ConfigMap from which daemons take the authorities.
pub const CA_CONFIG_MAP: &str = "kruise-ca";
/// Path of the conversion handler.
pub const CONVERT_PATH: &str = "/convert";
/// Path of the validation handler. Below it is a path that only the apiserver knows; answers there
/// may contain data of other objects.
pub const VALIDATE_PATH: &str = "/validate";

/// The failure policy for our kinds while no replica answers: the apiserver accepts the object, and
/// the controller refuses faults.
const FAILURE_POLICY: &str = "Ignore";

/// The names of the CRDs that are served in several versions.
pub fn crds() -> impl Iterator<Item = String> {
    kinds::converted().map(Kind::crd)
}

/// The part of a CRD's spec that we read; the schemas, which are nearly all of it, are skipped.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct CrdSpec {
    /// How versions are converted.
    pub conversion: Option<Conversion>,
    /// The versions.
    pub versions: Vec<CrdVersion>,
}

/// A version of a CRD.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct CrdVersion {
    /// Its name.
    pub name: String,
    /// Whether objects are stored in it.
    pub storage: bool,
}

/// The part of a CRD's status that we read.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CrdStatus {
    /// The versions that objects in etcd may have.
    pub stored_versions: Vec<String>,
}

/// `spec.conversion` of a CRD.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Conversion {
    /// `None` or `Webhook`.
    pub strategy: String,
    /// The webhook.
    pub webhook: Option<ConversionWebhook>,
}

/// `spec.conversion.webhook` of a CRD.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConversionWebhook {
    /// How the apiserver reaches the webhook.
    pub client_config: ClientConfig,
}

/// The merge that makes a CRD convert here; `None` if it does already.
pub fn crd_patch(found: &CrdSpec, endpoint: &Endpoint, bundle: &str) -> Option<Value> {
    let good = found.conversion.as_ref().is_some_and(|conversion| {
        conversion.strategy == "Webhook"
            && conversion
                .webhook
                .as_ref()
                .is_some_and(|webhook| endpoint.is_in(&webhook.client_config, CONVERT_PATH, bundle))
    });
    (!good).then(|| {
        json!({"spec": {"conversion": {"strategy": "Webhook", "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": endpoint.client_config(CONVERT_PATH, bundle),
        }}}})
    })
}

/// The strategic merge (the list is keyed by name) for the ValidatingWebhookConfiguration. `None`
/// if all of its webhooks lead here by the secret paths, are called only for our own kinds, and
/// block no write while no replica answers. The webhook that guards deletions has fields of its
/// own.
///
/// The right to write the bundle is a right to write the rest of the object too, and no admission
/// policy applies to it. So this reverts the changes that a thief of the token makes.
pub fn validating_patch(
    found: &[ValidatingWebhook],
    endpoint: &Endpoint,
    trust: (&str, &str),
) -> Option<Value> {
    let patch = |webhook: &ValidatingWebhook| match &*webhook.name {
        GUARD => deletions::patch(webhook, endpoint, trust),
        _ => own_kinds_patch(webhook, endpoint, trust),
    };
    let webhooks: Vec<Value> = found.iter().filter_map(patch).collect();
    (!webhooks.is_empty()).then(|| json!({"webhooks": webhooks}))
}

/// Whether these lead here by paths of another seed and differ in nothing else: then a replica of
/// another build writes them.
pub(crate) fn differ_by_seed_alone(
    found: &[ValidatingWebhook],
    endpoint: &Endpoint,
    trust: (&str, &str),
) -> bool {
    let mut led = found.to_vec();
    for webhook in &mut led {
        let below = if webhook.name == GUARD {
            deletions::GUARD_PATH
        } else {
            VALIDATE_PATH
        };
        let service = webhook.client_config.service.as_mut();
        if let Some(path) = service
            .and_then(|service| service.path.as_mut())
            .filter(|path| path.starts_with(below))
        {
            *path = handler_path(below, trust.1);
        }
    }
    validating_patch(&led, endpoint, trust).is_none()
}

/// The merge for a webhook about our own kinds.
fn own_kinds_patch(
    found: &ValidatingWebhook,
    endpoint: &Endpoint,
    (bundle, seed): (&str, &str),
) -> Option<Value> {
    let path = handler_path(VALIDATE_PATH, seed);
    let is_reached = endpoint.is_in(&ClientConfig::from(&found.client_config), &path, bundle);
    let reaches_too_far = reaches_too_far(found);
    if is_reached && !reaches_too_far {
        return None;
    }
    let mut patch =
        json!({"name": found.name, "clientConfig": endpoint.client_config(&path, bundle)});
    if reaches_too_far {
        patch["failurePolicy"] = json!(FAILURE_POLICY);
        patch["rules"] = own_kinds();
    }
    Some(patch)
}

/// Is it called for kinds of others, or does it stop writes while no replica answers?
fn reaches_too_far(webhook: &ValidatingWebhook) -> bool {
    let ours = |rule: &RuleWithOperations| {
        let groups = rule.api_groups.as_deref().unwrap_or_default();
        !groups.is_empty() && groups.iter().all(|group| kinds::has_group(group))
    };
    webhook.failure_policy.as_deref() != Some(FAILURE_POLICY)
        || !webhook.rules.iter().flatten().all(ours)
}

/// The rules that the chart has.
fn own_kinds() -> Value {
    let rule = |kind: &Kind| {
        json!({
            "apiGroups": [kind.group],
            "apiVersions": [kind.stored.name()],
            "operations": ["CREATE", "UPDATE"],
            "resources": [kind.plural],
        })
    };
    KINDS.iter().map(rule).collect()
}

#[cfg(test)]
mod tests;
