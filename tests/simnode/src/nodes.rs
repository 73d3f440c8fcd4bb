//! The simulated nodes.

use std::ops::Range;
use std::time::Duration;

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt};
use http::{Method, Request};
use kube::Client;
use serde_json::{Value, json};

/// The prefix of the names of simulated nodes, and of no others.
const PREFIX: &str = "sim-";
/// Requests at once.
const PARALLEL: usize = 16;

/// The name of a node, counted from 0.
pub fn name(number: usize) -> String {
    format!("{PREFIX}{number}")
}

/// True for the name of a simulated node.
pub fn is_ours(name: &str) -> bool {
    number(name).is_some()
}

/// The number of the node with this name.
pub fn number(name: &str) -> Option<usize> {
    name.strip_prefix(PREFIX)?.parse().ok()
}

/// A node as its kubelet would register it.
pub fn node(name: &str, now: &str) -> Value {
    let capacity =
        json!({"cpu": "64", "memory": "256Gi", "pods": "1000", "ephemeral-storage": "1Ti"});
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "simnode": "true"}},
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": [{
                "type": "Ready",
                "status": "True",
                "reason": "KubeletReady",
                "lastHeartbeatTime": now,
                "lastTransitionTime": now,
            }],
            "nodeInfo": {
                "architecture": "amd64", "bootID": "", "containerRuntimeVersion": "simnode://1", "kernelVersion": "",
                "kubeProxyVersion": "", "kubeletVersion": "v1.34.0", "machineID": name, "operatingSystem": "linux",
                "osImage": "", "systemUUID": name,
            },
        },
    })
}

/// Creates the nodes of these numbers that do not exist yet.
///
/// # Errors
/// The server's answer.
pub async fn make(client: &Client, numbers: Range<usize>, now: &str) -> Result<()> {
    let make = |number| async move {
        let name = name(number);
        join(client, &name, now)
            .await
            .with_context(|| format!("cannot make node {name}"))
    };
    futures::stream::iter(numbers)
        .map(make)
        .buffer_unordered(PARALLEL)
        .try_collect()
        .await
}

/// Creates a node, if it does not exist yet.
async fn join(client: &Client, name: &str, now: &str) -> Result<()> {
    match send(
        client,
        Method::POST,
        "/api/v1/nodes",
        "application/json",
        &node(name, now),
    )
    .await
    {
        Err(kube::Error::Api(status)) if status.code == 409 => return Ok(()),
        answer => answer?,
    }
    // The apiserver taints new nodes, and kube-controller-manager, which may not run, removes the
    // taint from nodes that are Ready.
    let untainted = json!({"spec": {"taints": null}});
    send(
        client,
        Method::PATCH,
        &format!("/api/v1/nodes/{name}"),
        "application/merge-patch+json",
        &untainted,
    )
    .await?;
    Ok(())
}

async fn send(
    client: &Client,
    method: Method,
    path: &str,
    content: &str,
    body: &Value,
) -> kube::Result<()> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content);
    let request = request
        .body(body.to_string().into_bytes())
        .map_err(kube::Error::HttpError)?;
    client.request::<Value>(request).await.map(drop)
}

/// Renews the lease of every node once in each interval, one after the other, as heartbeats. Does
/// not return.
pub async fn beat(client: &Client, count: usize, interval: Duration) {
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    in_turn(client, count, interval, |name| {
        let now = jiff::Timestamp::now();
        let spec = json!({"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": format!("{now:.6}")});
        let metadata = json!({"name": name, "namespace": "kube-node-lease"});
        let lease =
            json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec});
        (format!("{leases}/{name}?fieldManager=simnode&force=true"), "application/apply-patch+yaml", lease)
    })
    .await;
}

/// Reports the status of every node once in each interval, one after the other, as kubelets do if
/// only the time changes. Does not return.
pub async fn report(client: &Client, count: usize, interval: Duration) {
    in_turn(client, count, interval, |name| {
        let ready = json!({"type": "Ready", "status": "True", "lastHeartbeatTime": crate::now()});
        let path = format!("/api/v1/nodes/{name}/status");
        (
            path,
            "application/strategic-merge-patch+json",
            json!({"status": {"conditions": [ready]}}),
        )
    })
    .await;
}

/// Sends a patch for every node once in each interval: with its path, format and body.
async fn in_turn(
    client: &Client,
    count: usize,
    interval: Duration,
    patch: impl Fn(&str) -> (String, &'static str, Value),
) {
    let mut tick = tokio::time::interval(interval.div_f64(count.max(1) as f64));
    for number in (0..count.max(1)).cycle() {
        tick.tick().await;
        let name = name(number);
        let (path, content, body) = patch(&name);
        // The next beat makes up for a missed one.
        if let Err(error) = send(client, Method::PATCH, &path, content, &body).await {
            tracing::warn!(node = name, %error, "missed a heartbeat");
        }
    }
}

#[cfg(test)]
mod tests;
