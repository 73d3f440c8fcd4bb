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
    /// Outside the cluster: the DNS name or IP address at which the apiserver reaches us, in place of the Service.
    pub host: Option<String>,
    /// The port there; that of `bind` unless told.
    pub host_port: Option<u16>,
    /// How long a serving certificate is valid.
    pub cert_validity: Duration,
    /// How long an authority is valid.
    pub ca_validity: Duration,
    /// Whether the ValidatingWebhookConfiguration of the chart is there to be kept. Without it no right to it is needed.
    pub validating: bool,
    /// Whether the MutatingWebhookConfiguration of the chart is there to be kept. Without it no right to it is needed.
    pub pods: bool,
    /// Who knows where new pods are to run.
    pub records: Option<Arc<dyn Records>>,
    /// Who knows which containers new pods get.
    pub injector: Option<Arc<dyn Injector>>,
    /// Who knows the budgets of pods.
    pub budgets: Option<Arc<dyn Budgets>>,
    /// The pod that we run in, if we do.
    pub pod: Option<PodIdentity>,
    /// Resources, by plural, of which no object is taken in, each with the reason for whoever sends one.
    pub closed: BTreeMap<&'static str, String>,
    /// What the apiserver shows beside the secret paths; `None` where the path is enough.
    pub token: Option<String>,
    /// Is told when the certificates end.
    pub validity: Validity,
    /// Is told of each review.
    pub reviews: ReviewMetrics,
    /// Is told of each Namespace and CustomResourceDefinition that stays because of what is in it.
    pub refused_deletions: RefusedDeletions,
    /// The most bytes that the spec of an object may have, as JSON text; of a larger one nothing is taken in.
    pub object_max_bytes: usize,
    /// How long to serve on after the shutdown was asked for: until no apiserver sends requests here any more.
    pub drain: Duration,
}

/// The pod that we run in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodIdentity {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Its address.
    pub ip: IpAddr,
}
