//! A daemon's token against everything.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

use crate::admission::refused;
use crate::stage::{NAMESPACE, Stage, node_image, node_images, until};

fn status_patch() -> Patch<serde_json::Value> {
    Patch::Merge(json!({"status": {"desired": 1, "succeeded": 1, "failed": 0, "pulling": 0}}))
}

async fn report(client: &Client, name: &str) -> Result<DynamicObject, kube::Error> {
    node_images(client, "v1beta1")
        .patch_status(name, &PatchParams::default(), &status_patch())
        .await
}

#[test]
fn daemon_token_writes_only_its_node_image_status() -> Result<()> {
    let stage = Stage::shared()?;
    stage.namespace("daemon")?;
    stage.run(async |admin| {
        for node in ["mine", "theirs"] {
            node_images(&admin, "v1beta1").create(&PostParams::default(), &node_image("v1beta1", node, "1")).await?;
        }
        // A pod that a scheduler put onto node "mine"; the token is bound to it, as a kubelet would
        // ask for it.
        let pods: Api<Pod> = Api::namespaced(admin.clone(), NAMESPACE);
        let pod = serde_json::from_value(json!({
            "metadata": {"name": "daemon"},
            "spec": {"nodeName": "mine", "serviceAccountName": "kruise-daemon", "containers": [{"name": "daemon", "image": "none"}]},
        }))?;
        pods.create(&PostParams::default(), &pod).await?;
        let stolen = stage.token("kruise-daemon", &["--bound-object-kind=Pod", "--bound-object-name=daemon"])?;
        let daemon = stage.client(Some(stolen)).await?;
        until("the daemon may write its own status", async || Ok(report(&daemon, "mine").await?)).await?;
        until("the policy is in force", async || refused("another node's status", report(&daemon, "theirs").await, "node mine")).await?;

        // The size of the field is bounded: every controller holds the object, and each write of it
        // is a write of etcd.
        let images = node_images(&daemon, "v1beta1");
        let condition = json!({"type": "RuntimeReady", "status": "False", "message": "x".repeat(900_000)});
        let flood = Patch::Merge(json!({"status": {"conditions": [condition]}}));
        match images.patch_status("mine", &PatchParams::default(), &flood).await {
            Err(kube::Error::Api(status)) => ensure!(status.message.contains("conditions[0].message"), "{status:?}"),
            other => anyhow::bail!("a message of 900 KB: {other:?}"),
        }
        let spec = Patch::Merge(json!({"spec": {"images": {}}}));
        refused("its own spec", images.patch("mine", &PatchParams::default(), &spec).await, "cannot patch")?;
        let secrets: Api<Secret> = Api::namespaced(daemon.clone(), NAMESPACE);
        refused("reading secrets", secrets.list(&ListParams::default()).await, "cannot list")?;
        refused("reading the certificates", secrets.get("kruise-webhook-certs").await, "cannot get")?;
        refused("reading pods", Api::<Pod>::all(daemon.clone()).list(&ListParams::default()).await, "cannot list")?;

        // Even if an administrator gives the account every right, the policy holds.
        let binding = "--serviceaccount=kruise-system:kruise-daemon";
        stage.kubectl(&["create", "clusterrolebinding", "careless-daemon", "--clusterrole=cluster-admin", binding], None)?;
        let says = "may write the status of NodeImage mine and nothing else";
        until("the rights are there", async || Ok(secrets.list(&ListParams::default()).await?)).await?;
        refused("its own spec with rights", images.patch("mine", &PatchParams::default(), &spec).await, says)?;
        refused("another's status with rights", report(&daemon, "theirs").await, says)?;
        let old = node_images(&daemon, "v1alpha1");
        let other = old.patch_status("theirs", &PatchParams::default(), &status_patch()).await;
        ensure!(other.is_err(), "another node's status was written in v1alpha1");
        refused("a new NodeImage", images.create(&PostParams::default(), &node_image("v1beta1", "new", "1")).await, says)?;
        refused("deleting one", images.delete("theirs", &kube::api::DeleteParams::default()).await, says)?;
        let maps: Api<ConfigMap> = Api::namespaced(daemon.clone(), "daemon");
        let map = ConfigMap { metadata: kube::api::ObjectMeta { name: Some("any".into()), ..Default::default() }, ..Default::default() };
        refused("a ConfigMap", maps.create(&PostParams::default(), &map).await, says)?;

        // A token that no kubelet issued names no node.
        let loose = stage.client(Some(stage.token("kruise-daemon", &[])?)).await?;
        refused("a token without a node", report(&loose, "mine").await, "names no node")?;
        Ok(())
    })
}
