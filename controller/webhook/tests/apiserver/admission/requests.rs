//! ContainerRecreateRequests: filled-in fields stay, and only the controller fills in.

use anyhow::{Context, Result};
use berth_api::v1beta1::ContainerRecreateRequest;
use kube::api::{Api, DeleteParams, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::admission::{merge, refused, trial};
use crate::stage::{Stage, until};

#[test]
fn a_request_is_filled_in_once_and_by_the_controller_alone() -> Result<()> {
    let stage = Stage::shared()?;
    stage.namespace("requests")?;
    stage.run(async |admin| {
        let manager = stage.manager().await?;
        let (by_hand, own) = (
            Api::<ContainerRecreateRequest>::namespaced(admin.clone(), "requests"),
            Api::<ContainerRecreateRequest>::namespaced(manager, "requests"),
        );
        let (create, write) = (PostParams::default(), PatchParams::default());
        let request = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "ContainerRecreateRequest", "metadata": {"name": "demo"},
            "spec": {"podName": "web", "containers": [{"name": "app"}]},
        });
        by_hand.create(&create, &serde_json::from_value(request)?).await?;
        let other_pod = merge(json!({"spec": {"podName": "db"}}));
        until("the policy is in force", async || {
            refused("another pod", by_hand.patch("demo", &trial(), &other_pod).await, "spec: cannot be changed")
        })
        .await?;
        let label = |key: &str| merge(json!({"metadata": {"labels": {(key): "x"}}}));
        for key in ["crr.apps.kruise.io/pod-uid", "crr.apps.kruise.io/node-name", "crr.apps.kruise.io/active", "type"] {
            refused(key, by_hand.patch("demo", &write, &label(key)).await, "written by the controller alone")?;
        }
        by_hand.patch("demo", &write, &label("mine")).await.context("a label of one's own")?;

        let filled = |container: &str| {
            let context = json!({"containerID": "containerd://a", "restartCount": 0});
            let containers = json!([{"name": container, "statusContext": context}]);
            let labels = json!({"crr.apps.kruise.io/pod-uid": "u", "crr.apps.kruise.io/active": "true"});
            merge(json!({"metadata": {"labels": labels}, "spec": {"containers": containers}}))
        };
        refused(
            "the controller's other container",
            own.patch("demo", &write, &filled("db")).await,
            "may write nothing",
        )?;
        refused("the controller's other pod", own.patch("demo", &write, &other_pod).await, "may write nothing")?;
        own.patch("demo", &write, &filled("app")).await.context("what is filled in")?;
        let of_virtual_node = |is: Value| merge(json!({"metadata": {"labels": {"type": is}}}));
        own.patch("demo", &write, &of_virtual_node(json!("virtual-kubelet"))).await.context("its node's type")?;
        refused(
            "that its node has a daemon",
            by_hand.patch("demo", &write, &of_virtual_node(Value::Null)).await,
            "written by the controller alone",
        )?;
        own.patch("demo", &write, &of_virtual_node(Value::Null)).await.context("no type")?;
        let again = merge(json!({"spec": {"strategy": {"forceRecreate": true}}}));
        refused("once more", own.patch("demo", &write, &again).await, "may write nothing")?;
        refused("another label", own.patch("demo", &write, &label("mine2")).await, "may write the labels")?;
        let finalizer = |name: &str| merge(json!({"metadata": {"finalizers": [name]}}));
        refused("another finalizer", own.patch("demo", &write, &finalizer("x.io/y")).await, "may write the labels")?;
        own.patch("demo", &write, &finalizer("crr.apps.kruise.io/unready-acquired")).await.context("its finalizer")?;
        own.patch("demo", &write, &merge(json!({"metadata": {"finalizers": []}}))).await.context("none")?;
        own.delete("demo", &DeleteParams::default()).await.context("its end")?;
        Ok(())
    })
}
