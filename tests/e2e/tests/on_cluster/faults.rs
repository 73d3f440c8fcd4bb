//! Berth's own programs die in the middle of a rollout.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use berth_cluster::Place;
use berth_e2e::install;
use berth_e2e::limits::Limits;
use berth_e2e::objects::{self, kind};
use berth_e2e::record::Moment;

use crate::world::{Case, PATIENCE, ensure_in_place, two_at_a_time};

pub(crate) async fn a_killed_controller_is_replaced(case: &Case) -> Result<()> {
    ends_as_it_would_have(case, "controller").await
}

/// Two tags of one digest, so that the rollout needs the daemons.
pub(crate) async fn a_killed_daemon_goes_on(case: &Case) -> Result<()> {
    ends_as_it_would_have(case, "daemon").await
}

async fn ends_as_it_would_have(case: &Case, component: &str) -> Result<()> {
    let [one, two] = case.images("same", ["one", "two"]).await?;
    case.clone_set("web", 6, &one, two_at_a_time(1)).await?;
    let before = case.pods("web").await?;
    let watch = case.watch("web").await?;
    case.set_image("web", &two).await?;
    // Once with pods in their grace period, and once with pods whose container is being replaced.
    let held = |now: &Moment<'_>| now.pods.values().any(|s| !s.pod.gates);
    let patched = |now: &Moment<'_>| {
        let wants = |s: &&berth_e2e::record::Standing<'_>| {
            s.pod.containers.values().any(|c| c.wanted == two)
        };
        now.pods.values().filter(wants).count() >= 3
    };
    watch
        .until("a pod is in its grace period", PATIENCE, held)
        .await?;
    kill(case, component).await?;
    watch
        .until("half of the pods are patched", PATIENCE, patched)
        .await?;
    kill(case, component).await?;
    case.done("web").await?;

    ensure_in_place(&before, &case.pods("web").await?, 1)?;
    Limits {
        available: 4,
        active: 6,
        ..Limits::default()
    }
    .ensure_kept(&watch.record()?)
}

/// Sends SIGKILL to all processes of this component.
pub(crate) async fn kill(case: &Case, component: &str) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    // The containers in the status may have ended already.
    while killed(case, component).await? == 0 {
        ensure!(
            Instant::now() < deadline,
            "no {component} runs that could be killed"
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}

/// Kills the containers in the status of the component's pods; returns their number.
async fn killed(case: &Case, component: &str) -> Result<usize> {
    let selector = format!("app.kubernetes.io/component={component}");
    let pods = objects::list(case.client(), install::NAMESPACE, kind::POD, &selector).await?;
    let mut killed = 0;
    for pod in &pods {
        let status = &pod["status"]["containerStatuses"][0];
        let running = !status["state"]["running"].is_null();
        let id = status["containerID"].as_str().unwrap_or_default();
        if !running || id.is_empty() {
            continue;
        }
        let place = pod["spec"]["nodeName"]
            .as_str()
            .context("a running pod has no node")?
            .parse()?;
        // The container may have ended since it was listed.
        if signal(case, place, id, "SIGKILL").await.is_ok() {
            killed += 1;
        }
    }
    Ok(killed)
}

/// Sends a signal to the first process of a container, by the id that its pod's status has.
pub(crate) async fn signal(
    case: &Case,
    place: Place,
    container: &str,
    signal: &'static str,
) -> Result<()> {
    let cluster = case.cluster()?;
    let id = container.rsplit('/').next().unwrap_or_default().to_owned();
    let send = move |_: &_| {
        cluster.exec(
            place,
            &["ctr", "-n", "k8s.io", "task", "kill", "-s", signal, &id],
        )
    };
    case.blocking(send).await.map(drop)
}
