//! Objects that a label protects from their deletion, also while no controller runs.

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::no_controller::scale;
use crate::world::Case;

const DEPLOYMENT: &str = "apps/v1/Deployment";
const SERVICE: &str = "v1/Service";
const LABEL: &str = "policy.kruise.io/delete-protection";

pub(crate) async fn a_label_protects_without_a_controller(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    a_namespace_stays_while_a_pod_runs_in_it(case, &image).await?;
    let labels = json!({"app": "web"});
    let spec = json!({"containers": [{"name": "main", "image": image}]});
    case.create(&json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "labels": {LABEL: "Cascading"}},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}},
    }))
    .await?;
    let set = case.clone_set("guarded", 1, &image, json!({})).await?;
    let name = set["metadata"]["name"]
        .as_str()
        .context("no name")?
        .to_owned();
    case.kubectl(&[
        "label",
        "cloneset",
        &name,
        "-n",
        &case.namespace,
        &format!("{LABEL}=Cascading"),
    ])
    .await?;
    case.create(&json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "labels": {LABEL: "Always"}},
        "spec": {"ports": [{"port": 80}]},
    }))
    .await?;
    scale(case, 0).await?;
    let held = async {
        for (kind, name, said) in [
            ("deployment", "web", "spec.replicas is 1: scale it to 0"),
            ("cloneset", &*name, "spec.replicas is 1: scale it to 0"),
            ("service", "web", "take the label off first"),
        ] {
            let refused = case
                .kubectl(&["delete", kind, name, "-n", &case.namespace])
                .await
                .err();
            let refused = format!(
                "{:#}",
                refused.with_context(|| format!("{kind} {name} is deleted"))?
            );
            ensure!(
                refused.contains("forbidden by ResourcesProtectionDeletion")
                    && refused.contains(said),
                "{refused}"
            );
        }
        case.patch(DEPLOYMENT, "web", json!({"spec": {"replicas": 0}}))
            .await?;
        case.kubectl(&["delete", "deployment", "web", "-n", &case.namespace])
            .await?;
        case.patch(
            SERVICE,
            "web",
            json!({"metadata": {"labels": {LABEL: null}}}),
        )
        .await?;
        case.kubectl(&["delete", "service", "web", "-n", &case.namespace])
            .await?;
        anyhow::Ok(())
    };
    let held = held.await;
    scale(case, 2).await?;
    case.kubectl(&[
        "label",
        "cloneset",
        &name,
        "-n",
        &case.namespace,
        &format!("{LABEL}-"),
    ])
    .await?;
    held
}

/// The controller counts the objects in the namespace, and the guarded namespace is deleted once it
/// is empty.
async fn a_namespace_stays_while_a_pod_runs_in_it(case: &Case, image: &str) -> Result<()> {
    // The test's own namespace has a name that is too long for a suffix.
    let name = "deletion-protection-guarded";
    case.kubectl(&["create", "namespace", name]).await?;
    case.kubectl(&["label", "namespace", name, &format!("{LABEL}=Cascading")])
        .await?;
    case.kubectl(&[
        "wait",
        "--for=create",
        "serviceaccount/default",
        "--timeout=60s",
        "-n",
        name,
    ])
    .await?;
    case.kubectl(&["run", "web", "--image", image, "-n", name])
        .await?;
    let kept = async {
        let refused = case
            .kubectl(&["delete", "namespace", name, "--wait=false"])
            .await
            .err();
        let refused = format!(
            "{:#}",
            refused.with_context(|| format!("namespace {name} is deleted"))?
        );
        let said = format!(
            "Namespace {name} has the label {LABEL}=Cascading and 1 active pod (web): delete them first"
        );
        ensure!(
            refused.contains("forbidden by ResourcesProtectionDeletion") && refused.contains(&said),
            "{refused}"
        );
        case.kubectl(&["delete", "pod", "web", "-n", name]).await?;
        anyhow::Ok(())
    };
    let kept = kept.await;
    if kept.is_err() {
        case.kubectl(&["label", "namespace", name, &format!("{LABEL}-")])
            .await?;
    }
    case.kubectl(&["delete", "namespace", name]).await?;
    kept
}
