//! Image pulls that a test can stop in their middle, and their reports.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use berth_api::v1beta1::NodeImage;
use berth_api::v1beta1::nodeimage::{ImagePullPhase, ImageTagStatus};
use berth_cluster::{Cluster, Diversion, Image, Place, Valve};
use berth_e2e::objects::{self, kind};
use berth_e2e::suite;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::world::{Case, PATIENCE};

/// How many incompressible bytes a large image has.
const LARGE: usize = 64 << 20;
/// How many of them a valve lets through. Sockets on the way hold some more, but not all the rest.
pub(crate) const PART: i64 = 4 << 20;

/// An image to be pulled: its name, and the digest that the registry gave it.
pub(crate) struct Pushed {
    pub(crate) name: String,
    pub(crate) digest: String,
}

/// Pushes a large image under this tag.
pub(crate) async fn large(case: &Case, tag: &str) -> Result<Pushed> {
    let name = format!("{}:{tag}", case.namespace);
    let pushed = name.clone();
    let digest = case
        .blocking(move |site| {
            site.push(&Image::scratch().noise("noise", &pushed, LARGE), &[&pushed])
        })
        .await?;
    Ok(Pushed {
        name: case.site.image(&name),
        digest,
    })
}

/// A route from a node to the registry through a valve. It ends when this value is dropped.
pub(crate) struct Way {
    pub(crate) valve: Valve,
    diversion: Diversion,
}

impl Way {
    /// Sends each of these nodes through a valve of its own, which lets a part of an image through.
    pub(crate) async fn of<const N: usize>(case: &Case, nodes: [u8; N]) -> Result<[Way; N]> {
        let cluster = case.cluster()?;
        let ways = case.blocking(move |_| {
            nodes
                .into_iter()
                .map(|node| Way::through_a_valve(&cluster, node))
                .collect()
        });
        let ways: Vec<Way> = ways.await?;
        ways.try_into()
            .map_err(|_| anyhow!("there is a way for each node"))
    }

    fn through_a_valve(cluster: &Arc<Cluster>, node: u8) -> Result<Way> {
        let address = cluster.registry().address;
        let port = address
            .rsplit_once(':')
            .and_then(|(_, port)| port.parse().ok());
        let valve = Valve::start(port.with_context(|| format!("{address} has no port"))?)?;
        valve.allow_only(PART);
        cluster.expose(valve.port())?;
        Ok(Way {
            diversion: cluster.divert_registry(node, valve.port())?,
            valve,
        })
    }

    /// Sends new connections straight to the registry again, and leaves those through the valve as
    /// they are.
    pub(crate) fn stand_still(self) -> Valve {
        drop(self.diversion);
        self.valve
    }

    /// Sends new connections straight to the registry again, and lets the bytes in the valve
    /// through.
    pub(crate) fn end(self) {
        drop(self.diversion);
        self.valve.open();
    }
}

/// An ImagePullJob for all nodes at once. `more` is added to its spec.
pub(crate) fn job(name: &str, image: &str, more: Value) -> Value {
    let mut job = json!({
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "ImagePullJob",
        "metadata": {"name": name},
        "spec": {"image": image, "parallelism": 3},
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        job["spec"][field] = value.clone();
    }
    job
}

/// Waits until a job has ended, and returns its status.
pub(crate) async fn ended(case: &Case, name: &str) -> Result<Value> {
    let job = case
        .until(kind::IMAGE_PULL_JOB, name, |job| {
            !job["status"]["completionTime"].is_null()
        })
        .await?;
    Ok(job["status"].clone())
}

/// Waits until a job has succeeded on all nodes.
pub(crate) async fn succeeded(case: &Case, name: &str) -> Result<Value> {
    let status = ended(case, name).await?;
    ensure!(
        status["succeeded"] == 3 && status["desired"] == 3,
        "{name}: {status}"
    );
    ensure!(
        status["failed"].as_i64().unwrap_or(0) == 0,
        "{name}: {status}"
    );
    Ok(status)
}

/// A NodeImage's report of a pull.
pub(crate) fn said_of<'a>(node: &'a NodeImage, image: &str) -> Option<&'a ImageTagStatus> {
    let (name, tag) = image.rsplit_once(':')?;
    node.status
        .as_ref()?
        .image_statuses
        .get(name)?
        .tags
        .iter()
        .find(|status| status.tag == tag)
}

