//! The limit for nodes that join: as many join while no controller decides, and a bare loop creates
//! the pod of each as soon as the node exists.

use std::ops::Range;
use std::time::Duration;

use anyhow::{Result, ensure};
use berth_e2e::objects::{self, APP, kind};
use berth_simnode::nodes;
use futures::{StreamExt, TryStreamExt};
use http::Request;
use kube::Client;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::phases::{NAMESPACE, PATIENCE, Stage};

const NAME: &str = "floor";
/// Nodes at once, as in the measurement with a controller.
const PARALLEL: usize = 16;
const GATE: &str = "KruisePodReady";

/// Seconds until all of these nodes have a pod that is Ready. Deletes all of them afterwards.
pub(super) async fn measure(stage: &Stage, numbers: Range<usize>) -> Result<f64> {
    let (client, count) = (&stage.client, numbers.len());
    let started = Instant::now();
    futures::stream::iter(numbers)
        .map(|number| join(client, number))
        .buffer_unordered(PARALLEL)
        .try_collect::<()>()
        .await?;
    let is_ready = |pod: &Value| {
        let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    };
    loop {
        let pods = objects::list(client, NAMESPACE, kind::POD, &format!("{APP}={NAME}")).await?;
        if pods.iter().filter(|pod| is_ready(pod)).count() == count {
            break;
        }
        ensure!(
            started.elapsed() < PATIENCE,
            "not all of {count} pods get ready"
        );
        sleep(Duration::from_millis(100)).await;
    }
    let seconds = started.elapsed().as_secs_f64();
    println!("  {NAME:<6} nodes join   {seconds:>7.2} s");
    let pods = format!("/api/v1/namespaces/{NAMESPACE}/pods");
    delete_all(
        client,
        &format!("{pods}?labelSelector={APP}={NAME}&gracePeriodSeconds=0"),
    )
    .await?;
    delete_all(client, "/api/v1/nodes").await?;
    while stage.count(&pods).await? > 0 || stage.count("/api/v1/nodes").await? > 0 {
        ensure!(
            started.elapsed() < PATIENCE,
            "what was made for the bare loop does not go"
        );
        sleep(Duration::from_millis(100)).await;
    }
    Ok(seconds)
}

/// A node, and a pod of its own with a gate: two writes for the pod, as for a DaemonSet's pod.
async fn join(client: &Client, number: usize) -> Result<()> {
    let now = berth_simnode::now();
    nodes::make(client, number..number + 1, &now).await?;
    let mut spec =
        objects::clone_set(NAME, 1, "floor:1", &json!({}))["spec"]["template"]["spec"].clone();
    spec["nodeName"] = json!(nodes::name(number));
    spec["readinessGates"] = json!([{"conditionType": GATE}]);
    let name = format!("{NAME}-{number}");
    let metadata = json!({"name": name, "labels": {APP: NAME}});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
    objects::create(client, NAMESPACE, &pod).await?;
    let condition = json!({"type": GATE, "status": "True", "lastTransitionTime": now});
    let patch = json!({"status": {"conditions": [condition]}})
        .to_string()
        .into_bytes();
    let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{name}/status");
    let request =
        Request::patch(path).header("content-type", "application/strategic-merge-patch+json");
    client.request::<Value>(request.body(patch)?).await?;
    Ok(())
}

async fn delete_all(client: &Client, path: &str) -> Result<()> {
    client
        .request::<Value>(Request::delete(path).body(Vec::new())?)
        .await?;
    Ok(())
}
