//! The daemon's part in the node's `host-local` plugin: it releases the addresses of sandboxes that
//! no longer exist, and restores the plugin that was there before when the chart is uninstalled.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cni_hostlocal::admin::{self, install};
use cni_hostlocal::node;
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{WatchEvent, WatchParams};
use kube::{Api, Client, Error};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::runtime::space;
use crate::runtime::{Runtime, SocketChoice};

/// The ConfigMap that exists as long as the chart installs the plugin.
const SIGN: &str = "kruise-host-local";
/// How long the daemon reads the sign when it ends, and how often.
const PARTING: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(200);
/// The same when the daemon has no right to read the sign: then only the watch can see its
/// deletion. This must be shorter than the ten seconds between the kubelet's signal to end and its
/// kill.
const PARTING_WITHOUT_RIGHT: Duration = Duration::from_secs(7);
/// The pause before a watch that ended is begun again.
const AGAIN: Duration = Duration::from_secs(5);

/// The node's leases, and the age at which they may be released.
#[derive(Debug, Clone)]
pub struct Leases {
    /// Their directory, as this process sees it.
    pub data_dir: PathBuf,
    /// A younger lease may belong to a sandbox that the runtime is still making.
    pub reclaim_after: Duration,
}

/// Releases, periodically, the addresses of sandboxes that the runtime does not know. If the
/// runtime collects this garbage itself, nothing is left to do.
pub async fn reclaim(leases: Leases, socket: SocketChoice) {
    let pause = (leases.reclaim_after / 2).max(Duration::from_secs(5));
    loop {
        tokio::time::sleep(pause).await;
        match reclaim_once(&leases, &socket).await {
            Ok(addresses) if addresses.is_empty() => {}
            Ok(addresses) => info!(
                ?addresses,
                "leases of sandboxes that are no more are taken back"
            ),
            Err(why) => warn!(%why, "leases were not looked at"),
        }
    }
}

async fn reclaim_once(leases: &Leases, socket: &SocketChoice) -> Result<Vec<String>, String> {
    let runtime = Runtime::find(socket).await?;
    let sandboxes = runtime
        .cri
        .sandboxes()
        .await
        .map_err(|error| error.to_string())?;
    let (leases, host_root) = (leases.clone(), socket.host_root.clone());
    let lives = move |netns: &str| {
        // /var/run is a link to /run on the host, and only the latter is mounted here.
        let path = space::under(&host_root, &netns.replacen("/var/run/", "/run/", 1));
        node::is_namespace(&path.to_string_lossy())
    };
    let age = leases.reclaim_after.as_secs();
    let work = move || admin::reclaim(&leases.data_dir, &sandboxes, age, lives);
    let reclaimed = tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| error.to_string())?;
    let reclaimed = reclaimed.map_err(|error| error.to_string())?;
    Ok(reclaimed.iter().map(ToString::to_string).collect())
}

/// Watches the chart's sign that the plugin must be on the node. At the daemon's end it restores
/// the previous plugin if the sign has gone.
pub struct Sign {
    api: Api<ConfigMap>,
    taken_away: Arc<AtomicBool>,
    watching: JoinHandle<()>,
}

impl Sign {
    /// Begins to watch.
    pub fn watch(client: Client, namespace: &str) -> Sign {
        let api: Api<ConfigMap> = Api::namespaced(client, namespace);
        let taken_away = Arc::new(AtomicBool::new(false));
        let watching = tokio::spawn(watch(api.clone(), Arc::clone(&taken_away)));
        Sign {
            api,
            taken_away,
            watching,
        }
    }

    /// Call this when the daemon ends. An upgrade, a deleted pod or a reboot leave the sign, and so
    /// the plugin. An uninstallation by helm deletes the sign a moment after the daemons, so this
    /// reads it for a while.
    pub async fn restore_if_gone(self, plugins: &Path) {
        let gone = self.is_gone().await;
        self.watching.abort();
        if !gone {
            return;
        }
        match install::restore(plugins) {
            Ok(done) => info!("the plugin host-local {done}"),
            Err(error) => warn!(%error, "the plugin that was there before cannot be put back"),
        }
    }

    /// Is the sign known to have been deleted? Either the watch saw the deletion, or the apiserver
    /// has no such object. A 403 is no proof: an uninstallation deletes the daemon's right before
    /// the sign, but a right can also get lost while the chart stays, and then the node's plugin
    /// must not change. A running watch goes on without the right to begin one, so that it can tell
    /// the two cases apart. An invalid token is no proof either: the token of a pod that was
    /// deleted by force is invalid.
    async fn is_gone(&self) -> bool {
        let begun = Instant::now();
        let mut patience = PARTING;
        while begun.elapsed() < patience {
            // No read lasts beyond the common deadline, because the kubelet kills a daemon that
            // takes longer.
            match tokio::time::timeout_at(begun + patience, self.api.get_metadata(SIGN)).await {
                // This is newer than what the watch saw: the chart may be installed again already,
                // and the next daemon may run.
                Ok(Ok(_)) => self.taken_away.store(false, Ordering::Relaxed),
                Ok(Err(Error::Api(status))) if status.code == 404 => return true,
                Ok(Err(Error::Api(status))) if status.code == 403 => {
                    patience = PARTING_WITHOUT_RIGHT
                }
                _ => {}
            }
            if self.taken_away.load(Ordering::Relaxed) {
                return true;
            }
            tokio::time::sleep(LOOK).await;
        }
        let gone = self.taken_away.load(Ordering::Relaxed);
        if !gone && patience == PARTING_WITHOUT_RIGHT {
            warn!(
                "the ConfigMap {SIGN} may not be read, and no deletion of it was seen: the plugin host-local stays"
            );
        }
        gone
    }
}

/// Watches the sign. A running watch goes on without the right to begin one. The apiserver ends it
/// every few minutes; the next one begins at once, so that it hardly ever misses a deletion.
async fn watch(api: Api<ConfigMap>, taken_away: Arc<AtomicBool>) {
    let only = WatchParams::default().fields(&format!("metadata.name={SIGN}"));
    loop {
        let begun = Instant::now();
        if let Ok(events) = api.watch_metadata(&only, "0").await {
            let mut events = std::pin::pin!(events);
            while let Some(Ok(event)) = events.next().await {
                match event {
                    WatchEvent::Deleted(_) => taken_away.store(true, Ordering::Relaxed),
                    WatchEvent::Added(_) => taken_away.store(false, Ordering::Relaxed),
                    _ => {}
                }
            }
        }
        if begun.elapsed() < AGAIN {
            tokio::time::sleep(AGAIN).await;
        }
    }
}

#[cfg(test)]
mod tests;
