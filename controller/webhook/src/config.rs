//! How the webhooks are served.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use crate::certs::Validity;
use crate::deletions::RefusedDeletions;
use crate::pods::{Budgets, Injector, Records};
use crate::server::latency::ReviewMetrics;

/// How the webhooks are served.
#[derive(Debug, Clone)]
pub struct Config {
    /// Our namespace, where the Secret and the Service are.
    pub namespace: String,
    /// The Service by which the apiserver calls us; the certificate carries its names.
    pub service: String,
    /// More Services in our namespace whose names the certificate carries.
    pub extra_services: Vec<String>,
    /// The Secret of the certificates.
    pub secret: String,
    /// Where to listen.
    pub bind: SocketAddr,
    /// Outside the cluster: the DNS name or IP address at which the apiserver reaches us, in place
    /// of the Service.
    pub host: Option<String>,
    /// The port there; without it, the port of `bind`.
    pub host_port: Option<u16>,
    /// How long a serving certificate is valid.
    pub cert_validity: Duration,
    /// How long an authority is valid.
    pub ca_validity: Duration,
    /// Whether to maintain the ValidatingWebhookConfiguration of the chart. Without it no right to
    /// it is needed.
    pub validating: bool,
    /// Whether to maintain the MutatingWebhookConfiguration of the chart. Without it no right to it
    /// is needed.
    pub pods: bool,
    /// Knows on which nodes new pods are to run.
    pub records: Option<Arc<dyn Records>>,
    /// Knows which containers new pods get.
    pub injector: Option<Arc<dyn Injector>>,
    /// Knows the budgets of pods.
    pub budgets: Option<Arc<dyn Budgets>>,
    /// The pod of this process, if it runs in one.
    pub pod: Option<PodIdentity>,
    /// Resources, by plural, whose objects are refused, each with the reason for the author.
    pub closed: BTreeMap<&'static str, String>,
    /// The token that the apiserver shows besides the secret paths; `None` if the path is enough.
    pub token: Option<String>,
    /// Records when the certificates end.
    pub validity: Validity,
    /// Counts each review.
    pub reviews: ReviewMetrics,
    /// Counts each Namespace and CustomResourceDefinition whose deletion is refused because of its
    /// contents.
    pub refused_deletions: RefusedDeletions,
    /// The most bytes that the spec of an object may have, as JSON text; a larger object is
    /// refused.
    pub object_max_bytes: usize,
    /// How long to serve on after the shutdown was requested: until no apiserver sends requests
    /// here any more.
    pub drain: Duration,
}

/// The pod of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodIdentity {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Its address.
    pub ip: IpAddr,
}
