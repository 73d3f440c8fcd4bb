//! A component that a node depends on fails in the middle of some work, and comes back: the work
//! continues by itself, and all reports are true.

use anyhow::{Context, Result, ensure};
use berth_api::names::condition::RUNTIME_READY;
use berth_api::v1beta1::NodeImage;
use berth_api::v1beta1::nodeimage::ImagePullPhase;
use berth_cluster::{Cluster, Component, Place};
use berth_e2e::limits::Limits;
use berth_e2e::objects;
use berth_e2e::record::{Moment, Standing};
use berth_e2e::watch::NodeImageWatch;
use serde_json::json;

use crate::pulls::{self, Pushed, Way};
use crate::world::{Case, PATIENCE, ensure_in_place, two_at_a_time};

/// The node with the failing component.
const NODE: u8 = 2;
const NODES: [u8; 3] = [1, 2, 3];

/// No try may fail: the image is not the cause when a runtime goes away.
pub(crate) async fn containerd_killed_during_a_pull(case: &Case) -> Result<()> {
    let image = pulls::large(case, "v1").await?;
    let [way] = Way::of(case, [NODE]).await?;
    let watch = NodeImageWatch::start(case.client()).await?;
    case.create(&pulls::job(
        "pull",
        &image.name,
        json!({"pullPolicy": {"backoffLimit": 0}}),
    ))
    .await?;
    pulls::until_said(case, NODE, &image.name, pulls::in_the_middle).await?;

    let cluster = case.cluster()?;
    let killing = cluster.clone();
    case.blocking(move |_| killing.kill(Component::Containerd(NODE)))
        .await?;
    let away = pulls::until_node(case, NODE, |node| runtime_ready(node) == Some(false));
    pulls::restored(
        async { away.await.map(drop) },
        start(case, Component::Containerd(NODE)),
    )
    .await?;
    pulls::until_node(case, NODE, |node| runtime_ready(node) == Some(true)).await?;
    // Only a part can arrive still, so that each report by now must be of a pull under way.
    pulls::until_said(case, NODE, &image.name, |status| {
        status.phase == ImagePullPhase::Pulling
    })
    .await?;
    let name = image.name.clone();
    let there = case
        .blocking(move |_| pulls::on_node(&cluster, NODE, &name))
        .await?;
    ensure!(
        there.is_none(),
        "only a part could come, and the node has {there:?}"
    );
    pulls::ensure_open(&watch.seen()?, NODE, &image.name)?;

    way.valve.open();
    pulls::succeeded(case, "pull").await?;
    for node in NODES {
        pulls::ensure_pulled(case, node, &image).await?;
    }
    Ok(())
}

fn runtime_ready(node: &NodeImage) -> Option<bool> {
    let conditions = &node.status.as_ref()?.conditions;
    conditions
        .iter()
        .find(|condition| condition.type_ == RUNTIME_READY)
        .map(|condition| condition.status == "True")
}

async fn start(case: &Case, component: Component) -> Result<()> {
    let cluster = case.cluster()?;
    case.blocking(move |_| cluster.start(component)).await
}

pub(crate) async fn registry_cut_halfway(case: &Case) -> Result<()> {
    comes_back(case).await?;
    stays_away(case).await
}

/// It comes back before all tries have failed.
async fn comes_back(case: &Case) -> Result<()> {
    let image = pulls::large(case, "back").await?;
    cut(case, "back", &image, 6, async || {
        for node in NODES {
            pulls::until_said(case, node, &image.name, |status| {
                status.message.starts_with("try ")
            })
            .await?;
        }
        Ok(())
    })
    .await?;
    pulls::succeeded(case, "back").await?;
    for node in NODES {
        pulls::ensure_pulled(case, node, &image).await?;
    }
    Ok(())
}

/// It stays away: the job, the nodes and the events name the cause.
async fn stays_away(case: &Case) -> Result<()> {
    let image = pulls::large(case, "away").await?;
    cut(case, "away", &image, 0, async || {
        let status = pulls::ended(case, "away").await?;
        ensure!(
            status["failed"] == 3 && status["failedNodes"] == json!(["node-1", "node-2", "node-3"]),
            "{status}"
        );
        let cause = |text: &str| {
            ["connection refused", "EOF", "connection reset"]
                .iter()
                .any(|word| text.contains(word))
        };
        for node in NODES {
            let said = pulls::until_said(case, node, &image.name, |status| {
                status.completion_time.is_some()
            })
            .await?;
            let named = said.phase == ImagePullPhase::Failed
                && said.message.contains(&image.name)
                && cause(&said.message);
            ensure!(named, "node {node}: {said:?}");
        }
        for node in NODES {
            let of_node = format!("PullImageFailed: node {} ", Place::Node(node));
            case.told("away", |event| event.starts_with(&of_node) && cause(event))
                .await?;
        }
        Ok(())
    })
    .await
}

