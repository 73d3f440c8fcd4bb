//! Conversion and validation webhooks, and the certificates that serve them.
//!
//! [`run`] serves on every replica, leader or not. The certificates live in one Secret that any replica makes and
//! rotates ([`certs`]); the authorities that sign them are kept in every place that must trust them ([`places`]).

pub mod certs;
pub mod deletions;
mod keeper;
mod kinds;
mod latency;
mod migrate;
pub mod missing;
pub mod places;
pub mod pods;
mod prepare_return;
mod proof;
mod readiness;
mod secret_path;
mod server;
mod sidecar_template;
mod threads;

/// What a body that is POSTed here is answered.
pub mod reviews {
    pub use crate::secret_path::SecretPath;
    pub use crate::server::Judge;
    pub use crate::server::admission::review as admission;
    pub use crate::server::conversion::review as conversion;
    pub use crate::server::{reads_disruption, reads_eviction};
}

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use futures::FutureExt;
use futures::future::try_join_all;
use jiff::SignedDuration;
use kube::Client;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use certs::Validity;
pub use latency::ReviewMetrics;
pub use migrate::{Migrated, migrate};
pub use prepare_return::{ReturnError, prepare_return};
pub use proof::PORT_NAME;
pub use readiness::Readiness;
pub use server::NO_TOKEN;

