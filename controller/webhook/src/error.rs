//! The errors of the webhooks.

use std::io;
use std::net::SocketAddr;

/// An error of the webhooks.
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
        /// The operation.
        verb: &'static str,
        /// The kind.
        kind: String,
        /// The object.
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
        /// The version that it stores.
        version: String,
        /// The version that it should store.
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

    /// Whether another writer was first: that is no fault, look again.
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
