//! A real apiserver, for tests of code that calls one. Needs root, as `berth-cluster` does.

use anyhow::Result;
use berth_cluster::{Cluster, address};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;

/// A client of the cluster, for callers in its network.
pub(crate) async fn connect(cluster: &Cluster) -> Result<Client> {
    let mut kubeconfig = Kubeconfig::read_from(cluster.kubeconfig())?;
    for entry in kubeconfig
        .clusters
        .iter_mut()
        .filter_map(|entry| entry.cluster.as_mut())
    {
        entry.server = Some(format!(
            "https://{}:{}",
            address::CONTROL_PLANE,
            address::APISERVER_PORT
        ));
    }
    let config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

/// Sends a request; a PATCH is a merge patch. A null body is left out.
pub(crate) async fn request(
    client: &Client,
    method: &str,
    path: &str,
    body: &Value,
) -> kube::Result<Value> {
    let content = if method == "PATCH" {
        "application/merge-patch+json"
    } else {
        "application/json"
    };
    let bytes = if body.is_null() {
        Vec::new()
    } else {
        body.to_string().into_bytes()
    };
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content);
    client
        .request(request.body(bytes).map_err(kube::Error::HttpError)?)
        .await
}
