//! The needs of the daemon on a node with as many pods as a kubelet takes.

use std::time::Duration;

use anyhow::{Context, Result};
use berth_e2e::objects::{self, APP, CONTAINER, kind};
use berth_e2e::site::Site;
use kube::Client;
use serde_json::{Value, json};

use super::memory::{self, Resident};

const NAMESPACE: &str = "berth-bench-full";
const NAME: &str = "full";
/// Long enough for a hundred pods to start and restart on one kubelet.
const PATIENCE: Duration = Duration::from_secs(600);

/// Fills a node with a CloneSet of so many pods, changes their image in place, all at once, and has
/// all their containers restarted.
pub(crate) async fn measure(site: &Site, pods: usize) -> Result<Vec<Resident>> {
    let client = site.client();
    objects::make_namespace(client, NAMESPACE).await?;
    let nodes = objects::list(client, "", "v1/Node", "").await?;
    let node = nodes
        .first()
        .and_then(|node| node["metadata"]["name"].as_str())
        .context("the cluster has no node")?;
    let images = ["hello:full-1", "hello:full-2"];
    for image in images {
        site.push(&berth_cluster::Image::hello(image)?, &[image])?;
    }
    let rolling_update = json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": "100%"});
    let mut set = objects::clone_set(NAME, pods, &site.image(images[0]), &rolling_update);
    let spec = &mut set["spec"]["template"]["spec"];
    spec["nodeSelector"] = json!({"kubernetes.io/hostname": node});
    // A hundred probes a second would be most of the node's work.
    if let Some(container) = spec["containers"][0].as_object_mut() {
        container.remove("readinessProbe");
    }
    objects::create(client, NAMESPACE, &set).await?;
    objects::until(
        client,
        NAMESPACE,
        kind::CLONE_SET,
        NAME,
        PATIENCE,
        objects::is_done,
    )
    .await?;
    let filled = memory::resident(&format!("{pods} pods on a node"))?;
    let patch = objects::image_patch(&set, &site.image(images[1]));
    objects::patch(client, NAMESPACE, kind::CLONE_SET, NAME, &patch).await?;
    objects::until(
        client,
        NAMESPACE,
        kind::CLONE_SET,
        NAME,
        PATIENCE,
        objects::is_done,
    )
    .await?;
    let updated = memory::resident("all updated in place")?;
    restart_all(client)
        .await
        .context("with a restart of each container")?;
    Ok([filled, updated, memory::resident("all restarted")?].concat())
}

/// Makes the daemon stop every container of the node, through requests.
async fn restart_all(client: &Client) -> Result<()> {
    let pods = objects::list(client, NAMESPACE, kind::POD, &format!("{APP}={NAME}")).await?;
    for name in pods
        .iter()
        .filter_map(|pod| pod["metadata"]["name"].as_str())
    {
        let request = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "ContainerRecreateRequest", "metadata": {"name": name},
            "spec": {"podName": name, "containers": [{"name": CONTAINER}]},
        });
        objects::create(client, NAMESPACE, &request).await?;
    }
    let is_over = |request: &Value| request["status"]["phase"] == "Completed";
    for name in pods
        .iter()
        .filter_map(|pod| pod["metadata"]["name"].as_str())
    {
        objects::until(
            client,
            NAMESPACE,
            kind::CONTAINER_RECREATE_REQUEST,
            name,
            PATIENCE,
            is_over,
        )
        .await?;
    }
    Ok(())
}