/// Waits until a node's report of a pull is as wanted, and returns it.
pub(crate) async fn until_said(
    case: &Case,
    node: u8,
    image: &str,
    as_wanted: impl Fn(&ImageTagStatus) -> bool,
) -> Result<ImageTagStatus> {
    let wanted = |node: &NodeImage| {
        said_of(node, image)
            .filter(|status| as_wanted(status))
            .cloned()
    };
    let node = until_node(case, node, |node| wanted(node).is_some()).await?;
    wanted(&node).context("it said so a moment ago")
}

/// Waits until a NodeImage is as wanted, and returns it.
pub(crate) async fn until_node(
    case: &Case,
    node: u8,
    as_wanted: impl Fn(&NodeImage) -> bool,
) -> Result<NodeImage> {
    let name = Place::Node(node).to_string();
    let parse = |value: &Value| serde_json::from_value::<NodeImage>(value.clone());
    let wanted = |value: &Value| parse(value).is_ok_and(|node| as_wanted(&node));
    let found =
        objects::until(case.client(), "", kind::NODE_IMAGE, &name, PATIENCE, wanted).await?;
    Ok(parse(&found)?)
}

/// Is the pull under way, with a part of the image there?
pub(crate) fn in_the_middle(status: &ImageTagStatus) -> bool {
    let (done, total) = (
        status.bytes_done.unwrap_or(0),
        status.bytes_total.unwrap_or(0),
    );
    status.phase == ImagePullPhase::Pulling && done > 0 && done < total
}

/// The digest of an image in a node's runtime; `None` if the node does not have it.
pub(crate) fn on_node(cluster: &Cluster, node: u8, image: &str) -> Result<Option<String>> {
    let filter = format!("name=={image}");
    let listed = cluster.exec(
        Place::Node(node),
        &["ctr", "-n", "k8s.io", "images", "ls", &filter],
    )?;
    let line = listed
        .lines()
        .find(|line| line.starts_with(&format!("{image} ")));
    Ok(line
        .and_then(|line| line.split_whitespace().nth(2))
        .map(str::to_owned))
}

/// The node has exactly this image, and reports it.
pub(crate) async fn ensure_pulled(case: &Case, node: u8, image: &Pushed) -> Result<ImageTagStatus> {
    let cluster = case.cluster()?;
    let (name, digest) = (image.name.clone(), &image.digest);
    let there = case
        .blocking(move |_| on_node(&cluster, node, &name))
        .await?;
    ensure!(
        there.as_ref() == Some(digest),
        "node {node} has {there:?}, {digest} was pushed"
    );
    let status = until_said(case, node, &image.name, |status| {
        status.phase == ImagePullPhase::Succeeded
    })
    .await?;
    ensure!(
        status.image_ids.contains(digest),
        "node {node} does not name {digest}: {status:?}"
    );
    Ok(status)
}

