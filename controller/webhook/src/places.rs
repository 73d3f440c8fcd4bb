//! Where the bundle of authorities must stand for clients to trust us, and how it gets there.
//!
//! The apiserver reads it in the CRDs' conversion and in the ValidatingWebhookConfiguration; daemons read it in a
//! ConfigMap. Someone may overwrite any of them (`kubectl replace`, `helm upgrade --force`): each look repairs.

use berth_api::kinds::{self, KINDS, Kind};
use k8s_openapi::api::admissionregistration::v1::{RuleWithOperations, ValidatingWebhook};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::deletions::{self, GUARD};
use crate::endpoint::{ClientConfig, Endpoint};
use crate::secret_path::told;

/// The ValidatingWebhookConfiguration of the chart.
pub const VALIDATING: &str = "kruise-validating-webhook-configuration";
/// The ConfigMap from which daemons take the authorities.
pub const CA_CONFIG_MAP: &str = "kruise-ca";
/// Path of the conversion handler.
pub const CONVERT_PATH: &str = "/convert";
/// Path of the validation handler. By a path below it, which the apiserver alone is told, it tells of other objects, too.
pub const VALIDATE_PATH: &str = "/validate";

/// What the apiserver does with our kinds while no replica answers: it takes them, and the controller refuses what is wrong.
const FAILURE_POLICY: &str = "Ignore";

/// The names of the CRDs that are served in several versions.
pub fn crds() -> impl Iterator<Item = String> {
    kinds::converted().map(Kind::crd)
}

/// What we read of a CRD's spec; the schemas, which are nearly all of it, are skipped.
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

/// What we read of a CRD's status.
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
    /// How it is reached.
    pub client_config: ClientConfig,
}

/// What to merge into a CRD so that it converts here; `None` when it does already.
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

/// What to merge (strategically: the list is keyed by name) into the ValidatingWebhookConfiguration; `None` when all
/// of its webhooks lead here already, by paths that end with what only the apiserver is told, ask about our own kinds alone, and hold
/// nobody up while no replica answers; but for the one that guards deletions.
///
/// The right to write the bundle is a right to write the rest of the object too, and no admission policy reaches it: so
/// what a thief of the token makes of it is taken back here.
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

/// Whether these lead here by paths of another seed, and nothing else is to be put back: so a replica of another build writes them.
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
            *path = told(below, trust.1);
        }
    }
    validating_patch(&led, endpoint, trust).is_none()
}

/// What to merge into one that asks about our own kinds.
fn own_kinds_patch(
    found: &ValidatingWebhook,
    endpoint: &Endpoint,
    (bundle, seed): (&str, &str),
) -> Option<Value> {
    let path = told(VALIDATE_PATH, seed);
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

/// Does it ask about kinds of others, or stop writes while no replica answers?
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
