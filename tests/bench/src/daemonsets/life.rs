//! The life of one DaemonSet with a pod on every node.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_e2e::objects::{self, kind};
use berth_simnode::nodes;
use jiff::{SignedDuration, Timestamp};
use kube::api::DeleteParams;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{Held, Options, Step, Subject, job, restarts};
use crate::phases::{NAMESPACE, PATIENCE, Phase, Program, Stage, begin};

/// The DaemonSet, and the label of its pods.
pub(super) const NAME: &str = "log";
/// The time after which memory of a burst is returned.
pub(super) const REST: Duration = Duration::from_secs(6);
const NODE_IMAGES: &str = "/apis/apps.kruise.io/v1beta1/nodeimages";

/// Measures the steps of its life, and the controller's memory before and after each.
pub(super) async fn measure(
    stage: &mut Stage,
    program: &Program,
    subject: &Subject,
    options: &Options,
) -> Result<(Vec<Held>, Vec<Step>)> {
    warm_up(stage)
        .await
        .context("the controller does not get to work")?;
    let (name, count, joining) = (subject.name, options.nodes, options.joining());
    let mut held = vec![look(program, "without nodes", 0, 0).await?];
    println!("Making {count} simulated nodes …");
    nodes::make(&stage.client, 0..count, &berth_simnode::now()).await?;
    until_node_images(stage, count).await?;
    held.push(look(program, "without pods", count, 0).await?);
    let set = daemon_set(NAME, &json!({}));
    let mut steps = Vec::new();
    let phase = begin(stage, Some(program)).await?;
    objects::create(&stage.client, NAMESPACE, &set).await?;
    until_done(stage, count).await?;
    steps.push(step(
        phase
            .end(stage, Some(program), (name, 1), ("create", count))
            .await?,
    ));
    held.push(look(program, "created", count, count).await?);
    for (what, kind_of_update, image) in [
        ("in place", "InPlaceIfPossible", "log:2"),
        ("new pods", "Standard", "log:3"),
    ] {
        let mut patch = objects::image_patch(&set, image);
        patch["spec"]["updateStrategy"] =
            json!({"rollingUpdate": {"rollingUpdateType": kind_of_update}});
        let phase = begin(stage, Some(program)).await?;
        objects::patch(&stage.client, NAMESPACE, kind::DAEMON_SET, NAME, &patch).await?;
        until_done(stage, count).await?;
        steps.push(step(
            phase
                .end(stage, Some(program), (name, 1), (what, count))
                .await?,
        ));
        held.push(look(program, what, count, count).await?);
    }
    let all = count + joining;
    let phase = begin(stage, Some(program)).await?;
    nodes::make(&stage.client, count..all, &berth_simnode::now()).await?;
    until_done(stage, all).await?;
    steps.push(step(
        phase
            .end(stage, Some(program), (name, 1), ("nodes join", joining))
            .await?,
    ));
    until_node_images(stage, all).await?;
    held.push(look(program, "nodes joined", all, all).await?);
    steps.push(
        job::measure(stage, program, name, all)
            .await
            .context("with a job on every node")?,
    );
    held.push(look(program, "job ended", all, all * 2).await?);
    if subject.restarts && options.requests > 0 {
        steps.extend(restarts::measure(stage, program, name, options.requests.min(all)).await?);
        held.push(look(program, "restarted", all, all * 2).await?);
    }
    Ok((held, steps))
}

/// Waits until the controller works: it writes a DaemonSet's status.
async fn warm_up(stage: &Stage) -> Result<()> {
    let set = daemon_set("first", &json!({}));
    let deadline = Instant::now() + Duration::from_secs(180);
    // Its webhooks may have to start first.
    while let Err(error) = objects::create(&stage.client, NAMESPACE, &set).await {
        ensure!(
            Instant::now() < deadline,
            "the DaemonSet cannot be created: {error:#}"
        );
        sleep(Duration::from_millis(200)).await;
    }
    objects::until(
        &stage.client,
        NAMESPACE,
        kind::DAEMON_SET,
        "first",
        PATIENCE,
        |set| is_done(set, 0),
    )
    .await?;
    objects::delete(
        &stage.client,
        NAMESPACE,
        kind::DAEMON_SET,
        "first",
        &DeleteParams::default(),
    )
    .await?;
    objects::until_gone(
        &stage.client,
        NAMESPACE,
        kind::DAEMON_SET,
        "first",
        PATIENCE,
    )
    .await
}

/// A DaemonSet with these additional fields in its pods' spec.
pub(super) fn daemon_set(name: &str, fields: &Value) -> Value {
    let mut template = objects::clone_set(name, 1, "log:1", &json!({}))["spec"]["template"].clone();
    for (key, value) in fields.as_object().into_iter().flatten() {
        template["spec"][key] = value.clone();
    }
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "DaemonSet", "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {objects::APP: name}},
            "updateStrategy": {"rollingUpdate": {"rollingUpdateType": "InPlaceIfPossible", "maxUnavailable": "10%"}},
            "template": template,
        },
    })
}

async fn look(program: &Program, moment: &'static str, nodes: usize, pods: usize) -> Result<Held> {
    sleep(REST).await;
    let used = program.used()?;
    println!(
        "  {moment}: {} KiB, of which {} are no file's",
        used.resident, used.anonymous
    );
    Ok(Held {
        moment,
        nodes,
        pods,
        resident: used.resident,
        anonymous: used.anonymous,
    })
}

async fn until_done(stage: &Stage, nodes: usize) -> Result<()> {
    let is_so = |set: &Value| is_done(set, nodes);
    objects::until(
        &stage.client,
        NAMESPACE,
        kind::DAEMON_SET,
        NAME,
        PATIENCE,
        is_so,
    )
    .await
    .map(drop)
}

/// Does the status say that so many nodes have an available pod of the present template?
pub(super) fn is_done(set: &Value, nodes: usize) -> bool {
    let status = &set["status"];
    status["observedGeneration"] == set["metadata"]["generation"]
        && [
            "desiredNumberScheduled",
            "updatedNumberScheduled",
            "numberAvailable",
        ]
        .iter()
        .all(|count| status[count].as_u64().unwrap_or(0) == nodes as u64)
}

async fn until_node_images(stage: &Stage, nodes: usize) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while stage.count(NODE_IMAGES).await? < nodes {
        ensure!(
            Instant::now() < deadline,
            "not all of {nodes} nodes get a NodeImage"
        );
        sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}

/// A phase, with how often its statuses were written.
pub(super) fn step(phase: Phase) -> Step {
    let mut told = phase.requests.told.clone();
    told.sort_unstable();
    Step {
        told: told.len(),
        told_in_a_second: most_in_a_second(&told),
        phase,
    }
}

/// The most of these sorted times that lie within a second.
fn most_in_a_second(times: &[Timestamp]) -> usize {
    let within =
        |from: Timestamp, time: Timestamp| time.duration_since(from) < SignedDuration::from_secs(1);
    let from = |at: usize| {
        times[at..]
            .iter()
            .take_while(|time| within(times[at], **time))
            .count()
    };
    (0..times.len()).map(from).max().unwrap_or(0)
}

#[cfg(test)]
mod tests;
