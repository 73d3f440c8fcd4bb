//! Conversion and validation webhooks, and the certificates that serve them.
//!
//! [`run`] serves on every replica, leader or not. The certificates live in one Secret that any replica makes and
//! rotates ([`certs`]); the authorities that sign them are kept in every place that must trust them ([`places`]).

pub mod certs;
mod keeper;
mod kinds;
mod migrate;
pub mod places;
mod proof;
mod readiness;
mod server;

/// What a body that is POSTed here is answered.
pub mod reviews {
    pub use crate::server::Judge;
    pub use crate::server::admission::review as admission;
    pub use crate::server::conversion::review as conversion;
}

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use kube::Client;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use migrate::{Migrated, migrate};
pub use proof::PORT_NAME;
pub use readiness::Readiness;

use crate::certs::issue;
use crate::certs::plan::Policy;
use crate::certs::resolver::{self, Resolver};
use crate::keeper::Keeper;
use crate::places::Endpoint;
use crate::server::Phase;

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
    /// The pod that we run in, if we do.
    pub pod: Option<PodIdentity>,
    /// Resources, by plural, of which no object is taken in, each with the reason for whoever sends one.
    pub closed: BTreeMap<&'static str, String>,
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

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The port is taken, or not ours to take.
    #[error("cannot listen on {address} for webhooks: {source}; choose another with --webhook-port")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// The TLS library refuses its settings.
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
    /// A certificate cannot be made, most likely because a name is not one.
    #[error("a certificate cannot be made: {0}; check WEBHOOK_HOST and the names of the Services")]
    Certificate(#[from] rcgen::Error),
    /// The apiserver refused or failed.
    #[error("cannot {verb} {kind} {name}: {source}")]
    Api {
        /// What was tried.
        verb: &'static str,
        /// On which kind.
        kind: String,
        /// On which object.
        name: String,
        /// The answer.
        source: kube::Error,
    },
    /// A CRD stores a version that is not ours.
    #[error("CustomResourceDefinition {crd} stores version {version:?}, not v1beta1: apply the CRDs of this chart")]
    OtherStorage {
        /// The CRD.
        crd: String,
        /// What it stores.
        version: String,
    },
    /// A CRD was replaced while its objects were migrated.
    #[error("CustomResourceDefinition {crd} changed its stored version during the migration")]
    StorageChanged {
        /// The CRD.
        crd: String,
    },
    /// A task ended in a way that it never should.
    #[error("a task of the webhooks ended: {0}")]
    Task(#[from] tokio::task::JoinError),
}

impl Error {
    pub(crate) fn api(verb: &'static str, kind: &str, name: &str, source: kube::Error) -> Self {
        Self::Api { verb, kind: kind.to_owned(), name: name.to_owned(), source }
    }

    /// Whether another writer was first: nothing is wrong, look again.
    pub(crate) fn is_conflict(&self) -> bool {
        matches!(self, Self::Api { source: kube::Error::Api(status), .. } if status.is_conflict())
    }
}

/// The running webhooks.
#[derive(Debug)]
pub struct Handle {
    readiness: Readiness,
    tls: Arc<rustls::ServerConfig>,
    address: SocketAddr,
    tasks: Vec<JoinHandle<()>>,
}

impl Handle {
    /// What `/readyz` asks.
    pub fn readiness(&self) -> Readiness {
        self.readiness.clone()
    }

    /// The TLS side for a gRPC server (ALPN `h2`) that shows the same certificate, swapped at the same time.
    pub fn tls(&self) -> Arc<rustls::ServerConfig> {
        Arc::clone(&self.tls)
    }

    /// Where the webhooks listen: the port that was chosen, when the configured one was 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until the shutdown is complete: drained, and every connection ended.
    ///
    /// # Errors
    /// When a task panicked.
    pub async fn join(self) -> Result<(), Error> {
        for task in self.tasks {
            task.await?;
        }
        Ok(())
    }
}

/// Starts the webhooks: binds the port and returns; certificates and readiness follow in the background.
///
/// # Errors
/// When the port cannot be bound or TLS cannot be set up.
pub async fn run(
    mut config: Config,
    client: Client,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<Handle, Error> {
    let address = config.bind;
    let failed = |source| Error::Bind { address, source };
    let listener = server::bind(address).await.map_err(failed)?;
    config.bind = listener.local_addr().map_err(failed)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let resolver = Arc::new(Resolver::default());
    // The apiserver speaks HTTP/1.1 to webhooks, so that requests spread over the replicas.
    let http1 = resolver::server_config(Arc::clone(&resolver), Arc::clone(&provider), "http/1.1")?;
    let h2 = resolver::server_config(Arc::clone(&resolver), Arc::clone(&provider), "h2")?;
    let readiness = Readiness::default();
    let keeper = Keeper {
        client: client.clone(),
        namespace: config.namespace.clone(),
        secret: config.secret.clone(),
        endpoint: endpoint(&config),
        policy: policy(&config),
        resolver,
        provider,
        loaded: None,
        published: None,
    };
    let judge = server::Judge { client, closed: std::mem::take(&mut config.closed) };
    let (phase, phases) = watch::channel(Phase::Serving);
    let address = config.bind;
    let drain = config.drain;
    let tasks = vec![
        tokio::spawn(server::serve(listener, http1, judge, phases.clone())),
        tokio::spawn(keeper::keep(keeper, config, readiness.clone(), phases)),
        tokio::spawn(async move {
            shutdown.await;
            let _ = phase.send(Phase::Draining);
            tokio::time::sleep(drain).await;
            let _ = phase.send(Phase::Ending);
        }),
    ];
    Ok(Handle { readiness, tls: h2, address, tasks })
}

fn endpoint(config: &Config) -> Endpoint {
    match &config.host {
        Some(host) => Endpoint::Host { host: host.clone(), port: config.host_port.unwrap_or(config.bind.port()) },
        None => Endpoint::Service { namespace: config.namespace.clone(), name: config.service.clone() },
    }
}

fn policy(config: &Config) -> Policy {
    let duration = |duration: Duration| SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    let services: Vec<String> = std::iter::once(&config.service).chain(&config.extra_services).cloned().collect();
    Policy {
        ca_validity: duration(config.ca_validity),
        cert_validity: duration(config.cert_validity),
        names: issue::names(&config.namespace, &services, config.host.as_deref()),
    }
}
