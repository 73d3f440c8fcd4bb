//! Pull secrets for daemons, which have no right to read secrets: each daemon gets the secrets that
//! the pulls of its own node name, and nothing else.
//!
//! A daemon shows its own service account token, issued for the controller's audience. Its node is
//! the one that the token was issued for, so a daemon cannot speak for another node. The controller
//! writes the names of a pull's secrets into the NodeImage's spec, which no daemon can write.

mod allowance;
pub mod keyring;
mod tokens;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use berth_api::name::{Name, Namespace};
use berth_api::v1beta1::NodeImage;
use berth_api::v1beta1::nodeimage::ReferenceObject;
use berth_grpc::v1::pull_secrets_server::{PullSecrets, PullSecretsServer};
use berth_grpc::v1::{GetRequest, GetResponse};
use berth_http::{Caller, Limits, Protocol, Server};
use futures::FutureExt;
use futures::future::BoxFuture;
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use tokio::net::TcpListener;
use tonic::{Code, Request, Response, Status};
use tracing::{debug, info, warn};

use keyring::Keyring;
use tokens::{Tokens, bearer, unavailable};

/// The largest request that is read, in bytes: an image and a tag.
const REQUEST_MAX: usize = 8 << 10;
/// How long an answer to an accepted token may take, the rest of its request included.
const ANSWER: Duration = Duration::from_secs(15);
/// Daemons call rarely, and each call has a connection of its own.
const LIMITS: Limits = Limits {
    connections: 256,
    connections_per_peer: 16,
    handshake: Duration::from_secs(10),
    first_request: Duration::from_secs(10),
    idle: Duration::from_secs(30),
    request: Duration::from_secs(30),
    streams: 8,
    buffer: 16 << 10,
    end: Duration::from_secs(5),
};

/// The service: which callers it accepts, and how it finds the answer.
#[derive(Clone)]
pub struct PullSecretsService {
    client: Client,
    tokens: Arc<Tokens>,
}

/// The caller's node, in the extensions of a request whose token was accepted.
#[derive(Debug, Clone)]
struct CallersNode(Name);

/// Checks the token before the service: a call without an accepted token ends here, and nothing of
/// its message is read.
#[derive(Clone)]
struct Gate {
    tokens: Arc<Tokens>,
    service: TowerToHyperService<PullSecretsServer<PullSecretsService>>,
}

impl Gate {
    fn new(service: PullSecretsService) -> Self {
        let tokens = service.tokens.clone();
        let service = PullSecretsServer::new(service).max_decoding_message_size(REQUEST_MAX);
        Self {
            tokens,
            service: TowerToHyperService::new(service),
        }
    }

    async fn answer(
        self,
        mut request: http::Request<Incoming>,
    ) -> http::Response<tonic::body::Body> {
        let Some(caller) = request.extensions().get::<Caller>().cloned() else {
            return Status::internal("the caller is not known").into_http();
        };
        let node = match self.tokens.node(request.headers(), caller.peer()).await {
            Ok(node) => node,
            Err(status) => {
                let (peer, code, why) = (caller.peer(), status.code(), status.message());
                // Failures that any client can cause at any rate are not logged: no token, or too
                // many of them.
                if code == Code::ResourceExhausted || bearer(request.headers()).is_err() {
                    debug!(%peer, ?code, why, "pull secrets refused");
                } else {
                    warn!(%peer, ?code, why, "pull secrets refused");
                }
                return status.into_http();
            }
        };
        let _working = caller.working();
        request.extensions_mut().insert(CallersNode(node));
        match tokio::time::timeout(ANSWER, self.service.call(request)).await {
            Ok(Ok(response)) => response,
            Ok(Err(never)) => match never {},
            Err(_) => Status::deadline_exceeded(
                "the request did not come, or the apiserver did not answer",
            )
            .into_http(),
        }
    }
}

impl Service<http::Request<Incoming>> for Gate {
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn call(&self, request: http::Request<Incoming>) -> Self::Future {
        self.clone().answer(request).map(Ok).boxed()
    }
}

impl PullSecretsService {
    /// A service that answers only one service account, the daemons'.
    pub fn new(client: Client, namespace: &str, service_account: &str) -> PullSecretsService {
        let username = format!("system:serviceaccount:{namespace}:{service_account}");
        PullSecretsService {
            tokens: Arc::new(Tokens::new(client.clone(), username)),
            client,
        }
    }