/// Begins a job, kills the registry when every node has a part of the image, and brings it back
/// after `meanwhile`.
async fn cut(
    case: &Case,
    name: &str,
    image: &Pushed,
    backoff_limit: i32,
    meanwhile: impl AsyncFnOnce() -> Result<()>,
) -> Result<()> {
    let ways = Way::of(case, NODES).await?;
    case.create(&pulls::job(
        name,
        &image.name,
        json!({"pullPolicy": {"backoffLimit": backoff_limit}}),
    ))
    .await?;
    for node in NODES {
        pulls::until_said(case, node, &image.name, pulls::in_the_middle).await?;
    }
    let cluster = case.cluster()?;
    case.blocking(move |_| cluster.kill(Component::Registry))
        .await?;
    let tested = async {
        // From here on, the nodes' requests go to the registry directly.
        ways.into_iter().for_each(Way::end);
        meanwhile().await
    };
    pulls::restored(tested, start(case, Component::Registry)).await
}

pub(crate) async fn disk_full(case: &Case) -> Result<()> {
    let (first, second) = (
        pulls::large(case, "first").await?,
        pulls::large(case, "second").await?,
    );
    let policy = || json!({"pullPolicy": {"backoffLimit": 0}});
    let tested = async {
        store(case, CROWD).await?;
        case.create(&pulls::job("first", &first.name, policy()))
            .await?;
        let status = pulls::ended(case, "first").await?;
        let counts = (
            &status["succeeded"],
            &status["failed"],
            &status["failedNodes"],
        );
        ensure!(
            counts
                == (
                    &json!(2),
                    &json!(1),
                    &json!([Place::Node(NODE).to_string()])
                ),
            "{status}"
        );
        let full = |text: &str| text.contains("no space left on device");
        let said = pulls::until_said(case, NODE, &first.name, |said| {
            said.completion_time.is_some()
        })
        .await?;
        ensure!(
            said.phase == ImagePullPhase::Failed && full(&said.message),
            "{said:?}"
        );
        let told = |event: &str| event.starts_with("PullImageFailed: node node-2 ") && full(event);
        case.told("first", told).await?;
        let events = case.events("first").await?;
        ensure!(
            events.iter().filter(|event| told(event)).count() == 1,
            "{events:?}"
        );

        // The user frees space and requests a pull again: of the same image by another job, and of
        // another image by a job.
        let cluster = case.cluster()?;
        case.blocking(move |_| cluster.exec(Place::Node(NODE), &["sh", "-ec", ROOM]))
            .await?;
        for (name, image) in [("again", &first), ("second", &second)] {
            case.create(&pulls::job(name, &image.name, policy()))
                .await?;
            pulls::succeeded(case, name).await?;
            pulls::ensure_pulled(case, NODE, image).await?;
        }
        Ok(())
    };
    pulls::restored(tested, store(case, BACK)).await
}

/// Changes where the node's containerd keeps its pulls, while containerd is stopped.
async fn store(case: &Case, script: &'static str) -> Result<()> {
    let cluster = case.cluster()?;
    let containerd = Component::Containerd(NODE);
    case.blocking(move |_| {
        if cluster.runs(containerd) {
            cluster.stop(containerd)?;
        }
        let changed = cluster.exec(Place::Node(NODE), &["sh", "-ec", script]);
        cluster.start(containerd)?;
        changed.map(drop)
    })
    .await
}

/// Moves the store to a file system with space for its content and for a part of an image.
const CROWD: &str = "
    store=/var/lib/containerd/io.containerd.content.v1.content
    used=$(du --summarize --block-size=1M $store | cut --fields=1)
    mkdir $store.small
    mount --types tmpfs --options size=$((used + 8))m small $store.small
    cp --archive $store/. $store.small
    mount --bind $store.small $store
    umount $store.small
    rmdir $store.small";
const ROOM: &str =
    "mount --options remount,size=1g /var/lib/containerd/io.containerd.content.v1.content";
