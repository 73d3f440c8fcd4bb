//! Containers that are restarted on request, one of each pod.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_e2e::objects::{self, APP, CONTAINER, kind};
use futures::{StreamExt, TryStreamExt};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::Step;
use super::life::{NAME, step};
use crate::phases::{NAMESPACE, PATIENCE, Program, Stage, begin};

/// Requests that are made at once.
const PARALLEL: usize = 16;

/// Creates so many requests, then as many requests that take the pod out of service for a second
/// before.
pub(super) async fn measure(
    stage: &mut Stage,
    program: &Program,
    subject: &str,
    requests: usize,
) -> Result<Vec<Step>> {
    let pods = objects::list(
        &stage.client,
        NAMESPACE,
        kind::POD,
        &format!("{APP}={NAME}"),
    )
    .await?;
    let pods: Vec<_> = pods
        .iter()
        .filter_map(|pod| pod["metadata"]["name"].as_str())
        .take(requests)
        .collect();
    ensure!(
        pods.len() == requests,
        "there are {} pods for {requests} requests",
        pods.len()
    );
    let mut steps = Vec::new();
    for (name, strategy) in [
        ("restart", json!({})),
        ("unready", json!({"unreadyGracePeriodSeconds": 1})),
    ] {
        let phase = begin(stage, Some(program)).await?;
        let client = &stage.client;
        let ask = |pod: &&str| {
            let request = request(name, pod, &strategy);
            async move { objects::create(client, NAMESPACE, &request).await }
        };
        futures::stream::iter(&pods)
            .map(ask)
            .buffer_unordered(PARALLEL)
            .try_collect::<Vec<_>>()
            .await?;
        until_over(stage, name, requests).await?;
        steps.push(step(
            phase
                .end(stage, Some(program), (subject, 1), (name, requests))
                .await?,
        ));
    }
    Ok(steps)
}

fn request(name: &str, pod: &str, strategy: &Value) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "ContainerRecreateRequest",
        "metadata": {"name": format!("{name}-{pod}"), "labels": {"bench": name}},
        "spec": {"podName": pod, "containers": [{"name": CONTAINER}], "strategy": strategy},
    })
}

/// Waits until all are completed; each must have restarted its container.
async fn until_over(stage: &Stage, name: &str, requests: usize) -> Result<()> {
    let (deadline, labels) = (Instant::now() + PATIENCE, format!("bench={name}"));
    loop {
        let all = objects::list(
            &stage.client,
            NAMESPACE,
            kind::CONTAINER_RECREATE_REQUEST,
            &labels,
        )
        .await?;
        let (over, others): (Vec<_>, Vec<_>) = all
            .iter()
            .partition(|request| request["status"]["phase"] == "Completed");
        if over.len() == requests {
            let state =
                |request: &Value| request["status"]["containerRecreateStates"][0]["phase"].clone();
            let failed = over.iter().find(|request| state(request) != "Succeeded");
            return failed.map_or(Ok(()), |failed| {
                Err(anyhow::anyhow!("a request did not succeed: {failed}"))
            });
        }
        let one = || {
            others
                .first()
                .map(ToString::to_string)
                .context("requests are gone")
        };
        ensure!(
            Instant::now() < deadline,
            "{} requests never end, such as {}",
            others.len(),
            one()?
        );
        sleep(Duration::from_millis(200)).await;
    }
}
