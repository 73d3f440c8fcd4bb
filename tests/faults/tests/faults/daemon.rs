//! The real daemon on a node, outside a pod. The controller asks it which images run if a pod's
//! status cannot show that: after a rollback, for example.

use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result};
use berth_cluster::programs::workspace_binary;
use berth_cluster::{Cluster, Place, address};
use kube::config::Kubeconfig;
use tokio::process::{Child, Command};

/// Starts the daemon on node 1. It ends when this value is dropped.
pub(crate) fn start(cluster: &Cluster, directory: &Path) -> Result<Child> {
    let mut kubeconfig = Kubeconfig::read_from(cluster.kubeconfig())?;
    for named in &mut kubeconfig.clusters {
        let server = format!(
            "https://{}:{}",
            address::CONTROL_PLANE,
            address::APISERVER_PORT
        );
        named
            .cluster
            .as_mut()
            .context("the kubeconfig names no cluster")?
            .server = Some(server);
    }
    let path = directory.join("kubeconfig-daemon.json");
    fs::write(&path, serde_json::to_vec(&kubeconfig)?)?;
    let log = File::create(directory.join("daemon.log"))?;
    let place = Place::Node(1);
    let binary = workspace_binary("berth-daemon", false)?;
    let mut command = Command::from(cluster.command(place, binary)?);
    command
        .arg(format!("--node-name={place}"))
        .args(["--http-address=127.0.0.1:0", "--log-format=text"]);
    command
        .env("KUBECONFIG", path)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log);
    command
        .kill_on_drop(true)
        .spawn()
        .context("cannot start the daemon")
}
