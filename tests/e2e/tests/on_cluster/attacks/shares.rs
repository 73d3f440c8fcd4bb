//! A tenant's share of the replicas' work for all users.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_e2e::objects::{self, kind};
use futures::future::join_all;
use serde_json::{Value, json};

use super::attack_by_tenant;
use super::fat_pods::send;
use super::tenant::Tenant;
use crate::pod_budgets::unretried;
use crate::world::{Case, PATIENCE};

const BUDGET: &str = "policy.kruise.io/v1beta1/PodUnavailableBudget";
/// How many evictions of the tenant are under way at once.
const AT_ONCE: usize = 120;
/// How many evictions the neighbour sends meanwhile.
const NEIGHBOURS: usize = 20;

fn eviction(namespace: &str, pod: &str) -> (String, Value) {
    let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}/eviction?dryRun=All");
    let metadata = json!({"name": pod, "namespace": namespace});
    (
        path,
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}),
    )
}

/// A budget for pods with this label, enforced.
async fn budget(case: &Case, namespace: &str, app: &str) -> Result<()> {
    let spec = json!({"selector": {"matchLabels": {"app": app}}, "maxUnavailable": 1});
    let budget = json!({"apiVersion": "policy.kruise.io/v1beta1", "kind": "PodUnavailableBudget", "metadata": {"name": app}, "spec": spec});
    objects::create(case.client(), namespace, &budget).await?;
    let is_enforced = |budget: &Value| {
        let conditions = budget["status"]["conditions"].as_array();
        conditions.is_some_and(|all| {
            all.iter()
                .any(|one| one["type"] == "Enforced" && one["status"] == "True")
        })
    };
    objects::until(case.client(), namespace, BUDGET, app, PATIENCE, is_enforced)
        .await
        .map(drop)
}

/// A flood of dry-run evictions of a pod that does not exist, while a neighbour's evictions all
/// succeed.
pub(crate) async fn evictions_of_no_pod_block_no_other_user(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    let set = case.clone_set("web", 2, &image, json!({})).await?;
    let app = set["metadata"]["name"].as_str().context("no name")?;
    budget(case, &case.namespace, app).await?;
    let pods = objects::list(
        case.client(),
        &case.namespace,
        kind::POD,
        &format!("app={app}"),
    )
    .await?;
    let pod = pods
        .first()
        .and_then(|pod| pod["metadata"]["name"].as_str())
        .context("the neighbour has no pod")?;
    attack_by_tenant(case, async |tenant| {
        budget(case, &tenant.namespace, "none").await?;
        let (inside, account) = (
            ["-n", &tenant.namespace],
            format!("--serviceaccount={}:tenant", tenant.namespace),
        );
        for command in [
            &[
                "create",
                "role",
                "evicts",
                "--verb=create",
                "--resource=pods/eviction",
            ][..],
            &["create", "rolebinding", "evicts", "--role=evicts", &account],
        ] {
            case.kubectl(&[command, &inside[..]].concat()).await?;
        }
        flood(case, tenant, pod).await
    })
    .await
}

async fn flood(case: &Case, tenant: &Tenant, pod: &str) -> Result<()> {
    let ((end, ended), admin) = (tokio::sync::watch::channel(false), unretried(case).await?);
    let flood = (0..AT_ONCE).map(async |_| {
        let (path, eviction) = eviction(&tenant.namespace, "none");
        let mut answers = Vec::new();
        while !*ended.borrow() {
            answers.push(
                send(&tenant.client, "POST", &path, &eviction)
                    .await
                    .err()
                    .unwrap_or_default(),
            );
        }
        answers
    });
    let neighbour = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let (path, eviction) = eviction(&case.namespace, pod);
        let mut refusals = Vec::new();
        for _ in 0..NEIGHBOURS {
            refusals.extend(send(&admin, "POST", &path, &eviction).await.err());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        end.send_replace(true);
        refusals
    };
    let (answers, refusals) = tokio::join!(join_all(flood), neighbour);
    let answers = answers.concat();
    let count = |words: &str| {
        answers
            .iter()
            .filter(|answer| answer.contains(words))
            .count()
    };
    println!(
        "{} evictions of no pod: {} not found, {} to try again",
        answers.len(),
        count("not found"),
        count("try again")
    );
    ensure!(
        count("not found") > AT_ONCE,
        "the flood is none: {:?}",
        answers.first()
    );
    ensure!(
        count("/disrupt-pod/") == 0,
        "an answer tells the path of the webhook"
    );
    ensure!(
        refusals.is_empty(),
        "{} of {NEIGHBOURS} evictions of a neighbour failed: {}",
        refusals.len(),
        refusals[0]
    );
    Ok(())
}
