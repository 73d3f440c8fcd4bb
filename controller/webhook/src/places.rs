//! Where the bundle of authorities must stand for clients to trust us, and how it gets there.
//!
//! The apiserver reads it in the CRDs' conversion and in the ValidatingWebhookConfiguration; daemons read it in a
//! ConfigMap. Someone may overwrite any of them (`kubectl replace`, `helm upgrade --force`): each look repairs.

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{ValidatingWebhook, WebhookClientConfig};
use serde::Deserialize;
use serde_json::{Value, json};

/// The CRDs that are served in two versions.
pub const CRDS: [&str; 3] = ["clonesets.apps.kruise.io", "imagepulljobs.apps.kruise.io", "nodeimages.apps.kruise.io"];
/// The ValidatingWebhookConfiguration of the chart.
pub const VALIDATING: &str = "kruise-validating-webhook-configuration";
/// The ConfigMap from which daemons take the authorities.
pub const CA_CONFIG_MAP: &str = "kruise-ca";
/// Path of the conversion handler.
pub const CONVERT_PATH: &str = "/convert";
/// Path of the validation handler.
pub const VALIDATE_PATH: &str = "/validate";

/// How the apiserver reaches us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// By a Service, port 443: we run in the cluster.
    Service {
        /// The Service's namespace.
        namespace: String,
        /// The Service's name.
        name: String,
    },
    /// At an address: we run outside.
    Host {
        /// A DNS name or an IP address.
        host: String,
        /// The port that we listen on.
        port: u16,
    },
}

/// `clientConfig` of a webhook, as CRDs and webhook configurations have it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClientConfig {
    /// The authorities that the apiserver trusts, PEM.
    pub ca_bundle: Option<ByteString>,
    /// The Service, when it is reached by one.
    pub service: Option<ServiceReference>,
    /// The address, when it is reached by one.
    pub url: Option<String>,
}

/// A Service in a [`ClientConfig`].
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ServiceReference {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The path on it.
    pub path: Option<String>,
    /// Its port, 443 unless told.
    pub port: Option<u16>,
}

impl Endpoint {
    fn url(&self, path: &str) -> Option<String> {
        match self {
            Self::Service { .. } => None,
            Self::Host { host, port } if host.contains(':') => Some(format!("https://[{host}]:{port}{path}")),
            Self::Host { host, port } => Some(format!("https://{host}:{port}{path}")),
        }
    }

    /// Whether a `clientConfig` leads here, with exactly this bundle.
    fn is_in(&self, found: &ClientConfig, path: &str, bundle: &str) -> bool {
        let reached = match (self, &found.service) {
            (Self::Service { namespace, name }, Some(service)) => {
                found.url.is_none()
                    && service.namespace == *namespace
                    && service.name == *name
                    && service.path.as_deref() == Some(path)
                    && service.port.unwrap_or(443) == 443
            }
            (Self::Host { .. }, None) => found.url == self.url(path),
            _ => false,
        };
        reached && found.ca_bundle.as_ref().is_some_and(|found| found.0 == bundle.as_bytes())
    }

    /// The `clientConfig` that leads here, as a merge patch: what must not stand beside it is null.
    fn client_config(&self, path: &str, bundle: &str) -> Value {
        let service = match self {
            Self::Service { namespace, name } => {
                json!({"namespace": namespace, "name": name, "path": path, "port": 443})
            }
            Self::Host { .. } => Value::Null,
        };
        json!({"caBundle": ByteString(bundle.as_bytes().to_vec()), "service": service, "url": self.url(path)})
    }
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

impl From<&WebhookClientConfig> for ClientConfig {
    fn from(found: &WebhookClientConfig) -> Self {
        let service = found.service.as_ref().map(|service| ServiceReference {
            namespace: service.namespace.clone(),
            name: service.name.clone(),
            path: service.path.clone(),
            port: service.port.and_then(|port| u16::try_from(port).ok()),
        });
        Self { ca_bundle: found.ca_bundle.clone(), service, url: found.url.clone() }
    }
}

/// What to merge (strategically: the list is keyed by name) into the ValidatingWebhookConfiguration; `None` when all
/// of its webhooks lead here already.
pub fn validating_patch(found: &[ValidatingWebhook], endpoint: &Endpoint, bundle: &str) -> Option<Value> {
    let wrong = |webhook: &&ValidatingWebhook| {
        !endpoint.is_in(&ClientConfig::from(&webhook.client_config), VALIDATE_PATH, bundle)
    };
    let webhooks: Vec<Value> = found
        .iter()
        .filter(wrong)
        .map(|webhook| json!({"name": webhook.name, "clientConfig": endpoint.client_config(VALIDATE_PATH, bundle)}))
        .collect();
    (!webhooks.is_empty()).then(|| json!({"webhooks": webhooks}))
}
