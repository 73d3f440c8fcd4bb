//! The demo's last part: a pod on each node that is updated in place, a container that is restarted
//! in its pod, and a job that runs once on each node.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::report::aligned;
use crate::objects::{self, APP, CONTAINER, kind};
use crate::site::Site;

const PATIENCE: Duration = Duration::from_secs(180);
const DAEMON: &str = "log";
const JOB: &str = "once";
const REQUEST: &str = "restart";

/// The identity of a pod, for comparisons.
#[derive(Debug, Clone, PartialEq)]
struct Pod {
    name: String,
    uid: String,
    ip: String,
    restarts: i64,
}

/// Shows all three.
///
/// # Errors
/// A pod is another one afterwards, was not restarted, or a node's job did not run once.
pub(super) async fn show(site: &Site, namespace: &str, images: &[String]) -> Result<()> {
    println!("\nA DaemonSet, whose pods are updated in place, node by node:");
    let mut template =
        objects::clone_set(DAEMON, 1, &images[0], &json!({}))["spec"]["template"].take();
    template["spec"]["terminationGracePeriodSeconds"] = 1.into();
    let set = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "DaemonSet", "metadata": {"name": DAEMON},
        "spec": {
            "selector": {"matchLabels": {APP: DAEMON}}, "template": template,
            "updateStrategy": {"rollingUpdate": {"rollingUpdateType": "InPlaceIfPossible"}},
        },
    });
    objects::create(site.client(), namespace, &set).await?;
    let set = done(site, namespace).await?;
    let first = pods(site, namespace).await?;
    objects::patch(
        site.client(),
        namespace,
        kind::DAEMON_SET,
        DAEMON,
        &objects::image_patch(&set, &images[1]),
    )
    .await?;
    done(site, namespace).await?;
    let second = pods(site, namespace).await?;
    let mut rows = vec![["NODE", "POD", "WHAT", "UID", "IP", "RESTARTS"].map(str::to_owned)];
    rows.extend(compared("update in place", &first, &second)?);
    let one = second.values().next().context("no node has a pod")?;
    let request = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "ContainerRecreateRequest", "metadata": {"name": REQUEST},
        "spec": {"podName": one.name, "containers": [{"name": CONTAINER}]},
    });
    objects::create(site.client(), namespace, &request).await?;
    let is_over = |request: &Value| request["status"]["phase"] == "Completed";
    objects::until(
        site.client(),
        namespace,
        kind::CONTAINER_RECREATE_REQUEST,
        REQUEST,
        PATIENCE,
        is_over,
    )
    .await?;
    let third = pods(site, namespace).await?;
    let of_one = |all: &BTreeMap<String, Pod>| {
        all.iter()
            .filter(|(_, pod)| pod.name == one.name)
            .map(|(node, pod)| (node.clone(), pod.clone()))
            .collect()
    };
    rows.extend(compared(
        "ContainerRecreateRequest",
        &of_one(&second),
        &of_one(&third),
    )?);
    println!("{}", aligned(&rows));
    run_once(site, namespace, &images[0]).await
}

async fn done(site: &Site, namespace: &str) -> Result<Value> {
    let is_done = |set: &Value| {
        let status = &set["status"];
        let desired = status["desiredNumberScheduled"].as_i64().unwrap_or(0);
        status["observedGeneration"] == set["metadata"]["generation"]
            && desired > 0
            && status["numberAvailable"] == desired
            && status["updatedNumberScheduled"] == desired
    };
    objects::until(
        site.client(),
        namespace,
        kind::DAEMON_SET,
        DAEMON,
        PATIENCE,
        is_done,
    )
    .await
}

/// The DaemonSet's pods by node.
async fn pods(site: &Site, namespace: &str) -> Result<BTreeMap<String, Pod>> {
    let all = objects::list(
        site.client(),
        namespace,
        kind::POD,
        &format!("{APP}={DAEMON}"),
    )
    .await?;
    let pod = |pod: &Value| {
        let text = |path: &str| {
            pod.pointer(path)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let restarts = pod
            .pointer("/status/containerStatuses/0/restartCount")
            .and_then(Value::as_i64)
            .unwrap_or(0);
        let seen = Pod {
            name: text("/metadata/name"),
            uid: text("/metadata/uid"),
            ip: text("/status/podIP"),
            restarts,
        };
        (text("/spec/nodeName"), seen)
    };
    Ok(all.iter().map(pod).collect())
}

/// One row for each node: the same pod, restarted once.
fn compared(
    what: &str,
    before: &BTreeMap<String, Pod>,
    after: &BTreeMap<String, Pod>,
) -> Result<Vec<[String; 6]>> {
    let row = |(node, old): (&String, &Pod)| {
        let new = after
            .get(node)
            .with_context(|| format!("node {node} has no pod any more"))?;
        let is_same = new.uid == old.uid && new.ip == old.ip && new.restarts == old.restarts + 1;
        ensure!(is_same, "the pod of node {node} was {old:?} and is {new:?}");
        let uid = new.uid.chars().take(8).collect::<String>();
        Ok([
            node.clone(),
            new.name.clone(),
            what.to_owned(),
            format!("{uid}, same"),
            format!("{}, same", new.ip),
            format!("{} -> {}", old.restarts, new.restarts),
        ])
    };
    before.iter().map(row).collect()
}

/// A job that each node runs once.
async fn run_once(site: &Site, namespace: &str, image: &str) -> Result<()> {
    println!("A BroadcastJob, which runs once on each node:");
    let container = json!({"name": "once", "image": image, "command": ["/hello", "once"]});
    let job = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "BroadcastJob", "metadata": {"name": JOB},
        "spec": {
            "completionPolicy": {"type": "Always"},
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    });
    objects::create(site.client(), namespace, &job).await?;
    let is_over = |job: &Value| !job["status"]["completionTime"].is_null();
    let job = objects::until(
        site.client(),
        namespace,
        kind::BROADCAST_JOB,
        JOB,
        PATIENCE,
        is_over,
    )
    .await?;
    let (desired, succeeded) = (&job["status"]["desired"], &job["status"]["succeeded"]);
    ensure!(
        desired == succeeded,
        "the job did not succeed on every node: {}",
        job["status"]
    );
    println!(
        "{}",
        site.kubectl(&["get", "broadcastjob", "-n", namespace, JOB])?
            .trim_end()
    );
    Ok(())
}

#[cfg(test)]
mod tests;
