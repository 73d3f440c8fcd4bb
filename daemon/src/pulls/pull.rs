//! One try to pull an image.

use std::sync::Arc;
use std::time::Duration;

use berth_api::v1beta1::nodeimage::SandboxConfig;
use berth_grpc::v1::Credential;
use k8s_cri::v1::{AuthConfig, PodSandboxConfig};
use tokio::sync::mpsc;
use tracing::{debug, warn};

use crate::pulls::pull_secrets::PullSecrets;
use crate::runtime::Runtime;
use crate::runtime::containerd::PullWatch;
use crate::runtime::cri::CriError;
use crate::runtime::space;
use crate::tasks::manifest::Bytes;
use crate::tasks::{Key, Outcome, Resolved};

/// How often the daemon reads the bytes of a pull.
const PROGRESS: Duration = Duration::from_millis(500);
/// An annotation in the sandbox config of every pull: some runtimes fail without any annotation
/// there, and it names the client that pulls.
const PULLER_ANNOTATION: (&str, &str) = (
    berth_api::names::annotation::PULLING_IMAGE_BY,
    "berth-daemon",
);

/// One try to pull an image, with all that it needs.
#[derive(Debug)]
pub struct Try {
    /// The number of this try.
    pub attempt: u64,
    /// The image to pull.
    pub key: Key,
    /// Passed to the runtime with the pull.
    pub sandbox: Option<SandboxConfig>,
    /// The spec names secrets for it.
    pub has_secrets: bool,
    /// The node's runtime.
    pub runtime: Arc<Runtime>,
    /// Where credentials come from; `None` if the daemon has no controller's address.
    pub secrets: Option<PullSecrets>,
    /// Takes the bytes as they come.
    pub progress: mpsc::Sender<(u64, Bytes)>,
}

impl Try {
    /// Pulls. Dropping the future stops the pull.
    pub async fn run(self) -> Outcome {
        // The entry may be from before the CRD had bounds, or put in by hand.
        if let Some(Err(why)) = self.sandbox.as_ref().map(SandboxConfig::check) {
            return Outcome::Failed(format!("sandboxConfig {why}"));
        }
        let (credentials, problems) = match self.credentials().await {
            Ok(found) => found,
            Err(why) => return Outcome::Held(why),
        };
        // As the kubelet does: try each credential that applies, and pull anonymously only if none
        // does.
        let mut auths: Vec<Option<AuthConfig>> =
            credentials.into_iter().map(|c| Some(auth(c))).collect();
        if auths.is_empty() {
            auths.push(None);
        }
        let mut errors: Vec<String> = Vec::new();
        for auth in auths {
            match self.pull(auth).await {
                Ok(id) if problems.is_empty() => return Outcome::Pulled(self.resolve(id).await),
                Ok(id) => {
                    return Outcome::PulledAlthough(self.resolve(id).await, problems.join("; "));
                }
                Err(Stopped::Final(outcome)) => return outcome,
                Err(Stopped::Refused(why)) if errors.contains(&why) => {}
                Err(Stopped::Refused(why)) => errors.push(why),
            }
        }
        errors.extend(problems);
        Outcome::Failed(errors.join("; "))
    }

    async fn credentials(&self) -> Result<(Vec<Credential>, Vec<String>), String> {
        match (&self.secrets, self.has_secrets) {
            (_, false) => Ok((Vec::new(), Vec::new())),
            (Some(secrets), true) => secrets.get(&self.key).await.map(|answer| (answer.credentials, answer.problems)),
            (None, true) => {
                Err("the pull names secrets, but this daemon has no controller to ask for them; set --controller"
                    .into())
            }
        }
    }

