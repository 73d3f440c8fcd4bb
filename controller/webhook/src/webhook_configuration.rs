//! Keeps the Secret, the served certificate, and the trust of clients in step: one pass after every
//! watched change, and whenever the plan asks for one.

pub(crate) mod conversion_probe;
mod pass;
mod publish;
mod published;
mod reach;
pub(crate) mod readiness;
mod silence;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::TryStreamExt;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, WatchParams};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use crate::places::{self};
use crate::pods::{DISRUPTIONS, MUTATING};
use crate::server::Phase;
use crate::webhook_configuration::conversion_probe::{EarlyEndpoint, Unproven, conversion_works};
use crate::{Config, Error, Readiness};

pub(crate) use pass::WebhookConfigurator;

use reach::{Proof, Reach};
use silence::Silence;

/// The longest time between two passes, for changes that no watch reports.
const LOOK_AT_LEAST_EVERY: Duration = Duration::from_secs(300);
/// The shortest time between two passes, so that a conflict with another writer is no busy loop.
const LOOK_AT_MOST_EVERY: Duration = Duration::from_millis(100);
/// The wait after a pass that failed.
const RETRY: Duration = Duration::from_secs(1);
/// The wait between two proofs. Every start has a few failed ones, because an endpoint becomes
/// known within seconds.
const PROVE_AGAIN: Duration = Duration::from_millis(250);
/// The longest time that a replica needs, while it ends, to withdraw its early endpoint.
const LAST_WORDS: Duration = Duration::from_secs(3);
/// From this failed proof on, the wait doubles and a log line says so: the apiserver may never
/// reach this replica.
const STRANGE: u32 = 20;
const PROVE_AT_LEAST_EVERY: Duration = Duration::from_secs(8);

/// Keeps everything in step while the phase is [`Phase::Serving`].
pub(crate) async fn maintain(
    mut configurator: WebhookConfigurator,
    config: Config,
    readiness: Readiness,
    phase: watch::Receiver<Phase>,
) {
    let changed = configurator.secret_path.wake();
    let mut watches = watch_all(&configurator, &changed);
    let mut ready = Ready::new(readiness, EarlyEndpoint::new(&configurator.client, &config));
    while_serving(passes(&mut configurator, &mut ready, &changed), phase).await;
    watches.shutdown().await;
    if tokio::time::timeout(LAST_WORDS, ready.leave_it_to_others())
        .await
        .is_err()
    {
        warn!("the apiserver does not answer: the early endpoint stays until the pod goes");
    }
}

/// Works until the process is to end. Another replica does the rest of the work, or the next
/// process does. A replica that ends still answers the callers that it has, but writes nothing: the
/// objects that it finds may belong to a successor with the same names.
async fn while_serving(work: impl Future<Output = ()>, mut phase: watch::Receiver<Phase>) {
    tokio::select! {
        () = work => {}
        _ = phase.wait_for(|phase| *phase != Phase::Serving) => {}
    }
}

