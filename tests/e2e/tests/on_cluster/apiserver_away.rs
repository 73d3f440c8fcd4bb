//! The apiserver is away in the middle of a rollout and of pulls, or is frozen and answers no
//! requests: pods run on, pulls end, and when it is back all work continues and is reported.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_cluster::Component;
use berth_e2e::install;
use berth_e2e::limits::Limits;
use berth_e2e::objects::{self, kind};
use berth_e2e::record::Moment;
use jiff::Timestamp;
use serde_json::json;
use tokio::time::{Instant, sleep_until};

use crate::pulls::{self, Pushed, Way};
use crate::world::{Case, PATIENCE, ensure_in_place, two_at_a_time};

const NODES: [u8; 3] = [1, 2, 3];
const LIMITS: Limits = Limits {
    available: 4,
    min_ready: Duration::ZERO,
    active: 6,
    kept: None,
};

/// The way in which an apiserver is away.
#[derive(Debug, Clone, Copy)]
enum Away {
    /// Killed, and started again.
    Gone,
    /// Frozen in the middle of its work. Connections stay, requests are accepted and not answered;
    /// later it continues with them.
    Still,
}

pub(crate) async fn for_a_minute(case: &Case) -> Result<()> {
    away(case, Away::Gone, Duration::from_secs(60)).await
}

pub(crate) async fn for_ten_minutes(case: &Case) -> Result<()> {
    away(case, Away::Gone, Duration::from_secs(600)).await
}

pub(crate) async fn standing_still_for_a_minute(case: &Case) -> Result<()> {
    away(case, Away::Still, Duration::from_secs(60)).await
}

async fn away(case: &Case, how: Away, duration: Duration) -> Result<()> {
    // Two tags of one digest, so that the rollout needs the daemons.
    let [one, two] = case.images("same", ["one", "two"]).await?;
    let large = pulls::large(case, "large").await?;
    case.clone_set("web", 6, &one, two_at_a_time(1)).await?;
    case.clone_set("still", 3, &one, json!({})).await?;
    case.create(&pulls::job("ahead", &two, json!({}))).await?;
    pulls::succeeded(case, "ahead").await?;
    let (web, still) = (case.pods("web").await?, case.pods("still").await?);
    let daemons = daemons(case).await?;

    let ways = Way::of(case, NODES).await?;
    // Finished pulls stay for an hour: otherwise they would disappear from the NodeImages as soon
    // as the apiserver is back.
    let more = json!({"pullPolicy": {"backoffLimit": 0}, "completionPolicy": {"ttlSecondsAfterFinished": 3600}});
    case.create(&pulls::job("large", &large.name, more)).await?;
    for node in NODES {
        pulls::until_said(case, node, &large.name, pulls::in_the_middle).await?;
    }
    let watch = case.watch("web").await?;
    case.set_image("web", &two).await?;
    let held = |now: &Moment<'_>| now.pods.values().any(|s| !s.pod.gates);
    watch
        .until("a pod is in its grace period", PATIENCE, held)
        .await?;
    let cluster = case.cluster()?;
    let back = cluster.clone();
    case.blocking(move |_| match how {
        Away::Gone => cluster.kill(Component::Apiserver),
        Away::Still => cluster.pause(Component::Apiserver),
    })
    .await?;
    let until = Instant::now() + duration;
    let first = watch.record()?;
    let meanwhile = async {
        ways.into_iter().for_each(Way::end);
        pulled(case, &large).await?;
        sleep_until(until).await;
        Ok(())
    };
    let comes_back = case.blocking(move |_| match how {
        Away::Gone => back.start(Component::Apiserver),
        Away::Still => back.resume(Component::Apiserver),
    });
    pulls::restored(meanwhile, comes_back).await?;
    let returned = Timestamp::now();

    // No watch survives an apiserver's end. While it is away, nothing changes.
    let watch = case.watch("web").await?;
    case.done("web").await?;
    ensure_in_place(&web, &case.pods("web").await?, 1)?;
    ensure_in_place(&still, &case.pods("still").await?, 0)?;
    LIMITS.ensure_kept(&first)?;
    // The node controller marks pods of nodes without heartbeats as not ready. So after that, this
    // only checks the controller's own part: it took no more pods out of service than it may.
    for moment in watch.record()?.moments() {
        let out = moment.pods.values().filter(|s| !s.pod.gates).count();
        ensure!(
            out <= 2,
            "{out} pods were taken out of service: {}",
            moment.describe()
        );
    }
    pulls::succeeded(case, "large").await?;
    for node in NODES {
        let said = pulls::ensure_pulled(case, node, &large).await?;
        let ended = said
            .completion_time
            .with_context(|| format!("node {node} does not say when it was over"))?
            .0;
        ensure!(
            ended <= returned,
            "node {node} pulled it while the apiserver was away, and says {ended}"
        );
    }
    berth_is_well(case).await?;
    ensure!(
        daemons == self::daemons(case).await?,
        "a daemon ended, which were {daemons:?}"
    );
    Ok(())
}

/// Waits until each node has the image. Only the nodes can show that.
async fn pulled(case: &Case, image: &Pushed) -> Result<()> {
    let name = image.name.clone();
    pulls::until_so(case, "every node has the image", move |cluster| {
        let there = NODES
            .iter()
            .map(|node| pulls::on_node(cluster, *node, &name));
        Ok(there
            .collect::<Result<Vec<_>>>()?
            .iter()
            .all(Option::is_some))
    })
    .await
}

/// The daemons' pods, and how often each was restarted.
async fn daemons(case: &Case) -> Result<Vec<(String, i64)>> {
    let pods = objects::list(
        case.client(),
        install::NAMESPACE,
        kind::POD,
        "app.kubernetes.io/component=daemon",
    )
    .await?;
    let text = |pod: &serde_json::Value| {
        pod["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let restarts =
        |pod: &serde_json::Value| pod["status"]["containerStatuses"][0]["restartCount"].as_i64();
    pods.iter()
        .map(|pod| {
            Ok((
                text(pod),
                restarts(pod).context("a daemon has no container")?,
            ))
        })
        .collect()
}

/// Waits until Berth's own pods are ready: none may wait in a back-off.
async fn berth_is_well(case: &Case) -> Result<()> {
    for what in [
        "deployment/kruise-controller-manager",
        "daemonset/kruise-daemon",
    ] {
        case.kubectl(&[
            "rollout",
            "status",
            what,
            "-n",
            install::NAMESPACE,
            "--timeout=60s",
        ])
        .await?;
    }
    Ok(())
}
