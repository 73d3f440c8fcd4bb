//! Keeps the Secret, what is served, and what clients trust in step: one pass after every change that is seen, and
//! whenever the plan asks for one.

mod pass;
mod publish;

use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, PatchParams, PostParams, WatchParams};
use kube::core::Object;
use kube::{Api, Client};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tracing::{debug, info, warn};

use crate::places::{self, CrdSpec, CrdStatus};
use crate::proof::{EarlyEndpoint, conversion_works};
use crate::server::Phase;
use crate::{Config, Readiness};

pub(crate) use pass::Keeper;

/// Who we are in `managedFields`.
pub(crate) const FIELD_MANAGER: &str = "berth-controller";
/// The longest time between two passes, for what no watch tells.
const LOOK_AT_LEAST_EVERY: Duration = Duration::from_secs(300);
/// The shortest, so that a quarrel with another writer is no busy loop.
const LOOK_AT_MOST_EVERY: Duration = Duration::from_millis(100);
/// The wait after a pass that failed.
const RETRY: Duration = Duration::from_secs(1);
/// The wait between two proofs, as every start has a few that fail: an endpoint is known within seconds.
const PROVE_AGAIN: Duration = Duration::from_millis(250);
/// From this failed proof on the wait doubles, and it is told: the apiserver may never reach this replica.
const STRANGE: u32 = 20;
const PROVE_AT_LEAST_EVERY: Duration = Duration::from_secs(8);

/// A CRD without its schemas.
pub(crate) type Crd = Object<CrdSpec, CrdStatus>;

/// The CRDs' API, decoded to [`Crd`].
pub(crate) fn crds(client: &Client) -> Api<Crd> {
    Api::all_with(client.clone(), &ApiResource::erase::<CustomResourceDefinition>(&()))
}

pub(crate) fn posting() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() }
}

pub(crate) fn patching() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}

/// Keeps everything in step until the phase is [`Phase::Ending`].
pub(crate) async fn keep(mut keeper: Keeper, config: Config, readiness: Readiness, mut phase: watch::Receiver<Phase>) {
    let changed = Arc::new(Notify::new());
    let mut watches = watch_all(&keeper, &changed);
    let mut fails = false;
    let mut ready = Ready::new(readiness, EarlyEndpoint::new(&keeper.client, &config));
    loop {
        let wait = match keeper.pass().await {
            Ok(passed) => {
                fails = false;
                let sooner = ready.after(&keeper, passed.missing).await;
                sooner.map_or(passed.look_again, |sooner| sooner.min(passed.look_again))
            }
            Err(error) if error.is_conflict() => LOOK_AT_MOST_EVERY,
            Err(error) => {
                // It is tried again with every watch that begins anew.
                if !std::mem::replace(&mut fails, true) {
                    warn!(%error, "the webhook's certificates cannot be kept");
                }
                ready.failed(error.to_string());
                RETRY
            }
        };
        tokio::select! {
            () = tokio::time::sleep(wait.clamp(LOOK_AT_MOST_EVERY, LOOK_AT_LEAST_EVERY)) => {}
            () = changed.notified() => {}
            _ = phase.wait_for(|phase| *phase == Phase::Ending) => break,
        }
    }
    watches.shutdown().await;
    ready.end().await;
}

/// This replica's way to readiness. Once ready it stays so: to take it out of service because a caBundle was wiped
/// would make fewer replicas convert, not more.
struct Ready {
    readiness: Readiness,
    early: Option<EarlyEndpoint>,
    proven: bool,
    /// Proofs that failed.
    tries: u32,
    /// What was missing when that was last logged: it may stay so for long, and is asked again every second.
    said: Option<String>,
}

impl Ready {
    fn new(readiness: Readiness, early: Option<EarlyEndpoint>) -> Self {
        Self { readiness, early, proven: false, tries: 0, said: None }
    }

