//! Budgets of a tenant that try to keep Kubernetes itself from deleting pods, and pods that such a
//! budget left behind.

use anyhow::{Context, Result, bail, ensure};
use berth_e2e::objects::{self, kind};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use kube::core::Status;
use serde_json::{Value, json};

use crate::distributed_budgets;
use crate::no_controller::scale;
use crate::pod_budgets::{budget, deployed, enforced, names, take, unretried};
use crate::world::Case;

const BUDGET: &str = "policy.kruise.io/v1beta1/PodUnavailableBudget";
const DEPLOYMENT: &str = "apps/v1/Deployment";
const PRIORITY: &str = "berth-attacks-important";
/// One node has a single unit of this resource, so one pod fills it.
const SLOT: &str = "berth.test/slot";

/// A collection is reviewed pod by pod, and no review has a pod's name: each budget refuses, and
/// counts the deleted pods.
pub(crate) async fn collections_pass_no_budget(case: &Case) -> Result<()> {
    deployed(case, 3).await?;
    let before = names(case).await?;
    let one = format!("metadata.name={}", before[0]);
    let lists = [
        ListParams::default(),
        ListParams::default().labels("app=web"),
        ListParams::default().fields(&one),
    ];
    let selector = json!({"matchLabels": {"app": "web"}});
    for kind in ["PodUnavailableBudget", "DistributedPodDisruptionBudget"] {
        if kind == "PodUnavailableBudget" {
            case.create(&budget(json!({"selector": selector, "maxUnavailable": 0})))
                .await?;
            enforced(case, 0).await?;
        } else {
            case.create(&distributed_budgets::budget(
                "web",
                json!({"minAvailable": 3}),
            ))
            .await?;
            distributed_budgets::enforced(case, "web", 0).await?;
        }
        for list in &lists {
            let refusal = take_all(case, list).await?;
            ensure!(
                refusal.code == 429 && refusal.message.contains(kind),
                "{list:?}: {refusal:?}"
            );
        }
        ensure!(names(case).await? == before, "{kind} lets pods go");
        case.kubectl(&["delete", kind, "web", "-n", &case.namespace])
            .await?;
    }
    case.create(&budget(json!({"selector": selector, "maxUnavailable": 1})))
        .await?;
    enforced(case, 1).await?;
    let refusal = take_all(case, &lists[1]).await?;
    ensure!(refusal.message.contains("used up by web-"), "{refusal:?}");
    let left = names(case).await?;
    let stayed = before.iter().filter(|name| left.contains(name)).count();
    ensure!(
        stayed == 2,
        "{stayed} of 3 pods stayed, and the budget lets one go"
    );
    Ok(())
}

/// Deletes a collection of pods; returns the refusal.
async fn take_all(case: &Case, list: &ListParams) -> Result<Box<Status>> {
    let pods = Api::<Pod>::namespaced(unretried(case).await?, &case.namespace);
    match pods.delete_collection(&DeleteParams::default(), list).await {
        Err(kube::Error::Api(status)) => Ok(status),
        other => bail!("{list:?} is not refused: {}", other.is_ok()),
    }
}

/// Preemption evicts a pod past a budget: counted and reported while replicas answer, and still
/// possible while none does.
pub(crate) async fn preemption_passes_budgets(case: &Case) -> Result<()> {
    let nodes = [
        "get",
        "nodes",
        "-l",
        "!node-role.kubernetes.io/control-plane",
        "-o",
        "name",
    ];
    let node = case
        .kubectl(&nodes)
        .await?
        .lines()
        .next()
        .context("there is no node")?
        .to_owned();
    let capacity = async |operation: &str| {
        let patch =
            json!([{"op": operation, "path": "/status/capacity/berth.test~1slot", "value": "1"}])
                .to_string();
        case.kubectl(&[
            "patch",
            &node,
            "--subresource=status",
            "--type=json",
            "--patch",
            &patch,
        ])
        .await
    };
    capacity("add").await?;
    case.kubectl(&["create", "priorityclass", PRIORITY, "--value=1000000"])
        .await?;
    let passed = passes(case).await;
    scale(case, 2).await?;
    case.kubectl(&["delete", "priorityclass", PRIORITY]).await?;
    capacity("remove").await?;
    passed
}

async fn passes(case: &Case) -> Result<()> {
    let filling = deployed(case, 1).await?;
    let container = json!({"name": "main", "resources": {"limits": {SLOT: "1"}}});
    let patch = json!({"spec": {"template": {"spec": {"containers": [container]}}, "strategy": {"type": "Recreate", "rollingUpdate": null}}});
    case.kubectl(&[
        "patch",
        "deployment",
        "web",
        "-n",
        &case.namespace,
        "--patch",
        &patch.to_string(),
    ])
    .await?;
    let fills = |deployment: &Value| {
        let status = &deployment["status"];
        status["observedGeneration"] == deployment["metadata"]["generation"]
            && status["updatedReplicas"] == 1
            && status["readyReplicas"] == 1
    };
    case.until(DEPLOYMENT, "web", fills).await?;
    case.create(&budget(
        json!({"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 0}),
    ))
    .await?;
    enforced(case, 0).await?;
    for has_replicas in [true, false] {
        let victim = names(case).await?.pop().context("there is no pod")?;
        if !has_replicas {
            scale(case, 0).await?;
        }
        let important = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "important"},
            "spec": {
                "priorityClassName": PRIORITY, "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "main", "image": filling, "resources": {"limits": {SLOT: "1"}}}],
            },
        });
        case.create(&important).await?;
        case.until(kind::POD, "important", |pod| {
            pod["status"]["phase"] == "Running"
        })
        .await?;
        if has_replicas {
            let says = "PubPassed: DELETE by system:kube-scheduler passes the budget";
            case.told(&victim, |event| event.starts_with(says)).await?;
            case.until(BUDGET, "web", |budget| {
                budget["status"]["currentAvailable"] == 0
            })
            .await?;
        }
        if !has_replicas {
            // An administrator's deletion waits for a replica.
            scale(case, 2).await?;
        }
        case.kubectl(&[
            "delete",
            "pod",
            "important",
            "-n",
            &case.namespace,
            "--timeout=60s",
        ])
        .await?;
        case.until(DEPLOYMENT, "web", fills).await?;
    }
    Ok(())
}

/// A pod that was released from its ReplicaSet is deleted, although the budget that caused the
/// release is gone.
pub(crate) async fn released_pods_outlive_no_budget(case: &Case) -> Result<()> {
    deployed(case, 1).await?;
    let asks = json!({"metadata": {"annotations": {"apps.kruise.io/surge-on-eviction": "true"}}});
    case.patch(DEPLOYMENT, "web", asks).await?;
    case.create(&budget(
        json!({"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 0}),
    ))
    .await?;
    enforced(case, 0).await?;
    let old = names(case).await?.pop().context("there is no pod")?;
    let refusal = take(case, &old, true).await?.context("the only pod goes")?;
    ensure!(refusal.message.contains("replacement first"), "{refusal:?}");
    let is_released = |pod: &Value| {
        pod["metadata"]["labels"]["pod-template-hash"]
            .as_str()
            .is_some_and(|hash| hash.starts_with("released-"))
    };
    case.until(kind::POD, &old, is_released).await?;
    case.kubectl(&[
        "delete",
        "podunavailablebudget",
        "web",
        "-n",
        &case.namespace,
    ])
    .await?;
    case.gone(kind::POD, &old).await?;
    let left = objects::list(case.client(), &case.namespace, kind::POD, "app=web").await?;
    ensure!(left.len() == 1 && !is_released(&left[0]), "{left:?}");
    Ok(())
}
