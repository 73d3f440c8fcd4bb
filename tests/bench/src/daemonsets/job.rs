//! A job with one pod on every node.

use std::time::Duration;

use anyhow::{Result, ensure};
use berth_e2e::objects::{self, APP, kind};
use futures::{StreamExt, TryStreamExt};
use http::Request;
use kube::Client;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::Step;
use super::life::step;
use crate::phases::{NAMESPACE, PATIENCE, Program, Stage, begin};

const NAME: &str = "once";
/// Pods that end at once.
const PARALLEL: usize = 16;

/// Runs a job on so many nodes to its end.
pub(super) async fn measure(
    stage: &mut Stage,
    program: &Program,
    subject: &str,
    nodes: usize,
) -> Result<Step> {
    let phase = begin(stage, Some(program)).await?;
    objects::create(&stage.client, NAMESPACE, &job()).await?;
    let counts = |name: &'static str| {
        move |job: &Value| job["status"][name].as_u64().unwrap_or(0) == nodes as u64
    };
    objects::until(
        &stage.client,
        NAMESPACE,
        kind::BROADCAST_JOB,
        NAME,
        PATIENCE,
        counts("active"),
    )
    .await?;
    end_pods(&stage.client).await?;
    objects::until(
        &stage.client,
        NAMESPACE,
        kind::BROADCAST_JOB,
        NAME,
        PATIENCE,
        counts("succeeded"),
    )
    .await?;
    Ok(step(
        phase
            .end(stage, Some(program), (subject, 1), ("job", nodes))
            .await?,
    ))
}

fn job() -> Value {
    let mut template =
        objects::clone_set(NAME, 1, "once:1", &json!({}))["spec"]["template"].clone();
    template["spec"]["restartPolicy"] = json!("Never");
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "BroadcastJob", "metadata": {"name": NAME},
        "spec": {"template": template, "completionPolicy": {"type": "Always"}},
    })
}

/// Ends its pods, as kubelets do after their containers have ended: simulated containers run for
/// ever.
async fn end_pods(client: &Client) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let pods = objects::list(client, NAMESPACE, kind::POD, &format!("{APP}={NAME}")).await?;
        let (ended, others): (Vec<_>, Vec<_>) = pods
            .into_iter()
            .partition(|pod| pod["status"]["phase"] == "Succeeded");
        if others.is_empty() {
            return Ok(());
        }
        ensure!(
            Instant::now() < deadline,
            "{} of {} pods of the job never run",
            others.len(),
            ended.len() + others.len()
        );
        // The kubelet of a running pod has nothing more to report, so it does not revert this.
        let run = others
            .iter()
            .filter(|pod| pod["status"]["phase"] == "Running");
        let names = run.filter_map(|pod| pod["metadata"]["name"].as_str());
        futures::stream::iter(names)
            .map(|pod| end(client, pod))
            .buffer_unordered(PARALLEL)
            .try_collect::<()>()
            .await?;
        sleep(Duration::from_millis(200)).await;
    }
}

async fn end(client: &Client, pod: &str) -> Result<()> {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{pod}/status");
    let request = Request::patch(path).header("content-type", "application/merge-patch+json");
    let body = json!({"status": {"phase": "Succeeded"}})
        .to_string()
        .into_bytes();
    client.request::<Value>(request.body(body)?).await?;
    Ok(())
}
