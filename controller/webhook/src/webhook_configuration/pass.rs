//! One pass: read the Secret, serve it, publish its authorities, and make the change that is due.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ObjectMeta;
use kube::{Api, Client};
use rustls::crypto::CryptoProvider;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::published::Published;
use crate::Error;
use crate::apiserver::{FIELD_MANAGER, posting};
use crate::certs::Validity;
use crate::certs::plan::{Policy, Stored, plan};
use crate::certs::resolver::Resolver;
use crate::certs::store::Material;
use crate::endpoint::Endpoint;
use crate::pods::{Added, Asks};
use crate::secret_path::SecretPath;

/// The result of a pass.
#[derive(Debug)]
pub(crate) struct Passed {
    /// Why clients cannot trust us yet; `None` if every place holds the authority of the served
    /// certificate.
    pub(crate) missing: Option<String>,
    /// How long until the next change may be due.
    pub(crate) look_again: Duration,
}

/// The dependencies of a pass, and the state that it keeps for the next.
pub(crate) struct WebhookConfigurator {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    pub(crate) secret: String,
    pub(crate) endpoint: Endpoint,
    /// Whether to maintain the ValidatingWebhookConfiguration, too.
    pub(crate) validating: bool,
    /// Whether the pod webhook is served. Without it no right to its configuration is needed.
    pub(crate) serves_pods: bool,
    /// For which pods the pod webhook is to be called, and the channel that says for which it is.
    pub(crate) pods: (watch::Receiver<Option<Asks>>, watch::Sender<Option<Asks>>),
    /// The channel that says what other writers have added to its entries.
    pub(crate) added: watch::Sender<Option<Added>>,
    pub(crate) policy: Policy,
    pub(crate) validity: Validity,
    pub(crate) resolver: Arc<Resolver>,
    pub(crate) provider: Arc<CryptoProvider>,
    /// Connections that clients of the webhooks have opened.
    pub(crate) handshakes: Arc<AtomicU64>,
    /// The serving certificate that is loaded.
    pub(crate) loaded: Option<String>,
    /// The bundle that every place was seen to hold, and since when.
    pub(crate) published: Option<(String, Timestamp)>,
    /// When paths of another seed were last overwritten.
    pub(crate) reseeded: Option<Instant>,
    /// The secret paths by which the apiserver calls. Answers there may contain data of other
    /// objects.
    pub(crate) secret_path: SecretPath,
}

/// How long the apiserver may take to read one object.
const ANSWER: Duration = Duration::from_secs(10);
/// The wait before entries of the pod webhook are written again after a failure.
const PODS_AGAIN: Duration = Duration::from_secs(5);
/// The wait before paths are rotated again after a failure.
const PATHS_AGAIN: Duration = Duration::from_secs(10);
/// The most changes in one pass; more would mean that two replicas overwrite each other.
const CHANGES_PER_PASS: usize = 4;

impl WebhookConfigurator {
    /// Checks everything once, makes the changes that are due, and says when to look again.
    pub(crate) async fn pass(&mut self) -> Result<Passed, Error> {
        let is_known = self.added.borrow().is_some();
        if !is_known && let Err(error) = self.look_at_entries().await {
            debug!(%error, "what others have added to the entries of the pod webhook is not known yet");
        }
        self.publish_pods_ahead().await;
        for _ in 0..CHANGES_PER_PASS {
            if let Some(passed) = self.change_once().await? {
                return Ok(passed);
            }
        }
        Ok(Passed {
            missing: Some("the certificates are changing".to_owned()),
            look_again: Duration::from_secs(1),
        })
    }

    /// Serves and publishes the content of the Secret, and makes the change that is due; `None` if
    /// the Secret must be read again.
    async fn change_once(&mut self) -> Result<Option<Passed>, Error> {
        let (stored, material) = self.read_secret().await?;
        self.secret_path.learn(&material.ca_key, material.paths);
        let (facts, now) = (material.facts(), Timestamp::now());
        self.validity.set(&facts);
        self.load(&material, &facts, now);
        let published = if material.authorities.is_empty() {
            Published::default()
        } else {
            self.publish(&material.bundle()).await?
        };
        self.published = held(
            self.published.take(),
            material.bundle(),
            published.missing.is_none(),
            now,
        );
        let since = self.published.as_ref().map(|(_, since)| *since);
        let plan = plan(now, &facts, since, &self.policy);
        let Some(change) = plan.change else {
            let rotates_in = self.rotate_paths(stored, &material).await;
            if rotates_in == Some(Duration::ZERO) {
                return Ok(None);
            }
            let due = plan.look_again.duration_since(now);
            let due = due.try_into().unwrap_or_default();
            let pods_in = published.pods_failed.then_some(PODS_AGAIN);
            let times = [published.paths_in, rotates_in, pods_in];
            return Ok(Some(Passed {
                missing: published.missing.or_else(|| self.not_loaded()),
                look_again: times.into_iter().flatten().fold(due, Duration::min),
            }));
        };
        let next = material.after(change, now, &self.policy)?;
        if self.write_secret(stored, &next).await? {
            info!(
                secret = self.secret,
                ?change,
                reason = plan.reason,
                "changed the certificates"
            );
        }
        Ok(None)
    }