/// One pass after the other, for ever.
async fn passes(configurator: &mut WebhookConfigurator, ready: &mut Ready, changed: &Notify) {
    let mut fails = false;
    loop {
        let began = Instant::now();
        let passed = configurator.pass().await;
        ready.heard(passed.as_ref().err(), began).await;
        let wait = match passed {
            Ok(passed) => {
                fails = false;
                let sooner = ready.after(configurator, passed.missing).await;
                sooner.map_or(passed.look_again, |sooner| sooner.min(passed.look_again))
            }
            Err(error) if error.is_conflict() => LOOK_AT_MOST_EVERY,
            Err(error) => {
                // Each watch that starts anew causes another try, so the error is logged once.
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
        }
    }
}

/// This replica's way to readiness, and back if the apiserver no longer reaches it or no longer
/// answers it. No other cause takes it out of service: to do so because a caBundle was wiped would
/// leave fewer replicas that convert.
struct Ready {
    readiness: Readiness,
    early: Option<EarlyEndpoint>,
    /// Whether Kubernetes' own endpoint has taken over.
    has_stepped_back: bool,
    proven: bool,
    reach: Reach,
    silence: Silence,
    /// Proofs that failed.
    tries: u32,
    /// The missing part when that was last logged. It may stay so for long, and is checked every
    /// second.
    said: Option<String>,
}

impl Ready {
    fn new(readiness: Readiness, early: Option<EarlyEndpoint>) -> Self {
        let (reach, silence) = (Reach::default(), Silence::default());
        Self {
            readiness,
            early,
            has_stepped_back: false,
            proven: false,
            reach,
            silence,
            tries: 0,
            said: None,
        }
    }

    /// Notes whether the apiserver answered in a pass: `error` is the error of that pass.
    async fn heard(&mut self, error: Option<&Error>, began: Instant) {
        if let Some(error) = error.filter(|error| error.is_unanswered()) {
            if self.silence.unanswered(began, Instant::now()) {
                warn!(%error, "the apiserver does not answer this replica any more: it is not ready");
            }
            if self.silence.is_long() {
                self.readiness.set(Some(format!(
                    "the apiserver does not answer this replica: {error}"
                )));
            }
            return;
        }
        if self.silence.ends() && self.proven {
            info!("the apiserver answers this replica again");
            self.readiness.set(None);
            // If the apiserver answered no replica, there is no endpoint at all until Kubernetes
            // has seen that they are ready.
            self.has_stepped_back = false;
            self.begin_early().await;
        }
    }

    /// Continues after a pass; says when to look again if that is sooner than the pass wants.
    async fn after(
        &mut self,
        configurator: &WebhookConfigurator,
        missing: Option<String>,
    ) -> Option<Duration> {
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
            if !self.reach.next_proof_in(Instant::now()).is_zero() {
                let sooner = self.step_back().await;
                let proof = self.reach.next_proof_in(Instant::now());
                return Some(sooner.map_or(proof, |sooner| sooner.min(proof)));
            }
            return Some(self.prove_reach(configurator).await);
        }
        let connections = configurator.handshakes.load(Ordering::Relaxed);
        match conversion_works(&configurator.client, &configurator.namespace).await {
            Ok(()) => {
                let is_connected = configurator.handshakes.load(Ordering::Relaxed) != connections;
                if !self.reach.is_ready(is_connected, Instant::now()) {
                    self.readiness.set(Some(
                        "the apiserver reaches other replicas, and not this one".to_owned(),
                    ));
                    self.leave_it_to_others().await;
                    return Some(PROVE_AT_LEAST_EVERY);
                }
                info!("conversion works by way of the apiserver");
                (self.proven, self.tries, self.has_stepped_back) = (true, 0, false);
                self.reach.begins(Instant::now());
                self.readiness.set(None);
                Some(RETRY)
            }
            Err(Unproven { why, .. }) => {
                self.tries += 1;
                if self.tries == STRANGE {
                    warn!(
                        why,
                        "the apiserver does not reach the conversion webhook of this replica"
                    );
                }
                debug!(why, "conversion does not work yet");
                self.readiness.set(Some(why));
                self.begin_early().await;
                Some(prove_again(self.tries))
            }
        }
    }

    /// Whether the apiserver still reaches this replica; says when to look again.
    async fn prove_reach(&mut self, configurator: &WebhookConfigurator) -> Duration {
        let (proof, why) =
            match conversion_works(&configurator.client, &configurator.namespace).await {
                Ok(()) => (Proof::Works, String::new()),
                Err(Unproven {
                    why,
                    is_unreached: true,
                }) => (Proof::Unreached, why),
                Err(Unproven {
                    why,
                    is_unreached: false,
                }) => (Proof::Untried, why),
            };
        debug!(?proof, why, "tried again whether conversion works");
        let connections = configurator.handshakes.load(Ordering::Relaxed);
        if !self.reach.tried(proof, connections, Instant::now()) {
            warn!(
                why,
                "the apiserver does not reach the conversion webhook of this replica any more: it is not ready"
            );
            self.proven = false;
            self.readiness.set(Some(why));
        }
        if let Some(early) = self.early.as_ref().filter(|_| self.proven)
            && let Err(error) = early.remove_of_others().await
        {
            warn!(%error, "an early endpoint of another replica may stay");
        }
        self.reach.next_proof_in(Instant::now())
    }

    fn failed(&self, why: String) {
        if !self.proven {
            self.readiness.set(Some(why));
        }
    }

    /// Adds the early endpoint.
    async fn begin_early(&mut self) {
        if let Some(early) = &mut self.early
            && let Err(error) = early.add().await
        {
            warn!(%error, "this pod cannot be made an endpoint before it is ready");
        }
    }

    /// Takes the early endpoint away when Kubernetes' own has taken over.
    async fn step_back(&mut self) -> Option<Duration> {
        let early = self.early.as_mut().filter(|_| !self.has_stepped_back)?;
        match early.step_back().await {
            Ok(true) => {
                self.has_stepped_back = true;
                None
            }
            Ok(false) => Some(RETRY),
            Err(error) => {
                warn!(%error, "the early endpoint stays");
                Some(RETRY)
            }
        }
    }

    /// Takes the early endpoint away.
    async fn leave_it_to_others(&mut self) {
        if let Some(early) = &mut self.early
            && let Err(error) = early.remove().await
        {
            warn!(%error, "the early endpoint stays until the pod goes");
        }
    }
}

