//! The node's runtime: finding, connecting and watching it, and finding it again after it went
//! away.

pub mod cni;
pub mod container_hash;
pub mod containerd;
pub mod cri;
pub mod inspect;
pub mod space;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tracing::{debug, info, warn};

use crate::runtime::containerd::{Containerd, Event};
use crate::runtime::cri::{Cri, CriError};
use crate::runtime::space::Space;
use crate::tasks::Resolved;

/// The sockets of runtimes on a host, in the order in which they are tried.
pub const SOCKETS: [&str; 3] = [
    "/run/containerd/containerd.sock",
    "/run/crio/crio.sock",
    "/run/cri-dockerd.sock",
];
/// The pause after the first failure to connect; it doubles up to [`RETRY_MAX`].
const RETRY: Duration = Duration::from_millis(500);
const RETRY_MAX: Duration = Duration::from_secs(15);
/// How often the daemon lists the containers of a runtime without events while a pod or a stop
/// waits for them.
const POLL_CONTAINERS: Duration = Duration::from_secs(1);
/// The same with events, because one may get lost between two connections.
const POLL_BESIDE_EVENTS: Duration = Duration::from_secs(5);
/// How often the daemon checks whether the runtime still answers, and lists images if there are no
/// events.
const POLL: Duration = Duration::from_secs(20);

/// The socket to use.
#[derive(Debug, Clone)]
pub struct SocketChoice {
    /// The prefix under which the host's paths are mounted.
    pub host_root: PathBuf,
    /// The socket, in the host's own paths. Without it [`SOCKETS`] are tried.
    pub socket: Option<String>,
}

/// An event of the watch of the runtime.
#[derive(Debug, Clone)]
pub enum RuntimeEvent {
    /// The runtime answers. All earlier knowledge of it must be read again.
    Ready(Arc<Runtime>),
    /// The runtime does not answer, and why.
    Lost(String),
    /// Images may have changed.
    Images,
    /// Containers may have changed.
    Containers,
}

/// A runtime that answered.
#[derive(Debug)]
pub struct Runtime {
    /// Its CRI.
    pub cri: Cri,
    /// containerd's own services, if the runtime is containerd.
    pub containerd: Option<Containerd>,
    host_root: PathBuf,
    /// Where its image file system is mounted on the host; `None` if the runtime does not say.
    image_mountpoint: Option<String>,
}

impl Runtime {
    /// Connects to the first runtime that answers.
    ///
    /// # Errors
    /// A sentence that names every socket that was tried and what happened.
    pub async fn find(choice: &SocketChoice) -> Result<Runtime, String> {
        let candidates: Vec<&str> = match &choice.socket {
            Some(socket) => vec![socket],
            None => SOCKETS.to_vec(),
        };
        let mut failures = Vec::new();
        for candidate in candidates {
            let path = space::under(&choice.host_root, candidate);
            if !path.exists() {
                failures.push(format!("{candidate} does not exist"));
                continue;
            }
            match Runtime::connect(&path, &choice.host_root).await {
                Ok(runtime) => return Ok(runtime),
                Err(error) => failures.push(format!("{candidate}: {error}")),
            }
        }
        let remedy = match choice.socket {
            Some(_) => "check --cri-socket, and that its directory is mounted",
            None => "set --cri-socket if the runtime listens elsewhere",
        };
        Err(format!(
            "no container runtime: {}; {remedy}",
            failures.join("; ")
        ))
    }

