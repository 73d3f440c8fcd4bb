//! Conversion and validation webhooks, and the certificates that serve them.
//!
//! [`run`] serves on every replica, leader or not. The certificates live in one Secret that any
//! replica makes and rotates ([`certs`]); the authorities that sign them are kept in every place
//! that must trust them ([`places`]).

#![cfg_attr(not(test), warn(clippy::too_many_lines))]

mod apiserver;
pub mod certs;
mod config;
pub mod deletions;
mod endpoint;
mod error;
mod kinds;
mod migrate;
pub mod places;
pub mod pods;
mod secret_path;
mod server;
mod webhook_configuration;

/// The answer to a body that is POSTed here.
pub mod reviews {
    pub use crate::secret_path::SecretPath;
    pub use crate::server::Judge;
    pub use crate::server::reviews::admission::review as admission;
    pub use crate::server::reviews::conversion::review as conversion;
    pub use crate::server::reviews::{reads_disruption, reads_eviction};
}

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use futures::FutureExt;
use futures::future::try_join_all;
use jiff::SignedDuration;
use kube::Client;
use rustls::crypto::CryptoProvider;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use certs::Validity;
pub use config::{Config, PodIdentity};
pub use error::Error;
pub use migrate::prepare_return::{ReturnError, prepare_return};
pub use migrate::{Migrated, migrate};
pub use pods::pod_webhook::PodWebhook;
pub use server::NO_TOKEN;
pub use server::latency::ReviewMetrics;
pub use webhook_configuration::conversion_probe::PORT_NAME;
pub use webhook_configuration::readiness::Readiness;

use crate::certs::issue;
use crate::certs::plan::Policy;
use crate::certs::resolver::{self, Resolver};
use crate::endpoint::Endpoint;
use crate::pods::Added;
use crate::secret_path::SecretPath;
use crate::server::Phase;
use crate::webhook_configuration::{WebhookConfigurator, maintain};

/// The running webhooks.
#[derive(Debug)]
pub struct Handle {
    readiness: Readiness,
    tls: Arc<rustls::ServerConfig>,
    address: SocketAddr,
    pods: PodWebhook,
    tasks: Vec<JoinHandle<io::Result<()>>>,
}

impl Handle {
    /// The channels between the pod webhook's rules and the task that writes them.
    pub fn pods(&self) -> PodWebhook {
        self.pods.clone()
    }

    /// The state that `/readyz` reports.
    pub fn readiness(&self) -> Readiness {
        self.readiness.clone()
    }

    /// The TLS side for a gRPC server (ALPN `h2`) that shows the same certificate, swapped at the
    /// same time.
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
    /// When a task panicked, or the threads cannot serve.
    pub async fn join(self) -> Result<(), Error> {
        // The first failure is returned at once, without waiting for the other tasks.
        try_join_all(
            self.tasks
                .into_iter()
                .map(|task| async { task.await?.map_err(Error::Threads) }),
        )
        .await?;
        Ok(())
    }
}

/// Starts the webhooks: binds the port and returns; certificates and readiness follow in the
/// background.
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
    let listener = berth_http::bind(address)
        .await
        .and_then(TcpListener::into_std)
        .map_err(failed)?;
    config.bind = listener.local_addr().map_err(failed)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let resolver = Arc::new(Resolver::default());
    let handshakes = Arc::new(AtomicU64::new(0));
    let (http1, h2) = tls(&provider, &resolver, &handshakes)?;
    let readiness = Readiness::default();
    let secret_path = SecretPath::default();
    let (wanted, scopes) = watch::channel(None);
    let (write_down, written) = watch::channel(None);
    // Without a configuration for pods nothing is read, and nothing can be added to it.
    let (learned, added) = watch::channel((!config.pods).then(Added::default));
    let configurator = WebhookConfigurator {
        serves_pods: config.pods,
        pods: (scopes, write_down),
        added: learned,
        client: client.clone(),
        namespace: config.namespace.clone(),
        secret: config.secret.clone(),
        endpoint: endpoint(&config),
        validating: config.validating,
        policy: policy(&config),
        validity: config.validity.clone(),
        resolver,
        provider,
        handshakes,
        loaded: None,
        published: None,
        reseeded: None,
        secret_path: secret_path.clone(),
    };
    let judge = judge(&mut config, client, secret_path);
    let lacks_token = judge.token.is_missing();
    let (phase, phases) = watch::channel(Phase::Serving);
    let address = config.bind;
    let drain = config.drain;
    let tasks = vec![
        server::threads::serve(listener, server::Server::new(http1), judge, phases.clone())
            .map_err(Error::Threads)?,
        tokio::spawn(maintain(configurator, config, readiness.clone(), phases).map(Ok)),
        tokio::spawn(end(shutdown, phase, drain).map(Ok)),
    ];
    Ok(Handle {
        readiness,
        tls: h2,
        address,
        pods: PodWebhook {
            wanted,
            written,
            added,
            lacks_token,
        },
        tasks,
    })
}

/// The TLS sides of the webhooks and of a gRPC server. The apiserver speaks HTTP/1.1 to webhooks,
/// so that requests spread over the replicas.
fn tls(
    provider: &Arc<CryptoProvider>,
    resolver: &Arc<Resolver>,
    handshakes: &Arc<AtomicU64>,
) -> Result<(Arc<rustls::ServerConfig>, Arc<rustls::ServerConfig>), rustls::Error> {
    let counted = resolver::Counted {
        resolver: Arc::clone(resolver),
        handshakes: Arc::clone(handshakes),
    };
    let http1 = resolver::server_config(Arc::new(counted), Arc::clone(provider), "http/1.1")?;
    let h2 = resolver::server_config(Arc::<Resolver>::clone(resolver), Arc::clone(provider), "h2")?;
    Ok((http1, h2))
}

/// The settings that reviews are judged by, taken out of the configuration.
fn judge(config: &mut Config, client: Client, secret_path: SecretPath) -> server::Judge {
    server::Judge {
        client,
        closed: std::mem::take(&mut config.closed),
        object_max_bytes: config.object_max_bytes,
        records: config.records.take(),
        injector: config.injector.take(),
        budgets: config.budgets.take(),
        secret_path,
        token: server::Token::new(config.token.take()),
        reviews: config.reviews.clone(),
        refused_deletions: config.refused_deletions.clone(),
    }
}

/// Drains the webhooks after `shutdown`, then ends them.
async fn end(shutdown: impl Future<Output = ()>, phase: watch::Sender<Phase>, drain: Duration) {
    shutdown.await;
    let _ = phase.send(Phase::Draining);
    tokio::time::sleep(drain).await;
    let _ = phase.send(Phase::Ending);
}

fn endpoint(config: &Config) -> Endpoint {
    match &config.host {
        Some(host) => Endpoint::Host {
            host: host.clone(),
            port: config.host_port.unwrap_or(config.bind.port()),
        },
        None => Endpoint::Service {
            namespace: config.namespace.clone(),
            name: config.service.clone(),
        },
    }
}

fn policy(config: &Config) -> Policy {
    let duration =
        |duration: Duration| SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    let services: Vec<String> = std::iter::once(&config.service)
        .chain(&config.extra_services)
        .cloned()
        .collect();
    Policy {
        ca_validity: duration(config.ca_validity),
        cert_validity: duration(config.cert_validity),
        names: issue::names(&config.namespace, &services, config.host.as_deref()),
    }
}
