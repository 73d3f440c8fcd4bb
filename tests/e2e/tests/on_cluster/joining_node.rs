//! A node registers with a taint that keeps pods away until its images are there: it pulls the
//! images that jobs and workloads want there, and loses the taint.

use anyhow::{Context, Result, ensure};
use berth_api::names::{annotation, taint};
use berth_api::v1beta1::nodeimage::{ImagePullPhase, NodeImage, SyncStatusPhase};
use berth_cluster::{Component, Place};
use berth_e2e::objects::{self, kind};
use serde_json::{Value, json};

use crate::daemon_set::{NODE, back};
use crate::pulls;
use crate::world::{Case, PATIENCE};

/// A taint of another program, which stays.
const OTHERS: &str = "berth.test/others";
const SET: &str = "web";

/// A CloneSet without pods, whose images are pulled by nodes that join.
fn set(image: &str) -> Value {
    let mut set = objects::clone_set(SET, 0, image, &json!({}));
    set["metadata"]["annotations"] = json!({(annotation::PREPULL_ON_JOIN): "true"});
    set["spec"]["template"]["spec"]["tolerations"] = json!([{"key": OTHERS, "operator": "Exists"}]);
    set
}

fn job(name: &str, image: &str) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "ImagePullJob", "metadata": {"name": name},
        "spec": {"image": image, "parallelism": "100%", "completionPolicy": {"type": "Never"}},
    })
}

/// The Node as its kubelet registers it when it comes back, with the node's images.
fn node(name: &str) -> Value {
    let taints = [
        json!({"key": taint::IMAGES_NOT_READY, "effect": "NoSchedule"}),
        json!({"key": OTHERS, "value": "yes", "effect": "NoSchedule"}),
    ];
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"taints": taints}})
}

fn has_taint(node: &Value, key: &str) -> bool {
    node["spec"]["taints"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|taint| taint["key"] == key)
}

pub(crate) async fn a_node_has_its_images_before_it_takes_pods(case: &Case) -> Result<()> {
    let name = Place::Node(NODE).to_string();
    let [wanted, base] = case.images("joins", ["wanted", "base"]).await?;
    let tested = async {
        case.create(&job("base", &base)).await?;
        case.until(kind::IMAGE_PULL_JOB, "base", |job| {
            job["status"]["succeeded"] == 3
        })
        .await?;
        case.create(&set(&wanted)).await?;
        case.done(SET).await?;
        register(case, &name).await?;
        comes(case, &name, &wanted, &base).await?;
        says_what_is_wrong(case, &wanted).await
    };
    let restored = async {
        back(case).await?;
        // It is missing if all went well.
        drop(
            case.kubectl(&[
                "taint",
                "node",
                &name,
                &format!("{}-", taint::IMAGES_NOT_READY),
            ])
            .await,
        );
        drop(
            case.kubectl(&["taint", "node", &name, &format!("{OTHERS}-")])
                .await,
        );
        Ok(())
    };
    pulls::restored(tested, restored).await
}

/// The node is deleted, and registers with the taint.
async fn register(case: &Case, name: &str) -> Result<()> {
    let cluster = case.cluster()?;
    case.blocking(move |_| cluster.kill(Component::Kubelet(NODE)))
        .await?;
    case.kubectl(&["delete", "node", name]).await?;
    objects::until_gone(case.client(), "", kind::NODE_IMAGE, name, PATIENCE).await?;
    case.create(&node(name)).await?;
    back(case).await
}

/// The node pulls the images, reports them, and loses the one taint.
async fn comes(case: &Case, name: &str, wanted: &str, base: &str) -> Result<()> {
    let node = case
        .until(kind::NODE, name, |node| {
            !has_taint(node, taint::IMAGES_NOT_READY)
        })
        .await?;
    ensure!(
        has_taint(&node, OTHERS),
        "a taint of somebody else is gone: {}",
        node["spec"]
    );
    let image = pulls::until_node(case, NODE, |_| true).await?;
    let status = image
        .status
        .clone()
        .context("the taint went before the daemon said anything")?;
    let first = status
        .first_sync_status
        .as_ref()
        .context("the taint went before the first pulls were done")?;
    ensure!(
        first.status == Some(SyncStatusPhase::Succeeded) && image.spec.first_pulls_listed,
        "{first:?}"
    );
    for reference in [wanted, base] {
        ensure!(
            is_pulled(&image, reference),
            "{reference} is not among {:?}",
            status.image_statuses
        );
    }
    let ready = |event: &Value| {
        event["reason"] == "ImagesReady"
            && event["involvedObject"]["uid"] == node["metadata"]["uid"]
    };
    for _ in 0..100 {
        if objects::list(case.client(), "default", kind::EVENT, "")
            .await?
            .iter()
            .any(ready)
        {
            return Ok(());
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    anyhow::bail!("no event of the node says that its images are ready")
}

fn is_pulled(image: &NodeImage, reference: &str) -> bool {
    let mut statuses = image
        .status
        .iter()
        .flat_map(|status| &status.image_statuses);
    statuses.any(|(name, of)| {
        let mut tags = of
            .tags
            .iter()
            .filter(|tag| tag.phase == ImagePullPhase::Succeeded);
        tags.any(|tag| format!("{name}:{}", tag.tag) == reference)
    })
}

async fn says_what_is_wrong(case: &Case, image: &str) -> Result<()> {
    let mut bad = set(image);
    bad["metadata"]["name"] = json!("bad");
    bad["metadata"]["annotations"][annotation::PREPULL_ON_JOIN] = json!("yes");
    let error = case
        .create(&bad)
        .await
        .err()
        .context("the annotation \"yes\" was accepted")?;
    let text = format!("{error:#}");
    ensure!(
        text.contains(annotation::PREPULL_ON_JOIN) && text.contains("neither"),
        "{text}"
    );
    Ok(())
}
