//! A program that a node stops containers with is killed while they stop: each container is stopped
//! exactly once all the same, and its pod stays.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_api::v1beta1::NodeImage;
use berth_api::v1beta1::nodeimage::StopContainer;
use berth_cluster::{Component, Place};
use berth_e2e::objects::{self, CONTAINER, kind};
use serde_json::{Value, json};

use crate::faults::{kill, signal};
use crate::node_jobs::request;
use crate::pulls;
use crate::world::{Case, ensure_in_place};

/// The node of all pods here.
const NODE: u8 = 2;
/// A pod whose hook takes some time, and one whose container does not end by itself.
const NAMES: [&str; 2] = ["hook", "deaf"];
/// How long a stop takes, in seconds: enough time to kill a program meanwhile.
const LONG: i64 = 15;
/// After this time the daemon is in the middle of a stop.
const BEGUN: Duration = Duration::from_secs(3);

pub(crate) async fn each_container_is_stopped_once(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    for name in NAMES {
        case.create(&set(name, &image)).await?;
    }
    for name in NAMES {
        case.done(name).await?;
    }
    restarted(case, "daemon", async || kill(case, "daemon").await).await?;
    restarted(case, "containerd", async || {
        let cluster = case.cluster()?;
        case.blocking(move |_| {
            cluster.kill(Component::Containerd(NODE))?;
            cluster.start(Component::Containerd(NODE))
        })
        .await
    })
    .await
}

fn set(name: &str, image: &str) -> Value {
    let mut set = objects::clone_set(name, 1, image, &json!({}));
    let spec = &mut set["spec"]["template"]["spec"];
    spec["nodeSelector"] = json!({"kubernetes.io/hostname": Place::Node(NODE).to_string()});
    spec["terminationGracePeriodSeconds"] = json!(2 * LONG);
    if name == "hook" {
        spec["containers"][0]["lifecycle"] = json!({"preStop": {"sleep": {"seconds": LONG}}});
    }
    set
}

/// Both are requested to stop, and meanwhile `kills` kills a program.
async fn restarted(case: &Case, who: &str, kills: impl AsyncFnOnce() -> Result<()>) -> Result<()> {
    let mut before = Vec::new();
    for name in NAMES {
        let pods = case.pods(name).await?;
        let pod = pods
            .values()
            .next()
            .with_context(|| format!("{name} has no pod"))?;
        if name == "deaf" {
            // From now on the container ignores the signal that ends it.
            let main = pod
                .containers
                .get(CONTAINER)
                .context("the pod has no main container")?;
            signal(case, Place::Node(NODE), &main.container_id, "SIGSTOP").await?;
        }
        let grace = if name == "deaf" { LONG } else { 2 * LONG };
        let fields = json!({"strategy": {"terminationGracePeriodSeconds": grace}});
        case.create(&request(
            &format!("{name}-{who}"),
            &pod.name,
            &[CONTAINER],
            &fields,
        ))
        .await?;
        before.push(pods);
    }
    pulls::until_node(case, NODE, |node| stopping(node) == NAMES.len()).await?;
    // By then the daemon has begun, and it is far from the end.
    tokio::time::sleep(BEGUN).await;
    let node = pulls::until_node(case, NODE, |_| true).await?;
    ensure!(
        stopping(&node) == NAMES.len(),
        "{who}: a container has stopped already: {:?}",
        node.status
    );
    kills().await?;
    for (name, before) in NAMES.iter().zip(&before) {
        let is_over = |request: &Value| request["status"]["phase"] == "Completed";
        let ended = case
            .until(
                kind::CONTAINER_RECREATE_REQUEST,
                &format!("{name}-{who}"),
                is_over,
            )
            .await?;
        let state = &ended["status"]["containerRecreateStates"][0];
        ensure!(
            state["phase"] == "Succeeded",
            "{name}, {who}: {}",
            ended["status"]
        );
        case.done(name).await?;
        ensure_in_place(before, &case.pods(name).await?, 1)
            .with_context(|| format!("{name}, {who}"))?;
    }
    Ok(())
}

/// How many containers the NodeImage lists to stop, and the daemon has not stopped yet.
fn stopping(node: &NodeImage) -> usize {
    let is_answered = |stop: &&StopContainer| {
        node.status
            .iter()
            .flat_map(|status| &status.stopped_containers)
            .any(|answer| stop.is_answered_by(answer))
    };
    node.spec
        .stop_containers
        .iter()
        .filter(|stop| !is_answered(stop))
        .count()
}
