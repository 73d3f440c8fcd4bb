//! Pull secrets for daemons, which have no right to read secrets: each gets what the pulls of its own node name, and
//! nothing else.
//!
//! A daemon shows its own service account token, issued for the controller's audience. Its node is the one that the
//! token was issued for, so a daemon cannot speak for another node; and what a pull names is the controller's word, in
//! the NodeImage's spec, which no daemon can write.

pub mod keyring;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use berth_api::v1beta1::NodeImage;
use berth_api::v1beta1::nodeimage::ReferenceObject;
use berth_grpc::TOKEN_AUDIENCE;
use berth_grpc::v1::pull_secrets_server::{PullSecrets, PullSecretsServer};
use berth_grpc::v1::{GetRequest, GetResponse};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tonic::{Request, Response, Status};
use tracing::{debug, info, warn};

use keyring::Keyring;

/// Where the apiserver says which node a pod's token was issued on.
const NODE_CLAIM: &str = "authentication.kubernetes.io/node-name";
/// How long a TLS handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The service: who may ask, and how to find the answer.
#[derive(Clone)]
pub struct PullSecretsService {
    client: Client,
    username: String,
}

impl PullSecretsService {
    /// A service that answers to one service account, the daemons'.
    pub fn new(client: Client, namespace: &str, service_account: &str) -> PullSecretsService {
        PullSecretsService { client, username: format!("system:serviceaccount:{namespace}:{service_account}") }
    }

    /// Who asks: the node of an accepted token.
    async fn node(&self, token: &str) -> Result<String, Status> {
        let review = TokenReview {
            spec: TokenReviewSpec { token: Some(token.to_owned()), audiences: Some(vec![TOKEN_AUDIENCE.to_owned()]) },
            ..TokenReview::default()
        };
        let reviewed = Api::<TokenReview>::all(self.client.clone()).create(&PostParams::default(), &review).await;
        let status = reviewed.map_err(|e| unavailable("the token", &e))?.status.unwrap_or_default();
        authorise(&status, &self.username)
    }

    /// What the node's NodeImage names for the pull.
    async fn references(&self, node: &str, ask: &GetRequest) -> Result<Vec<ReferenceObject>, Status> {
        let object = Api::<NodeImage>::all(self.client.clone()).get_opt(node).await;
        let object = object.map_err(|e| unavailable(&format!("NodeImage {node}"), &e))?;
        let named = object.as_ref().and_then(|object| named(object, &ask.image, &ask.tag));
        named.map(<[ReferenceObject]>::to_vec).ok_or_else(|| {
            Status::permission_denied(format!(
                "node {node} asked for the pull secrets of image {:?} tag {:?}, but NodeImage {node} asks for no such pull",
                ask.image, ask.tag
            ))
        })
    }