    /// Raises the number of the secret paths if that is due. Says when to look again; zero if the
    /// Secret has changed meanwhile. The certificates do not wait for it.
    async fn rotate_paths(&self, stored: Option<Secret>, material: &Material) -> Option<Duration> {
        if !self.validating && !self.serves_pods {
            return None;
        }
        let rotated = async {
            if self.secret_path.has_old() {
                self.secret_path.look(&self.called_paths().await?);
            }
            let rotates_in = self.secret_path.rotates_in();
            if rotates_in != Some(Duration::ZERO) {
                return Ok::<_, Error>(rotates_in);
            }
            if self
                .write_secret(stored, &material.with_next_paths())
                .await?
            {
                info!(
                    secret = self.secret,
                    "rotated the paths by which the apiserver calls the webhooks"
                );
            }
            Ok(Some(Duration::ZERO))
        };
        rotated.await.unwrap_or_else(|error| {
            warn!(%error, "the paths of the webhooks cannot be rotated: tried again");
            Some(PATHS_AGAIN)
        })
    }

    /// Writes the rules for pods before everything else, with the authorities that were published
    /// last: a pod may be created right after the object that asks for the webhook. The pass
    /// repeats a write that failed.
    pub(super) async fn publish_pods_ahead(&mut self) {
        let Some((bundle, _)) = self.published.clone() else {
            return;
        };
        if self.pods.0.has_changed().unwrap_or(false) {
            self.pods.0.mark_unchanged();
            if let Err(error) = self.publish_entries(&bundle).await {
                debug!(%error, "the entries of the pod webhook are not written yet");
            }
        }
    }

    /// Each pass begins with this read, so it shows the replica whether the apiserver answers.
    async fn read_secret(&self) -> Result<(Option<Secret>, Material), Error> {
        let stored = tokio::time::timeout(ANSWER, self.secrets().get_opt(&self.secret)).await;
        let stored = stored
            .map_err(|_| Error::Silent(ANSWER))?
            .map_err(|source| self.failed("read", source))?;
        let material = stored
            .as_ref()
            .and_then(|secret| secret.data.as_ref())
            .map(Material::from_data);
        Ok((stored, material.unwrap_or_default()))
    }

    /// Writes the Secret if it is still as it was read; `false`: another replica was first, look
    /// again.
    async fn write_secret(&self, stored: Option<Secret>, next: &Material) -> Result<bool, Error> {
        let written = match stored {
            None => {
                let metadata = self.metadata(&self.secret);
                let secret = Secret {
                    metadata,
                    data: Some(next.to_data()),
                    ..Secret::default()
                };
                self.secrets().create(&posting(), &secret).await
            }
            Some(mut secret) => {
                secret.data.get_or_insert_default().extend(next.to_data());
                self.secrets()
                    .replace(&self.secret, &posting(), &secret)
                    .await
            }
        };
        match written {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => {
                Ok(false)
            }
            Err(source) => Err(self.failed("write", source)),
        }
    }

    fn load(&mut self, material: &Material, facts: &Stored, now: Timestamp) {
        if material.tls_cert.is_empty() || self.loaded.as_ref() == Some(&material.tls_cert) {
            return;
        }
        if facts
            .leaf
            .as_ref()
            .is_some_and(|leaf| !leaf.span.has_begun(now))
        {
            warn!(
                secret = self.secret,
                "the Secret's certificate is not valid yet: a replica's clock is, or was, wrong"
            );
            return;
        }
        match self
            .resolver
            .load(&material.tls_cert, &material.tls_key, &self.provider)
        {
            Ok(()) => {
                info!(
                    secret = self.secret,
                    "serving the certificate of the Secret"
                );
                self.loaded = Some(material.tls_cert.clone());
            }
            // The plan replaces a certificate that is of no use.
            Err(error) => {
                warn!(secret = self.secret, %error, "the Secret's certificate cannot be served")
            }
        }
    }

    fn not_loaded(&self) -> Option<String> {
        self.loaded
            .is_none()
            .then(|| format!("no certificate of Secret {} could be loaded", self.secret))
    }

    /// Metadata of the objects that we create.
    pub(super) fn metadata(&self, name: &str) -> ObjectMeta {
        ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(self.namespace.clone()),
            labels: Some(
                [(
                    "app.kubernetes.io/managed-by".to_owned(),
                    FIELD_MANAGER.to_owned(),
                )]
                .into(),
            ),
            ..ObjectMeta::default()
        }
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    fn failed(&self, verb: &'static str, source: kube::Error) -> Error {
        Error::api(
            verb,
            "Secret",
            &format!("{}/{}", self.namespace, self.secret),
            source,
        )
    }
}

/// The bundle that every place holds now, and since when. Without an authority there is none: an
/// entry of the pod webhook with an empty bundle would trust the authorities of the apiserver's
/// machine, and ours is not one of them.
fn held(
    before: Option<(String, Timestamp)>,
    bundle: String,
    everywhere: bool,
    now: Timestamp,
) -> Option<(String, Timestamp)> {
    if !everywhere || bundle.is_empty() {
        return None;
    }
    before
        .filter(|(held, _)| *held == bundle)
        .or(Some((bundle, now)))
}

#[cfg(test)]
mod tests;
