//! Where the apiserver reaches the webhooks.

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::WebhookClientConfig;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::secret_path::handler_path;

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
    /// Its port, 443 by default.
    pub port: Option<u16>,
}

impl Endpoint {
    pub(crate) fn url(&self, path: &str) -> Option<String> {
        match self {
            Self::Service { .. } => None,
            Self::Host { host, port } if host.contains(':') => {
                Some(format!("https://[{host}]:{port}{path}"))
            }
            Self::Host { host, port } => Some(format!("https://{host}:{port}{path}")),
        }
    }

    /// Whether a `clientConfig` leads here, with exactly this bundle.
    pub(crate) fn is_in(&self, found: &ClientConfig, path: &str, bundle: &str) -> bool {
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
        reached
            && found
                .ca_bundle
                .as_ref()
                .is_some_and(|found| found.0 == bundle.as_bytes())
    }

    /// The `clientConfig` that leads here, as a merge patch: fields that must not stand beside it
    /// are null.
    pub(crate) fn client_config(&self, path: &str, bundle: &str) -> Value {
        let service = match self {
            Self::Service { namespace, name } => {
                json!({"namespace": namespace, "name": name, "path": path, "port": 443})
            }
            Self::Host { .. } => Value::Null,
        };
        json!({"caBundle": ByteString(bundle.as_bytes().to_vec()), "service": service, "url": self.url(path)})
    }

    /// The `clientConfig` of a secret path: with this bundle, by the path below this one that is
    /// derived from this seed.
    pub(crate) fn secret_client_config(&self, below: &str, (bundle, seed): (&str, &str)) -> Value {
        self.client_config(&handler_path(below, seed), bundle)
    }
}

impl From<&WebhookClientConfig> for ClientConfig {
    fn from(found: &WebhookClientConfig) -> Self {
        let service = found.service.as_ref().map(|service| ServiceReference {
            namespace: service.namespace.clone(),
            name: service.name.clone(),
            path: service.path.clone(),
            port: service.port.and_then(|port| u16::try_from(port).ok()),
        });
        Self {
            ca_bundle: found.ca_bundle.clone(),
            service,
            url: found.url.clone(),
        }
    }
}
