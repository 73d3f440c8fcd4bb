//! What the daemon does for the node's `host-local` plugin: it takes back addresses of sandboxes that are no more, and puts the
//! plugin that was there before back when the chart is uninstalled.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cni_hostlocal::{admin, install, node};
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{WatchEvent, WatchParams};
use kube::{Api, Client, Error};
use tokio::task::JoinHandle;
use tracing::{info, warn};

use crate::runtime::{Runtime, SocketChoice};
use crate::space;

/// The ConfigMap that is there as long as the chart installs the plugin.
const SIGN: &str = "kruise-host-local";
/// How long the daemon looks for the sign when it ends, and how often.
const PARTING: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(200);
/// The pause before a watch that ended is begun again.
const AGAIN: Duration = Duration::from_secs(5);

/// The node's leases, and when they may be taken back.
#[derive(Debug, Clone)]
pub struct Leases {
    /// Their directory, as this process sees it.
    pub data_dir: PathBuf,
    /// A lease that is younger may be of a sandbox that the runtime is still making.
    pub reclaim_after: Duration,
}

/// Takes back, again and again, what sandboxes have that the runtime does not know. Runtimes that collect garbage themselves
/// leave nothing to do.
pub async fn reclaim(leases: Leases, socket: SocketChoice) {
    let pause = (leases.reclaim_after / 2).max(Duration::from_secs(5));
    loop {
        tokio::time::sleep(pause).await;
        match reclaim_once(&leases, &socket).await {
            Ok(addresses) if addresses.is_empty() => {}
            Ok(addresses) => info!(?addresses, "leases of sandboxes that are no more are taken back"),
            Err(why) => warn!(%why, "leases were not looked at"),
        }
    }
}

async fn reclaim_once(leases: &Leases, socket: &SocketChoice) -> Result<Vec<String>, String> {
    let runtime = Runtime::find(socket).await?;
    let sandboxes = runtime.cri.sandboxes().await.map_err(|error| error.to_string())?;
    let (leases, host_root) = (leases.clone(), socket.host_root.clone());
    let lives = move |netns: &str| {
        // /var/run is a link to /run on the host, and only the latter is mounted here.
        let path = space::under(&host_root, &netns.replacen("/var/run/", "/run/", 1));
        node::is_namespace(&path.to_string_lossy())
    };
    let age = leases.reclaim_after.as_secs();
    let work = move || admin::reclaim(&leases.data_dir, &sandboxes, age, lives);
    let reclaimed = tokio::task::spawn_blocking(work).await.map_err(|error| error.to_string())?;
    let reclaimed = reclaimed.map_err(|error| error.to_string())?;
    Ok(reclaimed.iter().map(ToString::to_string).collect())
}

/// Watches the chart's sign that the plugin is to be on the node, and at the daemon's end puts back the plugin that was there
/// before, if the sign has gone.
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
        Sign { api, taken_away, watching }
    }

    /// To be called when the daemon ends. An upgrade, a deleted pod or a reboot leave the sign, and so the plugin. A helm
    /// that uninstalls takes the sign away a moment after the daemons, and their rights with it: so this looks for a while.
    /// A token that is not valid any more says nothing: a pod that is deleted by force has none either.
    pub async fn restore_if_gone(self, plugins: &Path) {
        let begun = Instant::now();
        let mut gone = false;
        while !gone && begun.elapsed() < PARTING {
            gone = self.taken_away.load(Ordering::Relaxed)
                || match tokio::time::timeout(PARTING, self.api.get_metadata(SIGN)).await {
                    Ok(Err(Error::Api(status))) => matches!(status.code, 403 | 404),
                    _ => false,
                };
            tokio::time::sleep(LOOK).await;
        }
        self.watching.abort();
        if !gone {
            return;
        }
        match install::restore(plugins) {
            Ok(done) => info!("the plugin host-local {done}"),
            Err(error) => warn!(%error, "the plugin that was there before cannot be put back"),
        }
    }
}

/// A watch that has begun goes on without the right to begin it.
async fn watch(api: Api<ConfigMap>, taken_away: Arc<AtomicBool>) {
    let only = WatchParams::default().fields(&format!("metadata.name={SIGN}"));
    loop {
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
        tokio::time::sleep(AGAIN).await;
    }
}
