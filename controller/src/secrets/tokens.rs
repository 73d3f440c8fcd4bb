//! Who calls: the node of a token, looked at before anything else of a call is read.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_api::name::Name;
use berth_grpc::TOKEN_AUDIENCE;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};
use kube::api::PostParams;
use kube::{Api, Client};
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tonic::Status;

use super::unavailable;

/// Where the apiserver says which node a pod's token was issued on.
pub(super) const NODE_CLAIM: &str = "authentication.kubernetes.io/node-name";
/// The most TokenReviews at once.
const REVIEWS: usize = 8;
/// The longest wait for one of them, and for its answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many tokens an address may have reviewed at once, and how long until it may have one more.
pub(super) const BURST: u32 = 20;
const REFILL: Duration = Duration::from_secs(1);
/// How long an accepted token is not reviewed again: a node pulls several images at a time.
const ACCEPTED: Duration = Duration::from_secs(10);
/// The most accepted tokens, and the most addresses, that are remembered.
const REMEMBERED: usize = 4096;

/// Reviews tokens, few at once and few of each address.
pub(super) struct Tokens {
    client: Client,
    username: String,
    permits: Semaphore,
    memory: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    /// By the hash of the token, so that no token is kept.
    accepted: HashMap<[u8; 32], (Name, Instant)>,
    /// When an address would have all its reviews again.
    callers: HashMap<IpAddr, Instant>,
}

impl Tokens {
    /// Accepts the tokens of one service account.
    pub(super) fn new(client: Client, username: String) -> Self {
        Self { client, username, permits: Semaphore::new(REVIEWS), memory: Mutex::default() }
    }

    /// The node of the token in a call's headers.
    pub(super) async fn node(&self, headers: &HeaderMap, peer: IpAddr) -> Result<Name, Status> {
        let token = bearer(headers)?;
        let hash = Sha256::digest(token).into();
        if let Some(node) = self.accepted(&hash) {
            return Ok(node);
        }
        self.spend(peer)?;
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

    /// Takes one of an address's reviews.
    fn spend(&self, peer: IpAddr) -> Result<(), Status> {
        let now = Instant::now();
        let mut memory = self.lock();
        if memory.callers.len() >= REMEMBERED {
            memory.callers.retain(|_, full| *full > now);
        }
        let full = memory.callers.get(&peer).copied().filter(|full| *full > now).unwrap_or(now);
        let crowded = memory.callers.len() >= REMEMBERED && !memory.callers.contains_key(&peer);
        if crowded || full - now > REFILL * (BURST - 1) {
            return Err(Status::resource_exhausted(format!("too many tokens from {peer}: try again")));
        }
        memory.callers.insert(peer, full + REFILL);
        Ok(())
    }

    async fn review(&self, token: &str) -> Result<Name, Status> {
        let review = TokenReview {
            spec: TokenReviewSpec { token: Some(token.to_owned()), audiences: Some(vec![TOKEN_AUDIENCE.to_owned()]) },
            ..TokenReview::default()
        };
        let (reviews, params) = (Api::<TokenReview>::all(self.client.clone()), PostParams::default());
        let reviewed = tokio::time::timeout(PATIENCE, reviews.create(&params, &review)).await;
        let reviewed = reviewed.map_err(|_| Status::unavailable("the apiserver did not review the token in time"))?;
        let status = reviewed.map_err(|e| unavailable("the token", &e))?.status.unwrap_or_default();
        authorise(&status, &self.username)
    }

    fn lock(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The token in a call's headers.
pub(super) fn bearer(headers: &HeaderMap) -> Result<&str, Status> {
    let header = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let token = header.strip_prefix("Bearer ").map(str::trim).filter(|token| !token.is_empty());
    token.ok_or_else(|| {
        Status::unauthenticated(format!(
            "the metadata key authorization must be: Bearer TOKEN, of audience {TOKEN_AUDIENCE}"
        ))
    })
}

/// The node of a reviewed token, if it is the daemons' and of this audience.
pub(super) fn authorise(review: &TokenReviewStatus, username: &str) -> Result<Name, Status> {
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
        Some([node]) if !node.is_empty() => Name::parse(node).map_err(|error| {
            Status::permission_denied(format!("the claim {NODE_CLAIM} of the token of {who}: {error}"))
        }),
        _ => Err(Status::permission_denied(format!(
            "the token of {who} has no claim {NODE_CLAIM}: it must be one that the kubelet mounted into a daemon's pod, on Kubernetes 1.32 or later"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GREEDY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const MODEST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    fn tokens() -> Tokens {
        let client = Client::try_from(kube::Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
        Tokens::new(client, "system:serviceaccount:a:b".to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_has_a_burst_of_reviews_and_one_more_each_second() {
        let tokens = tokens();
        let taken = (0..100).filter(|_| tokens.spend(GREEDY).is_ok()).count();
        assert_eq!(taken, BURST as usize);
        assert!(tokens.spend(MODEST).is_ok(), "another address has its own");
        tokio::time::advance(REFILL).await;
        assert!(tokens.spend(GREEDY).is_ok() && tokens.spend(GREEDY).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn addresses_are_remembered_up_to_a_limit_and_forgotten_when_they_have_all_their_reviews() {
        let tokens = tokens();
        let addresses =
            || (0..u32::try_from(REMEMBERED).unwrap()).map(|n| IpAddr::from((n + (11 << 24)).to_be_bytes()));
        assert!(addresses().all(|address| tokens.spend(address).is_ok()));
        assert!(tokens.spend(GREEDY).is_err());
        tokio::time::advance(REFILL * 2).await;
        assert!(tokens.spend(GREEDY).is_ok());
        assert_eq!(tokens.lock().callers.len(), 1);
    }
}