use crate::certs::issue;
use crate::certs::plan::Policy;
use crate::certs::resolver::{self, Resolver};
use crate::deletions::RefusedDeletions;
use crate::keeper::Keeper;
use crate::places::Endpoint;
use crate::pods::{Added, Asks, Budgets, Injector, Records};
use crate::secret_path::SecretPath;
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

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The port is taken, or not ours to take.
    #[error(
        "cannot listen on {address} for webhooks: {source}; choose another with --webhook-port"
    )]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
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
    /// The apiserver did not answer.
    #[error("the apiserver gives no answer within {} s", .0.as_secs())]
    Silent(std::time::Duration),
    /// A CRD stores a version that is not ours.
    #[error(
        "CustomResourceDefinition {crd} stores version {version:?}, not {wanted}: apply the CRDs of this chart"
    )]
    OtherStorage {
        /// The CRD.
        crd: String,
        /// What it stores.
        version: String,
        /// What it should store.
        wanted: &'static str,
    },
    /// A CRD was replaced while its objects were migrated.
    #[error("CustomResourceDefinition {crd} changed its stored version during the migration")]
    StorageChanged {
        /// The CRD.
        crd: String,
    },
    /// The operating system gives no further threads.
    #[error("webhooks have no threads of their own: {0}")]
    Threads(#[source] io::Error),
    /// A task ended in a way that it never should.
    #[error("a task of the webhooks ended: {0}")]
    Task(#[from] tokio::task::JoinError),
}

impl Error {
    pub(crate) fn api(verb: &'static str, kind: &str, name: &str, source: kube::Error) -> Self {
        Self::Api {
            verb,
            kind: kind.to_owned(),
            name: name.to_owned(),
            source,
        }
    }

    /// Whether another writer was first: nothing is wrong, look again.
    pub(crate) fn is_conflict(&self) -> bool {
        matches!(self, Self::Api { source: kube::Error::Api(status), .. } if status.is_conflict())
    }

    /// Whether there is no answer by the apiserver, not even a refusal.
    pub(crate) fn is_unanswered(&self) -> bool {
        let on_the_way = |source: &kube::Error| {
            matches!(source, kube::Error::Service(_) | kube::Error::HyperError(_))
        };
        matches!(self, Self::Silent(_))
            || matches!(self, Self::Api { source, .. } if on_the_way(source))
    }
}

/// The running webhooks.
#[derive(Debug)]
pub struct Handle {
    readiness: Readiness,
    tls: Arc<rustls::ServerConfig>,
    address: SocketAddr,
    pods: PodWebhook,
    tasks: Vec<JoinHandle<io::Result<()>>>,
}

/// For whose pods the pod webhook is to be called, and for whose it is.
#[derive(Debug, Clone)]
pub struct PodWebhook {
    /// What the leader wants; `None` is nobody's wish, and nothing is written.
    pub wanted: watch::Sender<Option<Asks>>,
    /// What was written last, or found written, less what was about to be taken out since.
    pub written: watch::Receiver<Option<Asks>>,
    /// What others have added to the entries of SidecarSets; `None` before this replica has read them.
    pub added: watch::Receiver<Option<Added>>,
    /// Whether an apiserver calls this replica without the token that the configuration asks for.
    pub lacks_token: watch::Receiver<bool>,
}

impl PodWebhook {
    /// For whoever only looks: nobody asks for anything, and this was added.
    pub fn looked_at(added: Option<Added>) -> Self {
        let (wanted, written) = (watch::channel(None).0, watch::channel(None).1);
        Self {
            wanted,
            written,
            added: watch::channel(added).1,
            lacks_token: watch::channel(false).1,
        }
    }

    /// Is it called for pods of whom this is so, and will it be? What is not wanted any more may go at any moment.
    pub fn stands_before(&self, is_so: impl Fn(&Asks) -> bool) -> bool {
        let has = |asks: &Option<Asks>| asks.as_ref().is_some_and(&is_so);
        // In this order: what is written is narrowed while nobody can change what is wanted.
        has(&self.wanted.borrow()) && has(&self.written.borrow())
    }
}

impl Handle {
    /// The two ends of what is written about the pod webhook.
    pub fn pods(&self) -> PodWebhook {
        self.pods.clone()
    }

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
    /// When a task panicked, or the threads cannot serve.
    pub async fn join(self) -> Result<(), Error> {
        // The first that fails is told at once, and not when the others have ended.
        try_join_all(
            self.tasks
                .into_iter()
                .map(|task| async { task.await?.map_err(Error::Threads) }),
        )
        .await?;
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
    let listener = berth_http::bind(address)
        .await
        .and_then(TcpListener::into_std)
        .map_err(failed)?;
    config.bind = listener.local_addr().map_err(failed)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let resolver = Arc::new(Resolver::default());
    // The apiserver speaks HTTP/1.1 to webhooks, so that requests spread over the replicas.
    let handshakes = Arc::new(AtomicU64::new(0));
    let counted = resolver::Counted {
        resolver: Arc::clone(&resolver),
        handshakes: Arc::clone(&handshakes),
    };
    let http1 = resolver::server_config(Arc::new(counted), Arc::clone(&provider), "http/1.1")?;
    let h2 = resolver::server_config(
        Arc::<Resolver>::clone(&resolver),
        Arc::clone(&provider),
        "h2",
    )?;
    let readiness = Readiness::default();
    let secret_path = SecretPath::default();
    let (wanted, scopes) = watch::channel(None);
    let (write_down, written) = watch::channel(None);
    // Where no entry is kept none is read, and nothing can be added to it.
    let (learned, added) = watch::channel((!config.pods).then(Added::default));
    let keeper = Keeper {
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
    let closed = std::mem::take(&mut config.closed);
    let (records, injector, budgets) = (
        config.records.take(),
        config.injector.take(),
        config.budgets.take(),
    );
    let token = server::Token::new(config.token.take());
    let lacks_token = token.is_missing();
    let judge = server::Judge {
        client,
        closed,
        object_max_bytes: config.object_max_bytes,
        records,
        injector,
        budgets,
        secret_path,
        token,
        reviews: config.reviews.clone(),
        refused_deletions: config.refused_deletions.clone(),
    };
    let (phase, phases) = watch::channel(Phase::Serving);
    let address = config.bind;
    let drain = config.drain;
    let tasks = vec![
        threads::serve(listener, server::Server::new(http1), judge, phases.clone())
            .map_err(Error::Threads)?,
        tokio::spawn(keeper::keep(keeper, config, readiness.clone(), phases).map(Ok)),
        tokio::spawn(async move {
            shutdown.await;
            let _ = phase.send(Phase::Draining);
            tokio::time::sleep(drain).await;
            let _ = phase.send(Phase::Ending);
            Ok(())
        }),
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
