//! A test's scheduler for the pods of one domain.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// `schedulerName` of the domain's pods.
pub(super) const SCHEDULER: &str = "domain";

/// A domain, whose pods get a node unless the domain is lost.
pub(super) struct Domain {
    lost: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Domain {
    /// Starts to bind the domain's pods in a namespace to a node.
    pub(super) fn start(client: &Client, namespace: &str, node: &'static str) -> Domain {
        let lost = Arc::new(AtomicBool::new(false));
        let (pods, is_lost): (Api<Pod>, _) = (
            Api::namespaced(client.clone(), namespace),
            Arc::clone(&lost),
        );
        let task = tokio::spawn(async move {
            loop {
                // A pod may be deleted meanwhile. The next round repeats every other failure.
                let _ = schedule(&pods, node, &is_lost).await;
                sleep(Duration::from_millis(50)).await;
            }
        });
        Domain { lost, task }
    }

    /// From now on pods are unschedulable.
    pub(super) fn lose(&self) {
        self.lost.store(true, Ordering::SeqCst);
    }

    pub(super) fn come_back(&self) {
        self.lost.store(false, Ordering::SeqCst);
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn schedule(pods: &Api<Pod>, node: &str, is_lost: &AtomicBool) -> Result<()> {
    for pod in pods
        .list(&ListParams::default().fields("spec.nodeName="))
        .await?
    {
        let is_ours = pod
            .spec
            .as_ref()
            .is_some_and(|spec| spec.scheduler_name.as_deref() == Some(SCHEDULER));
        let Some(name) = pod
            .metadata
            .name
            .filter(|_| is_ours && pod.metadata.deletion_timestamp.is_none())
        else {
            continue;
        };
        if is_lost.load(Ordering::SeqCst) {
            let conditions =
                json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]);
            let metadata = json!({"uid": pod.metadata.uid});
            let status = Patch::Strategic(
                json!({"metadata": metadata, "status": {"conditions": conditions}}),
            );
            pods.patch_status(&name, &PatchParams::default(), &status)
                .await?;
        } else {
            let binding = json!({
                "apiVersion": "v1", "kind": "Binding",
                "metadata": {"name": name, "uid": pod.metadata.uid},
                "target": {"apiVersion": "v1", "kind": "Node", "name": node},
            });
            let how = PostParams::default();
            pods.create_subresource::<Value, Value>("binding", &name, &how, &binding)
                .await?;
        }
    }
    Ok(())
}