    /// Connects to the runtime on one socket, given as this process sees it.
    ///
    /// # Errors
    /// When it does not answer, or says that it is not ready.
    pub async fn connect(socket: &Path, host_root: &Path) -> Result<Runtime, CriError> {
        let cri = Cri::connect(socket).await?;
        let (ready, config) = cri.status().await?;
        ready.map_err(CriError::Refused)?;
        // A containerd that drops unpacked layers does not fetch them again for the next image:
        // then the sizes in a manifest do not say how much a pull takes.
        let discards = config.is_some_and(|json| json.contains(r#""discardUnpackedLayers":true"#));
        let image_mountpoint = if discards {
            None
        } else {
            cri.image_mountpoint().await?
        };
        Ok(Runtime {
            containerd: Containerd::of(&cri),
            cri,
            host_root: host_root.to_owned(),
            image_mountpoint,
        })
    }

    /// The image file system; `None` if it cannot be measured.
    pub fn space(&self) -> Option<Space> {
        let mountpoint = self.image_mountpoint.as_deref()?;
        match space::measure(&self.host_root, mountpoint) {
            Ok(space) => Some(space),
            Err(error) => {
                debug!(mountpoint, %error, "the image file system cannot be measured");
                None
            }
        }
    }

    /// The node's image of this name, with all of its ids. `None` if the node does not have it.
    ///
    /// # Errors
    /// When the runtime does not answer, or refuses the name.
    pub async fn resolve(&self, reference: &str) -> Result<Option<Resolved>, CriError> {
        let Some(image) = self.cri.image(reference).await? else {
            return Ok(None);
        };
        let content = match &self.containerd {
            Some(containerd) => containerd
                .image(reference)
                .await
                .map_err(|e| CriError::Refused(e.to_string()))?,
            None => None,
        }
        .unwrap_or_default();
        let digests = image
            .repo_digests
            .iter()
            .filter_map(|d| d.rsplit_once('@'))
            .map(|(_, digest)| digest.to_owned());
        let mut ids: Vec<String> = digests
            .chain(content.ids)
            .chain([image.id.clone()])
            .collect();
        ids.retain(|id| !id.is_empty());
        ids.sort();
        ids.dedup();
        Ok(Some(Resolved {
            id: image.id,
            ids,
            bytes: content.bytes,
        }))
    }
}

/// Finds the runtime, sends its events, and finds it again when it goes away. Ends when the
/// receiver is closed.
///
/// `waiting` says whether a pod or a stop waits for events of containers.
pub async fn watch(
    choice: SocketChoice,
    waiting: watch::Receiver<bool>,
    tell: mpsc::Sender<RuntimeEvent>,
) {
    let mut retry = RETRY;
    let mut reported = String::new();
    while !tell.is_closed() {
        match Runtime::find(&choice).await {
            Ok(runtime) => {
                let runtime = Arc::new(runtime);
                info!(
                    socket = %runtime.cri.socket().display(),
                    runtime = runtime.cri.name(),
                    version = runtime.cri.version(),
                    "the container runtime answers"
                );
                (retry, reported) = (RETRY, String::new());
                if tell
                    .send(RuntimeEvent::Ready(runtime.clone()))
                    .await
                    .is_err()
                {
                    return;
                }
                follow(&runtime, waiting.clone(), &tell).await;
                // A restart takes a moment; no event is sent if the runtime is back after it.
                tokio::time::sleep(RETRY).await;
            }
            Err(why) => {
                if why != reported {
                    warn!(why, "the container runtime does not answer");
                    reported.clone_from(&why);
                    if tell.send(RuntimeEvent::Lost(why)).await.is_err() {
                        return;
                    }
                }
                tokio::time::sleep(retry).await;
                retry = (retry * 2).min(RETRY_MAX);
            }
        }
    }
}

/// Sends the events of a runtime until it stops answering.
async fn follow(
    runtime: &Runtime,
    mut waiting: watch::Receiver<bool>,
    tell: &mpsc::Sender<RuntimeEvent>,
) {
    let with_events = runtime.containerd.is_some();
    let events = forward(runtime.containerd.as_ref(), tell);
    tokio::pin!(events);
    let mut polls = tokio::time::interval(POLL);
    let mut quick = tokio::time::interval(if with_events {
        POLL_BESIDE_EVENTS
    } else {
        POLL_CONTAINERS
    });
    quick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let somebody_waits = *waiting.borrow_and_update();
        let event = tokio::select! {
            () = &mut events => return,
            _ = quick.tick(), if somebody_waits => RuntimeEvent::Containers,
            changed = waiting.changed() => match changed {
                Ok(()) => continue,
                Err(_) => return,
            },
            _ = polls.tick() => {
                if let Err(error) = runtime.cri.identify().await {
                    debug!(%error, "the container runtime went");
                    return;
                }
                if with_events {
                    continue;
                }
                RuntimeEvent::Images
            }
        };
        if tell.send(event).await.is_err() {
            return;
        }
    }
}

/// Passes on containerd's events until they end, which they do when containerd does. Without
/// containerd it never ends.
async fn forward(containerd: Option<&Containerd>, tell: &mpsc::Sender<RuntimeEvent>) {
    let Some(containerd) = containerd else {
        return std::future::pending().await;
    };
    let mut events = match containerd.subscribe().await {
        Ok(events) => events,
        Err(error) => return warn!(%error, "containerd gives no events"),
    };
    while let Ok(Some(event)) = events.next().await {
        let event = match event {
            Event::Images => RuntimeEvent::Images,
            Event::Containers => RuntimeEvent::Containers,
        };
        if tell.send(event).await.is_err() {
            return;
        }
    }
}