/// Moves it back, with later content.
const BACK: &str = "
    store=/var/lib/containerd/io.containerd.content.v1.content
    mountpoint --quiet $store || exit 0
    mkdir $store.small
    mount --bind $store $store.small
    umount $store
    cp --archive --update $store.small/. $store
    umount $store.small
    rmdir $store.small";

pub(crate) async fn kubelets_restarted(case: &Case) -> Result<()> {
    let (one, two) = (case.image("v1").await?, case.image("v2").await?);
    let mut web = objects::clone_set("web", 6, &one, &two_at_a_time(1));
    // A kubelet that starts reports containers as not ready until it has probed them. That is no
    // fault of the controller's.
    if let Some(container) = web["spec"]["template"]["spec"]["containers"][0].as_object_mut() {
        container.remove("readinessProbe");
    }
    case.create(&web).await?;
    case.done("web").await?;
    let before = case.pods("web").await?;
    let watch = case.watch("web").await?;
    case.set_image("web", &two).await?;
    let held = |now: &Moment<'_>| now.pods.values().any(|s| !s.pod.gates);
    let wants = |s: &&Standing<'_>| s.pod.containers.values().any(|c| c.wanted == two);
    let patched = |now: &Moment<'_>| now.pods.values().filter(wants).count();
    // Once in the grace period of pods whose images are then changed while no kubelet runs.
    watch
        .until("a pod is in its grace period", PATIENCE, held)
        .await?;
    kubelets(case, |cluster, kubelet| cluster.kill(kubelet)).await?;
    let met = watch
        .until("two pods are patched", PATIENCE, |now| patched(now) >= 2)
        .await;
    kubelets(case, |cluster, kubelet| cluster.start(kubelet)).await?;
    met?;
    // And once while containers are replaced.
    watch
        .until("half of the pods are patched", PATIENCE, |now| {
            patched(now) >= 3
        })
        .await?;
    kubelets(case, |cluster, kubelet| cluster.kill(kubelet)).await?;
    kubelets(case, |cluster, kubelet| cluster.start(kubelet)).await?;
    case.done("web").await?;
    ensure_in_place(&before, &case.pods("web").await?, 1)?;
    Limits {
        available: 4,
        active: 6,
        ..Limits::default()
    }
    .ensure_kept(&watch.record()?)
}

async fn kubelets(case: &Case, act: fn(&Cluster, Component) -> Result<()>) -> Result<()> {
    let cluster = case.cluster()?;
    case.blocking(move |_| {
        NODES
            .into_iter()
            .try_for_each(|node| act(&cluster, Component::Kubelet(node)))
    })
    .await
}

/// A Node is deleted while its pods are updated, and its kubelet registers it again: pods and
/// limits are kept, and the earlier entries of its NodeImage come back.
pub(crate) async fn a_node_is_deleted_in_a_rollout(case: &Case) -> Result<()> {
    // Two tags of one digest, so that the rollout needs the node's report.
    let [one, two] = case.images("same", ["one", "two"]).await?;
    case.clone_set("web", 6, &one, two_at_a_time(1)).await?;
    let before = case.pods("web").await?;
    let uid = |node: &NodeImage| node.metadata.uid.clone();
    let first =
        uid(&pulls::until_node(case, NODE, |_| true).await?).context("a NodeImage has a uid")?;
    let watch = case.watch("web").await?;
    case.set_image("web", &two).await?;
    let held = |now: &Moment<'_>| now.pods.values().any(|s| !s.pod.gates);
    watch
        .until("a pod is in its grace period", PATIENCE, held)
        .await?;
    let name = Place::Node(NODE).to_string();
    case.kubectl(&["delete", "node", &name]).await?;
    let cluster = case.cluster()?;
    case.blocking(move |_| cluster.restart(Component::Kubelet(NODE)))
        .await?;
    pulls::until_node(case, NODE, |node| uid(node).is_some_and(|uid| uid != first)).await?;
    case.done("web").await?;
    ensure_in_place(&before, &case.pods("web").await?, 1)?;
    // A kubelet that starts reports containers as not ready until it has probed them, so that only
    // the controller's own part is checked.
    for moment in watch.record()?.moments() {
        let out = moment.pods.values().filter(|s| !s.pod.gates).count();
        ensure!(
            out <= 2,
            "{out} pods were taken out of service: {}",
            moment.describe()
        );
    }
    case.create(&pulls::job("after", &two, json!({}))).await?;
    pulls::succeeded(case, "after").await.map(drop)
}