/// Two jobs pull one image that the registry lacks. The limits are the present jobs', and the last
/// one ends by its own limit.
pub(crate) async fn limits_follow_the_jobs_of_an_image(case: &Case) -> Result<()> {
    let image = case.site.image(&format!("{}:missing", case.namespace));
    let policy = |timeout: i32, backoff: i32| json!({"pullPolicy": {"timeoutSeconds": timeout, "backoffLimit": backoff}});
    let until_limits = async |owners: usize, wanted: (i32, i32)| -> Result<()> {
        let (name, tag) = image.rsplit_once(':').context("no tag")?;
        let has = |node: &NodeImage| {
            let mut tags = node
                .spec
                .images
                .get(name)
                .into_iter()
                .flat_map(|image| &image.tags);
            let entry =
                tags.find(|entry| entry.tag == tag && entry.owner_references.len() == owners);
            let limits = entry.and_then(|entry| entry.pull_policy.as_ref());
            limits.and_then(|limits| limits.timeout_seconds.zip(limits.backoff_limit))
                == Some(wanted)
        };
        for node in [1, 2, 3] {
            until_node(case, node, has)
                .await
                .with_context(|| format!("node {node}: {owners} owners, {wanted:?}"))?;
        }
        Ok(())
    };
    case.create(&job("j", &image, policy(600, 50))).await?;
    until_limits(1, (600, 50)).await?;
    case.create(&job("j2", &image, policy(10, 1))).await?;
    until_limits(2, (600, 50)).await?;
    case.patch(kind::IMAGE_PULL_JOB, "j", json!({"spec": policy(500, 40)}))
        .await?;
    until_limits(2, (500, 40)).await?;
    let other = json!({"spec": {"image": case.site.image(&format!("{}:other", case.namespace))}});
    let refused = case.patch(kind::IMAGE_PULL_JOB, "j2", other).await;
    let says = refused
        .err()
        .map(|error| format!("{error:#}"))
        .unwrap_or_default();
    ensure!(
        says.contains("spec.image") && says.contains("create another job"),
        "another image: {says:?}"
    );
    ensure!(
        case.get(kind::IMAGE_PULL_JOB, "j2").await?["status"]["completionTime"].is_null(),
        "j2 ended with j there"
    );

    case.kubectl(&[
        "delete",
        "imagepulljob",
        "j",
        "-n",
        &case.namespace,
        "--timeout=60s",
    ])
    .await?;
    until_limits(1, (10, 1)).await?;
    let status = ended(case, "j2").await?;
    ensure!(status["failed"] == 3 && status["desired"] == 3, "{status}");
    let raised = case
        .patch(kind::IMAGE_PULL_JOB, "j2", json!({"spec": policy(10, 5)}))
        .await;
    let says = raised
        .err()
        .map(|error| format!("{error:#}"))
        .unwrap_or_default();
    ensure!(
        says.contains("has completed and pulls nothing more: create another job"),
        "more tries: {says:?}"
    );
    let ttl = json!({"spec": {"completionPolicy": {"ttlSecondsAfterFinished": 3600}}});
    case.patch(kind::IMAGE_PULL_JOB, "j2", ttl).await.map(drop)
}

/// A job whose selector matches no node completes, and says that no node pulls.
pub(crate) async fn a_job_without_nodes_says_so(case: &Case) -> Result<()> {
    let image = case.site.image(&format!("{}:missing", case.namespace));
    case.create(&job(
        "lost",
        &image,
        json!({"selector": {"matchLabels": {"berth.test/is": "nowhere"}}}),
    ))
    .await?;
    let status = ended(case, "lost").await?;
    ensure!(
        status["desired"] == 0 && status["message"] == "selector matches no node; completed",
        "{status}"
    );
    case.told("lost", |event| {
        event.starts_with("NoNodes: selector matches no node")
    })
    .await
    .map(drop)
}

/// No version shows a pull as over.
pub(crate) fn ensure_open(versions: &[NodeImage], node: u8, image: &str) -> Result<()> {
    let name = Place::Node(node).to_string();
    let of_node = versions
        .iter()
        .filter(|version| version.metadata.name.as_deref() == Some(name.as_str()));
    let said: Vec<_> = of_node
        .filter_map(|version| said_of(version, image))
        .collect();
    ensure!(!said.is_empty(), "{name} was never seen to pull {image}");
    let over = said.iter().find(|status| status.completion_time.is_some());
    ensure!(
        over.is_none(),
        "{name} had only a part of {image}, and said {over:?}"
    );
    Ok(())
}

/// Runs a test, and then the repair, in whichever way the test ended.
pub(crate) async fn restored(
    test: impl Future<Output = Result<()>>,
    restore: impl Future<Output = Result<()>>,
) -> Result<()> {
    let tested = suite::caught(test).await;
    let restored = restore
        .await
        .context("what the test broke could not be put right");
    tested.and(restored)
}

/// Waits until a blocking check succeeds.
pub(crate) async fn until_so(
    case: &Case,
    what: &str,
    so: impl Fn(&Cluster) -> Result<bool> + Clone + Send + 'static,
) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (cluster, so) = (case.cluster()?, so.clone());
        if case.blocking(move |_| so(&cluster)).await? {
            return Ok(());
        }
        ensure!(
            Instant::now() < deadline,
            "timed out after {PATIENCE:?} until {what}"
        );
        sleep(Duration::from_millis(200)).await;
    }
}