    /// The secrets that the node's NodeImage names for the pull.
    async fn references(
        &self,
        node: &Name,
        ask: &GetRequest,
    ) -> Result<Vec<ReferenceObject>, Status> {
        let object = Api::<NodeImage>::all(self.client.clone())
            .get_opt(node.as_str())
            .await;
        let object = object.map_err(|e| unavailable(&format!("NodeImage {node}"), &e))?;
        let named = object
            .as_ref()
            .and_then(|object| named(object, &ask.image, &ask.tag));
        named.map(|secrets| secrets.into_iter().cloned().collect()).ok_or_else(|| {
            Status::permission_denied(format!(
                "node {node} asked for the pull secrets of image {:?} tag {:?}, but NodeImage {node} asks for no such pull",
                ask.image, ask.tag
            ))
        })
    }

    /// Reads the secrets, in order, each once.
    async fn read(&self, references: &[ReferenceObject]) -> Result<(Keyring, Vec<String>), Status> {
        let (mut keyring, mut problems, mut seen) =
            (Keyring::default(), Vec::new(), BTreeSet::new());
        for reference in references {
            let name = format!("{}/{}", reference.namespace, reference.name);
            if !seen.insert(name.clone()) {
                continue;
            }
            let (namespace, secret) = match (
                Namespace::parse(&reference.namespace),
                Name::parse(&reference.name),
            ) {
                (Ok(namespace), Ok(secret)) => (namespace, secret),
                (Err(error), _) | (_, Err(error)) => {
                    problems.push(format!("pull secret {name:?}: {error}"));
                    continue;
                }
            };
            let secrets = Api::<Secret>::namespaced(self.client.clone(), namespace.as_str());
            let secret = secrets
                .get_opt(secret.as_str())
                .await
                .map_err(|e| unavailable(&format!("secret {name}"), &e))?;
            let Some(secret) = secret else {
                problems.push(format!("pull secret {name} does not exist"));
                continue;
            };
            let data = secret.data.unwrap_or_default();
            let field = |field: &str| data.get(field).map(|bytes| bytes.0.as_slice());
            if let Err(why) = keyring.add(secret.type_.as_deref().unwrap_or("Opaque"), field) {
                problems.push(format!("pull secret {name} {why}"));
            }
        }
        Ok((keyring, problems))
    }
}

#[tonic::async_trait]
impl PullSecrets for PullSecretsService {
    async fn get(&self, request: Request<GetRequest>) -> Result<Response<GetResponse>, Status> {
        let Some(CallersNode(node)) = request.extensions().get().cloned() else {
            return Err(Status::unauthenticated("no token was looked at"));
        };
        let ask = request.into_inner();
        let answer = async {
            let references = self.references(&node, &ask).await?;
            let (keyring, problems) = self.read(&references).await?;
            Ok::<_, Status>(GetResponse {
                credentials: keyring.lookup(&ask.image),
                problems,
            })
        };
        match answer.await {
            Ok(answer) => {
                let (credentials, problems) = (answer.credentials.len(), answer.problems.len());
                info!(%node, image = ask.image, tag = ask.tag, credentials, problems, "pull secrets given");
                Ok(Response::new(answer))
            }
            Err(status) => {
                let (code, why) = (status.code(), status.message());
                warn!(%node, image = ask.image, tag = ask.tag, ?code, why, "pull secrets refused");
                Err(status)
            }
        }
    }
}

/// The secrets that a NodeImage names for a pull. `None` when it asks for no such pull.
fn named<'a>(object: &'a NodeImage, image: &str, tag: &str) -> Option<Vec<&'a ReferenceObject>> {
    object.spec.images.get(image)?.secrets_of(tag)
}

/// Serves until `shutdown`; calls that are under way then are finished, within a few seconds. `tls`
/// must offer `h2` by ALPN.
pub async fn serve(
    listener: TcpListener,
    tls: Arc<tokio_rustls::rustls::ServerConfig>,
    service: PullSecretsService,
    shutdown: impl Future<Output = ()>,
) {
    let server = Server::new("pull secrets", Protocol::Http2, Some(tls), LIMITS);
    server.serve(listener, Gate::new(service), shutdown).await;
}

#[cfg(test)]
mod tests;
