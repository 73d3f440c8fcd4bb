//! Objects of a tenant that name another tenant's CloneSet as their owner.

use anyhow::{Context, Result, ensure};
use berth_e2e::objects::{self, kind};
use serde_json::{Value, json};

use super::{attack_by_tenant, clone_set_of_another_user_grows};
use crate::pulls;
use crate::world::{Case, ensure_in_place};

const GHOSTS: usize = 3;
/// The maximum size of a NodeImage, in bytes.
const NODE_IMAGE: usize = 256 << 10;

/// A pod that the set would delete before all of its own.
fn ghost(name: &str, set: &Value, revision: &str, image: &str, owner: [&str; 2]) -> Value {
    let set = &set["metadata"];
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {"app": set["name"], "controller-revision-hash": revision, "apps.kruise.io/cloneset-instance-id": name},
            "annotations": {"controller.kubernetes.io/pod-deletion-cost": "2147483647"},
            "ownerReferences": [
                {"apiVersion": owner[0], "kind": owner[1], "name": set["name"], "uid": set["uid"], "controller": true},
            ],
        },
        "spec": {"containers": [{"name": "main", "image": image}]},
    })
}

/// A viewer of the victim's namespace can see its uid and revision.
pub(crate) async fn forged_owners_reach_no_other_namespace(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    let set = case.clone_set("web", 3, &image, json!({})).await?;
    let pods = case.pods("web").await?;
    let revision = pods.values().next().context("no pod")?.revision.clone();
    attack_by_tenant(case, async |tenant| {
        // With a kind that the garbage collector does not know, so that it leaves these alone.
        for number in 0..GHOSTS {
            let name = format!("ghost{number}");
            tenant
                .create(&ghost(
                    &name,
                    &set,
                    &revision,
                    &image,
                    ["none.example/v1", "Nothing"],
                ))
                .await?;
            let name = format!("twin{number}");
            tenant
                .create(&ghost(
                    &name,
                    &set,
                    &revision,
                    &image,
                    ["apps.kruise.io/v1beta1", "CloneSet"],
                ))
                .await?;
        }
        clone_set_of_another_user_grows(case, "web").await?;
        let set = case.get(kind::CLONE_SET, "web").await?;
        ensure!(
            set["status"]["replicas"] == 4,
            "pods of another namespace are counted: {}",
            set["status"]
        );
        let events = case.events("web").await?;
        ensure!(
            !events.iter().any(|event| event.contains("Delete")),
            "a pod was deleted: {events:?}"
        );
        Ok(())
    })
    .await
}

/// A pod without an owner whose annotations say that it is being updated, with as many variables as
/// an annotation can hold.
fn updating(name: &str, node: &str, image: &str) -> Value {
    const VARIABLES: usize = 18_000;
    let variables: serde_json::Map<_, _> = (0..VARIABLES)
        .map(|n| (format!("V{n:05}"), "1".into()))
        .collect();
    let record = json!({
        "revision": "x-abc",
        "updateTimestamp": "2026-01-01T00:00:00Z",
        "lastContainerStatuses": {},
        "berthEnv": {"main": variables},
    });
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {"lifecycle.apps.kruise.io/state": "Updating", "controller-revision-hash": "x-abc"},
            "annotations": {"apps.kruise.io/inplace-update-state": record.to_string()},
        },
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": image}]},
    })
}

/// A NodeImage lists pods of CloneSets only, and its daemon still reports them.
pub(crate) async fn forged_updates_fill_no_node_image(case: &Case) -> Result<()> {
    let [one, two] = case.images("same", ["one", "two"]).await?;
    let mut set = objects::clone_set(
        "web",
        1,
        &one,
        &json!({"podUpdatePolicy": "InPlaceIfPossible"}),
    );
    set["spec"]["template"]["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": "node-1"});
    case.create(&set).await?;
    case.done("web").await?;
    let before = case.pods("web").await?;
    attack_by_tenant(case, async |tenant| {
        let mut uids = Vec::new();
        for number in 0..4 {
            let pod = tenant
                .create(&updating(&format!("ghost{number}"), "node-1", &one))
                .await?;
            uids.push(
                pod["metadata"]["uid"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned(),
            );
        }
        // Two tags of one digest: only the node can tell them apart.
        case.set_image("web", &two).await?;
        let done = case.done("web").await;
        let node = pulls::until_node(case, 1, |_| true).await?;
        let bytes = serde_json::to_string(&node)?.len();
        println!("NodeImage node-1: {bytes} bytes");
        done?;
        ensure!(bytes < NODE_IMAGE, "NodeImage node-1 has {bytes} bytes");
        let asked = node
            .spec
            .inspect_pods
            .iter()
            .find(|asked| uids.contains(&asked.uid));
        ensure!(
            asked.is_none(),
            "the node inspects a pod that no CloneSet owns: {}",
            uids.join(", ")
        );
        ensure_in_place(&before, &case.pods("web").await?, 1)
    })
    .await
}