    /// Reads the secrets, in order, each once.
    async fn read(&self, references: &[ReferenceObject]) -> Result<(Keyring, Vec<String>), Status> {
        let (mut keyring, mut problems, mut seen) = (Keyring::default(), Vec::new(), BTreeSet::new());
        for reference in references {
            let name = format!("{}/{}", reference.namespace, reference.name);
            if !seen.insert(name.clone()) {
                continue;
            }
            if reference.namespace.is_empty() || reference.name.is_empty() {
                problems.push(format!("pull secret {name:?} needs a namespace and a name"));
                continue;
            }
            let secrets = Api::<Secret>::namespaced(self.client.clone(), &reference.namespace);
            let secret =
                secrets.get_opt(&reference.name).await.map_err(|e| unavailable(&format!("secret {name}"), &e))?;
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
        let token = bearer(&request)?.to_owned();
        let ask = request.into_inner();
        let answer = async {
            let node = self.node(&token).await?;
            let references = self.references(&node, &ask).await?;
            let (keyring, problems) = self.read(&references).await?;
            Ok::<_, Status>((node, GetResponse { credentials: keyring.lookup(&ask.image), problems }))
        };
        match answer.await {
            Ok((node, answer)) => {
                let (credentials, problems) = (answer.credentials.len(), answer.problems.len());
                info!(node, image = ask.image, tag = ask.tag, credentials, problems, "pull secrets given");
                Ok(Response::new(answer))
            }
            Err(status) => {
                let (code, why) = (status.code(), status.message());
                warn!(image = ask.image, tag = ask.tag, ?code, why, "pull secrets refused");
                Err(status)
            }
        }
    }
}

fn bearer(request: &Request<GetRequest>) -> Result<&str, Status> {
    let header = request.metadata().get("authorization").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let token = header.strip_prefix("Bearer ").map(str::trim).filter(|token| !token.is_empty());
    token.ok_or_else(|| {
        Status::unauthenticated(format!(
            "the metadata key authorization must be: Bearer TOKEN, of audience {TOKEN_AUDIENCE}"
        ))
    })
}

/// The node of a reviewed token, if it is the daemons' and of this audience.
fn authorise(review: &TokenReviewStatus, username: &str) -> Result<String, Status> {
    let for_us = review.audiences.as_ref().is_some_and(|audiences| audiences.iter().any(|a| a == TOKEN_AUDIENCE));
    if review.authenticated != Some(true) || !for_us {
        let why = review.error.as_deref().unwrap_or("it is not valid, or not for this audience");
        return Err(Status::unauthenticated(format!(
            "the apiserver does not accept the token for audience {TOKEN_AUDIENCE}: {why}"
        )));
    }
    let user = review.user.clone().unwrap_or_default();
    let who = user.username.unwrap_or_default();
    if who != username {
        return Err(Status::permission_denied(format!("{who} asked for pull secrets, which only {username} may")));
    }
    let claims = user.extra.unwrap_or_default();
    match claims.get(NODE_CLAIM).map(Vec::as_slice) {
        Some([node]) if !node.is_empty() => Ok(node.clone()),
        _ => Err(Status::permission_denied(format!(
            "the token of {who} has no claim {NODE_CLAIM}: it must be one that the kubelet mounted into a daemon's pod, on Kubernetes 1.32 or later"
        ))),
    }
}

/// The secrets that a NodeImage names for a pull. `None` when it asks for no such pull.
fn named<'a>(object: &'a NodeImage, image: &str, tag: &str) -> Option<&'a [ReferenceObject]> {
    let spec = object.spec.images.get(image)?;
    spec.tags.iter().any(|t| t.tag == tag).then_some(spec.pull_secrets.as_slice())
}

fn unavailable(what: &str, error: &kube::Error) -> Status {
    Status::unavailable(format!("{what} could not be read from the apiserver: {error}"))
}

/// Serves until `shutdown`; calls that are under way then are finished. `tls` must offer `h2` by ALPN.
pub async fn serve(
    listener: TcpListener,
    tls: Arc<tokio_rustls::rustls::ServerConfig>,
    service: PullSecretsService,
    shutdown: impl Future<Output = ()>,
) {
    let acceptor = TlsAcceptor::from(tls);
    let service = TowerToHyperService::new(PullSecretsServer::new(service));
    let connections = hyper_util::server::graceful::GracefulShutdown::new();
    tokio::pin!(shutdown);
    loop {
        let stream = tokio::select! {
            () = &mut shutdown => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    warn!(%error, "a daemon's connection was not accepted");
                    // As a rule there are no more files to open: let others finish.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
        };
        let (acceptor, service, watcher) = (acceptor.clone(), service.clone(), connections.watcher());
        tokio::spawn(async move {
            let stream = match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => stream,
                Ok(Err(error)) => return debug!(%error, "a daemon's TLS handshake failed"),
                Err(_) => return debug!("a daemon's TLS handshake took too long"),
            };
            let http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            let connection = http.serve_connection(TokioIo::new(stream), service);
            if let Err(error) = watcher.watch(connection).await {
                debug!(%error, "a daemon's connection ended early");
            }
        });
    }
    connections.shutdown().await;
}

#[cfg(test)]
mod tests;