    async fn pull(&self, auth: Option<AuthConfig>) -> Result<String, Stopped> {
        let reference = self.key.reference();
        let mut watch = self.watch(&reference).await;
        let pull = self
            .runtime
            .cri
            .pull(&reference, auth, Some(sandbox(self.sandbox.as_ref())));
        tokio::pin!(pull);
        let (mut measured, mut seen_before) = (false, false);
        let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + PROGRESS, PROGRESS);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let tick = async {
                match &mut watch {
                    None => std::future::pending().await,
                    Some(watch) => {
                        ticks.tick().await;
                        let bytes = watch.look().await;
                        (bytes, watch.refusal())
                    }
                }
            };
            let bytes = tokio::select! {
                done = &mut pull => return done.map_err(Stopped::from),
                (seen, refusal) = tick => match (seen, refusal) {
                    // Dropping the pull stops it.
                    (_, Some(why)) => return Err(Stopped::Final(Outcome::Failed(why))),
                    (Ok(Some(bytes)), None) => bytes,
                    // Its size is not known yet, but from now on a pull without new bytes is
                    // noticed.
                    (Ok(None), None) => {
                        if !std::mem::replace(&mut seen_before, true) {
                            let _ = self.progress.send((self.attempt, Bytes::default())).await;
                        }
                        continue;
                    }
                    (Err(error), None) => {
                        debug!(image = reference, %error, "the progress of a pull cannot be seen");
                        continue;
                    }
                },
            };
            if !std::mem::replace(&mut measured, true)
                && let Some(space) = self.runtime.space()
                && let Err(why) = space::check(&reference, bytes.missing(), bytes.total, &space)
            {
                // Dropping the pull stops it.
                return Err(Stopped::Final(Outcome::Failed(why)));
            }
            // The send fails only when the daemon ends.
            let _ = self.progress.send((self.attempt, bytes)).await;
        }
    }

    /// Watches the bytes of the pull, if the runtime reports them.
    async fn watch(&self, reference: &str) -> Option<PullWatch> {
        let begun = PullWatch::begin(self.runtime.containerd.clone()?, reference).await;
        begun
            .inspect_err(
                |error| debug!(image = reference, %error, "the progress of a pull cannot be seen"),
            )
            .ok()
    }

    async fn resolve(&self, id: String) -> Resolved {
        match self.runtime.resolve(&self.key.reference()).await {
            Ok(Some(resolved)) => resolved,
            // The runtime says that it pulled the image, and that counts; the next look finds the
            // image's names.
            Ok(None) | Err(_) => {
                warn!(
                    image = self.key.reference(),
                    id, "pulled, but the runtime does not know the image by its name"
                );
                Resolved {
                    ids: vec![id.clone()],
                    id,
                    bytes: None,
                }
            }
        }
    }
}

/// Why a pull ended without an image.
enum Stopped {
    /// Other credentials may help.
    Refused(String),
    /// No further try makes sense now.
    Final(Outcome),
}

impl From<CriError> for Stopped {
    fn from(error: CriError) -> Stopped {
        match error {
            CriError::Refused(why) => Stopped::Refused(why),
            CriError::Away { .. } => Stopped::Final(Outcome::Held(error.to_string())),
        }
    }
}

/// Without the registry, as the kubelet does: containerd compares a `server_address` with the host
/// that it calls, and reads no address without a scheme.
fn auth(credential: Credential) -> AuthConfig {
    AuthConfig {
        username: credential.username,
        password: credential.password,
        identity_token: credential.identity_token,
        registry_token: credential.registry_token,
        ..AuthConfig::default()
    }
}

fn sandbox(wanted: Option<&SandboxConfig>) -> PodSandboxConfig {
    let wanted = wanted.cloned().unwrap_or_default();
    let mut config = PodSandboxConfig {
        labels: wanted.labels.unwrap_or_default().into_iter().collect(),
        annotations: wanted.annotations.unwrap_or_default().into_iter().collect(),
        ..PodSandboxConfig::default()
    };
    let (key, value) = PULLER_ANNOTATION;
    config
        .annotations
        .entry(key.to_owned())
        .or_insert_with(|| value.to_owned());
    config
}
