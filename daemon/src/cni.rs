//! What the daemon does for the node's `host-local` plugin: it takes back addresses of sandboxes that are no more, and puts the
//! plugin that was there before back when the chart is uninstalled.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cni_hostlocal::{admin, install, node};
use k8s_openapi::api::apps::v1::DaemonSet;
use kube::{Api, Client, Error};
use tracing::{info, warn};

use crate::runtime::{Runtime, SocketChoice};
use crate::space;

/// How long the apiserver may take to say whether the DaemonSet is still there.
const ANSWER: Duration = Duration::from_secs(4);

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

/// When the DaemonSet has gone, or installs the plugin no more, puts back the one that was there before. Otherwise this is only
/// the daemon's own end (an upgrade, a reboot), and the plugin stays.
pub async fn restore_if_uninstalled(client: Client, namespace: &str, directory: &Path) {
    let api: Api<DaemonSet> = Api::namespaced(client, namespace);
    let gone = match tokio::time::timeout(ANSWER, api.get("kruise-daemon")).await {
        Ok(Ok(found)) => found.metadata.deletion_timestamp.is_some() || !installs(&found),
        // With the DaemonSet goes the right to ask for it.
        Ok(Err(Error::Api(status))) => matches!(status.code, 401 | 403 | 404),
        Ok(Err(_)) | Err(_) => false,
    };
    if !gone {
        return;
    }
    match install::restore(directory) {
        Ok(done) => info!("the plugin host-local {done}"),
        Err(error) => warn!(%error, "the plugin that was there before cannot be put back"),
    }
}

fn installs(daemons: &DaemonSet) -> bool {
    let pod = daemons.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    pod.and_then(|pod| pod.init_containers.as_ref())
        .is_some_and(|containers| containers.iter().any(|container| container.name == "host-local"))
}