    /// Goes on after a pass; says when to look again if that is sooner than the pass thinks.
    async fn after(&mut self, keeper: &Keeper, missing: Option<String>) -> Option<Duration> {
        if let Some(missing) = missing {
            if self.said.as_ref() != Some(&missing) {
                warn!(missing, "the webhook cannot be trusted by its clients");
                self.said = Some(missing.clone());
            }
            self.failed(missing);
            return Some(RETRY);
        }
        self.said = None;
        if self.proven {
            return self.step_back().await;
        }
        match conversion_works(&keeper.client, &keeper.namespace).await {
            Ok(()) => {
                info!("conversion works by way of the apiserver");
                self.proven = true;
                self.readiness.set(None);
                Some(RETRY)
            }
            Err(why) => {
                self.tries += 1;
                if self.tries == STRANGE {
                    warn!(why, "the apiserver does not reach the conversion webhook of this replica");
                }
                debug!(why, "conversion does not work yet");
                self.readiness.set(Some(why));
                if let Some(early) = &mut self.early
                    && let Err(error) = early.add().await
                {
                    warn!(%error, "this pod cannot be made an endpoint before it is ready");
                }
                Some(prove_again(self.tries))
            }
        }
    }

    fn failed(&self, why: String) {
        if !self.proven {
            self.readiness.set(Some(why));
        }
    }

    /// Takes the early endpoint away when Kubernetes' own has taken over.
    async fn step_back(&mut self) -> Option<Duration> {
        match self.early.as_mut()?.step_back().await {
            Ok(true) => {
                self.early = None;
                None
            }
            Ok(false) => Some(RETRY),
            Err(error) => {
                warn!(%error, "the early endpoint stays");
                Some(RETRY)
            }
        }
    }

    async fn end(mut self) {
        if let Some(early) = &mut self.early
            && let Err(error) = early.remove().await
        {
            warn!(%error, "the early endpoint stays until the pod goes");
        }
    }
}

/// The wait after so many failed proofs.
fn prove_again(tries: u32) -> Duration {
    PROVE_AGAIN.saturating_mul(1 << tries.saturating_sub(STRANGE).min(16)).min(PROVE_AT_LEAST_EVERY)
}

/// Watches the Secret and everything that holds the bundle, each by name, and notifies of every change.
fn watch_all(keeper: &Keeper, changed: &Arc<Notify>) -> JoinSet<()> {
    let secret = Api::namespaced_with(keeper.client.clone(), &keeper.namespace, &ApiResource::erase::<Secret>(&()));
    let crds: Api<DynamicObject> =
        Api::all_with(keeper.client.clone(), &ApiResource::erase::<CustomResourceDefinition>(&()));
    let validating = Api::all_with(keeper.client.clone(), &ApiResource::erase::<ValidatingWebhookConfiguration>(&()));
    let mut watches = JoinSet::new();
    watches.spawn(watch_one(secret, keeper.secret.clone(), Arc::clone(changed)));
    watches.spawn(watch_one(validating, places::VALIDATING.to_owned(), Arc::clone(changed)));
    for name in places::CRDS {
        watches.spawn(watch_one(crds.clone(), name.to_owned(), Arc::clone(changed)));
    }
    watches
}

/// Watches one object by its name, metadata only: an event says that it is time for a pass, which reads it.
async fn watch_one(api: Api<DynamicObject>, name: String, changed: Arc<Notify>) {
    let params = WatchParams::default().fields(&format!("metadata.name={name}")).disable_bookmarks();
    loop {
        // From version 0 the watch begins with the object as it is, so nothing between two watches is missed.
        let ended = async {
            let stream = api.watch_metadata(&params, "0").await?;
            stream
                .try_for_each(|_| {
                    changed.notify_one();
                    async { Ok(()) }
                })
                .await
        };
        if let Err(error) = ended.await {
            debug!(name, %error, "a watch ended");
        }
        tokio::time::sleep(RETRY).await;
        // A deletion between two watches is seen by a pass only.
        changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proofs_become_rare() {
        let waits = [1, STRANGE, STRANGE + 1, STRANGE + 5, STRANGE + 9].map(|tries| prove_again(tries).as_millis());
        assert_eq!(waits, [250, 250, 500, 8000, 8000]);
        assert_eq!(prove_again(u32::MAX), PROVE_AT_LEAST_EVERY);
    }
}
