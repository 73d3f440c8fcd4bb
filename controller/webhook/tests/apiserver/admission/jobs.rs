//! The controller's token and BroadcastJobs: the pause, the end by the TTL, and nothing else.

use anyhow::{Context, Result};
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

use crate::admission::{refused, trial};
use crate::stage::{Stage, until};

fn job(name: &str, completion: &Value) -> Result<DynamicObject> {
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox:1"}]}});
    Ok(serde_json::from_value(json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "BroadcastJob", "metadata": {"name": name},
        "spec": {"parallelism": 0, "completionPolicy": completion, "template": template},
    }))?)
}

#[test]
fn controller_token_pauses_jobs_and_deletes_by_ttl() -> Result<()> {
    let stage = Stage::shared()?;
    stage.namespace("jobs")?;
    stage.run(async |admin| {
        let of = ApiResource::from_gvk(&GroupVersionKind::gvk(
            "apps.kruise.io",
            "v1beta1",
            "BroadcastJob",
        ));
        let by_hand: Api<DynamicObject> = Api::namespaced_with(admin, "jobs", &of);
        let manager: Api<DynamicObject> = Api::namespaced_with(stage.manager().await?, "jobs", &of);
        let create = PostParams::default();
        by_hand.create(&create, &job("stays", &json!({}))?).await?;
        by_hand
            .create(
                &create,
                &job("ends", &json!({"ttlSecondsAfterFinished": 60}))?,
            )
            .await?;
        let early = Patch::Merge(json!({"spec": {"parallelism": 9}}));
        until("the policy is in force", async || {
            let answer = manager.patch("stays", &trial(), &early).await;
            refused("a wider job", answer, "kruise-manager may set paused")
        })
        .await?;
        let answer = manager.delete("stays", &DeleteParams::default()).await;
        refused(
            "one without a TTL",
            answer,
            "broadcastjobs with completionPolicy.ttlSecondsAfterFinished alone",
        )?;
        let merge = async |spec: Value| {
            manager
                .patch(
                    "stays",
                    &PatchParams::default(),
                    &Patch::Merge(json!({"spec": spec})),
                )
                .await
        };
        let says = "of the spec of broadcastjobs kruise-manager may set paused";
        refused(
            "a template",
            merge(json!({"template": {"spec": {"hostNetwork": true}}})).await,
            says,
        )?;
        merge(json!({"paused": true})).await.context("a pause")?;
        refused(
            "more beside the pause",
            merge(json!({"paused": true, "parallelism": 9})).await,
            says,
        )?;
        refused("to go on", merge(json!({"paused": false})).await, says)?;
        manager
            .delete("ends", &DeleteParams::default())
            .await
            .context("the TTL")?;
        Ok(())
    })
}
