//! The caller's identity: the node of its token, checked before anything else of a call is read.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use berth_api::name::Name;
use berth_grpc::TOKEN_AUDIENCE;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};
use kube::api::PostParams;
use kube::{Api, Client};
use parking_lot::{Mutex, MutexGuard};
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tonic::Status;

use super::allowance::Allowance;

/// The field in which the apiserver says which node a pod's token was issued on.
pub(super) const NODE_CLAIM: &str = "authentication.kubernetes.io/node-name";
/// The most TokenReviews at once.
const REVIEWS: usize = 8;
/// The longest wait for one of them, and for its answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many tokens an address may have reviewed at once, and the wait before it may have one more.
pub(super) const BURST: u32 = 20;
const REFILL: Duration = Duration::from_secs(1);
/// How long an accepted token is not reviewed again: a node pulls several images at a time.
const ACCEPTED: Duration = Duration::from_secs(10);
/// The most accepted tokens that are remembered.
const REMEMBERED: usize = 4096;

/// Reviews tokens: few at once, and few for each address.
pub(super) struct Tokens {
    client: Client,
    username: String,
    permits: Semaphore,
    of_each: Allowance,
    memory: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    /// By the hash of the token, so that no token is kept.
    accepted: HashMap<[u8; 32], (Name, Instant)>,
}

impl Tokens {
    /// Accepts the tokens of one service account.
    pub(super) fn new(client: Client, username: String) -> Self {
        Self {
            client,
            username,
            permits: Semaphore::new(REVIEWS),
            of_each: Allowance::new(BURST, REFILL),
            memory: Mutex::default(),
        }
    }

    /// The node of the token in a call's headers.
    pub(super) async fn node(&self, headers: &HeaderMap, peer: IpAddr) -> Result<Name, Status> {
        let token = bearer(headers)?;
        let hash = Sha256::digest(token).into();
        if let Some(node) = self.accepted(&hash) {
            return Ok(node);
        }
        if !self.of_each.spend(peer) {
            return Err(Status::resource_exhausted(format!(
                "too many tokens from {peer}: try again"
            )));
        }
        let busy = || Status::resource_exhausted("too many tokens are reviewed at once: try again");
        let permit = tokio::time::timeout(PATIENCE, self.permits.acquire()).await;
        let _permit = permit.ok().and_then(Result::ok).ok_or_else(busy)?;
        let node = self.review(token).await?;
        let mut memory = self.lock();
        let now = Instant::now();
        if memory.accepted.len() >= REMEMBERED {
            memory.accepted.retain(|_, (_, until)| *until > now);
        }
        if memory.accepted.len() < REMEMBERED {
            memory.accepted.insert(hash, (node.clone(), now + ACCEPTED));
        }
        Ok(node)
    }

    fn accepted(&self, hash: &[u8; 32]) -> Option<Name> {
        let memory = self.lock();
        let (node, until) = memory.accepted.get(hash)?;
        (*until > Instant::now()).then(|| node.clone())
    }

    async fn review(&self, token: &str) -> Result<Name, Status> {
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: Some(token.to_owned()),
                audiences: Some(vec![TOKEN_AUDIENCE.to_owned()]),
            },
            ..TokenReview::default()
        };
        let (reviews, params) = (
            Api::<TokenReview>::all(self.client.clone()),
            PostParams::default(),
        );
        let reviewed = tokio::time::timeout(PATIENCE, reviews.create(&params, &review)).await;
        let reviewed = reviewed
            .map_err(|_| Status::unavailable("the apiserver did not review the token in time"))?;
        let status = reviewed
            .map_err(|e| unavailable("the token", &e))?
            .status
            .unwrap_or_default();
        authorise(&status, &self.username)
    }

    fn lock(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock()
    }
}

/// The token in a call's headers.
pub(super) fn bearer(headers: &HeaderMap) -> Result<&str, Status> {
    let header = headers
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let token = header
        .strip_prefix("Bearer ")
        .map(str::trim)
        .filter(|token| !token.is_empty());
    token.ok_or_else(|| {
        Status::unauthenticated(format!(
            "the metadata key authorization must be: Bearer TOKEN, of audience {TOKEN_AUDIENCE}"
        ))
    })
}

/// The node of a reviewed token, if it is the daemons' and of this audience.
pub(super) fn authorise(review: &TokenReviewStatus, username: &str) -> Result<Name, Status> {
    let for_us = review
        .audiences
        .as_ref()
        .is_some_and(|audiences| audiences.iter().any(|a| a == TOKEN_AUDIENCE));
    if review.authenticated != Some(true) || !for_us {
        let why = review
            .error
            .as_deref()
            .unwrap_or("it is not valid, or not for this audience");
        return Err(Status::unauthenticated(format!(
            "the apiserver does not accept the token for audience {TOKEN_AUDIENCE}: {why}"
        )));
    }
    let user = review.user.clone().unwrap_or_default();
    let who = user.username.unwrap_or_default();
    if who != username {
        return Err(Status::permission_denied(format!(
            "{who} asked for pull secrets, which only {username} may"
        )));
    }
    let claims = user.extra.unwrap_or_default();
    match claims.get(NODE_CLAIM).map(Vec::as_slice) {
        Some([node]) if !node.is_empty() => Name::parse(node).map_err(|error| {
            Status::permission_denied(format!(
                "the claim {NODE_CLAIM} of the token of {who}: {error}"
            ))
        }),
        _ => Err(Status::permission_denied(format!(
            "the token of {who} has no claim {NODE_CLAIM}: it must be one that the kubelet mounted into a daemon's pod, on Kubernetes 1.32 or later"
        ))),
    }
}
pub(super) fn unavailable(what: &str, error: &kube::Error) -> Status {
    Status::unavailable(format!(
        "{what} could not be read from the apiserver: {error}"
    ))
}