/// The wait after so many failed proofs.
fn prove_again(tries: u32) -> Duration {
    PROVE_AGAIN
        .saturating_mul(1 << tries.saturating_sub(STRANGE).min(16))
        .min(PROVE_AT_LEAST_EVERY)
}

/// Watches the Secret and everything that holds the bundle, each by name, and notifies of every
/// change.
fn watch_all(configurator: &WebhookConfigurator, changed: &Arc<Notify>) -> JoinSet<()> {
    let secret = Api::namespaced_with(
        configurator.client.clone(),
        &configurator.namespace,
        &ApiResource::erase::<Secret>(&()),
    );
    let crds: Api<DynamicObject> = Api::all_with(
        configurator.client.clone(),
        &ApiResource::erase::<CustomResourceDefinition>(&()),
    );
    let validating = Api::all_with(
        configurator.client.clone(),
        &ApiResource::erase::<ValidatingWebhookConfiguration>(&()),
    );
    let mut watches = JoinSet::new();
    watches.spawn(watch_one(
        secret,
        configurator.secret.clone(),
        Arc::clone(changed),
    ));
    if configurator.validating {
        watches.spawn(watch_one(
            validating,
            places::VALIDATING.to_owned(),
            Arc::clone(changed),
        ));
    }
    if configurator.serves_pods {
        let mutating = Api::all_with(
            configurator.client.clone(),
            &ApiResource::erase::<MutatingWebhookConfiguration>(&()),
        );
        watches.spawn(watch_one(
            mutating,
            MUTATING.to_owned(),
            Arc::clone(changed),
        ));
        let validating = Api::all_with(
            configurator.client.clone(),
            &ApiResource::erase::<ValidatingWebhookConfiguration>(&()),
        );
        watches.spawn(watch_one(
            validating,
            DISRUPTIONS.to_owned(),
            Arc::clone(changed),
        ));
    }
    // Without a configuration for pods, an empty set of rules may be wanted, so that old entries
    // are removed.
    let (mut wanted, to_tell) = (configurator.pods.0.clone(), Arc::clone(changed));
    watches.spawn(async move {
        while wanted.changed().await.is_ok() {
            to_tell.notify_one();
        }
    });
    for name in places::crds() {
        watches.spawn(watch_one(crds.clone(), name, Arc::clone(changed)));
    }
    watches
}

/// Watches one object by its name, metadata only: an event triggers a pass, which reads the object.
async fn watch_one(api: Api<DynamicObject>, name: String, changed: Arc<Notify>) {
    let params = WatchParams::default()
        .fields(&format!("metadata.name={name}"))
        .disable_bookmarks();
    loop {
        // From version 0 the watch begins with the object as it is, so nothing between two watches
        // is missed.
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
        // Only a pass sees a deletion that happened between two watches.
        changed.notify_one();
    }
}

#[cfg(test)]
mod tests;
