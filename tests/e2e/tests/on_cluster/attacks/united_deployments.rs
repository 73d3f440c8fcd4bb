//! Workloads with the labels of another user's UnitedDeployment, and UnitedDeployments that request
//! more than their author may.

use anyhow::{Result, ensure};
use berth_e2e::objects::{self, APP, kind};
use serde_json::{Value, json};

use super::{attack_by_tenant, request_of_another_user};
use crate::united_deployment::{is_at_rest, united};
use crate::world::Case;

/// Forged Deployments, each with a megabyte in its spec.
const FORGED: usize = 100;
const MEGABYTE: usize = 1 << 20;
const SUBSET: &str = "apps.kruise.io/subset-name";

/// A Deployment with the labels of the subset `a` and a template of so many bytes.
fn forged(name: &str, selected: &Value, bytes: usize) -> Value {
    let labels = json!({APP: "web", SUBSET: "a"});
    let mut of_pods = labels.clone();
    of_pods["forged"] = json!("yes");
    let variables = json!([{"name": "LARGE", "value": "x".repeat(bytes)}]);
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": 0, "selector": {"matchLabels": selected},
            "template": {
                "metadata": {"labels": of_pods},
                "spec": {"containers": [{"name": "main", "image": "none", "env": variables}]},
            },
        },
    })
}

/// Labels, owners and megabytes of others neither join nor stop a UnitedDeployment, and cost its
/// controller no memory.
pub(crate) async fn forged_workloads_join_no_united_deployment(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    case.create(&united(
        "deploymentTemplate",
        1,
        &image,
        &json!({"subsets": [{"name": "a"}]}),
    ))
    .await?;
    let victim = case
        .until(kind::UNITED_DEPLOYMENT, "web", |it| is_at_rest(it, 1))
        .await?;
    let own = objects::list(case.client(), &case.namespace, kind::DEPLOYMENT, "").await?;
    // Without an owner, with another selector than the subset's.
    let other = json!({"forged": "yes"});
    case.create(&forged("orphan", &other, 0)).await?;
    let owner = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "UnitedDeployment", "name": "web",
        "uid": victim["metadata"]["uid"], "controller": true,
    });
    attack_by_tenant(case, async |tenant| {
        for number in 0..FORGED {
            let mut large = forged(&format!("ghost-{number}"), &other, MEGABYTE);
            if number % 2 == 0 {
                large["metadata"]["ownerReferences"] = json!([owner]);
            }
            tenant.create(&large).await?;
        }
        request_of_another_user(case).await
    })
    .await?;
    case.kubectl(&["scale", "ud", "-n", &case.namespace, "web", "--replicas=2"])
        .await?;
    case.until(kind::UNITED_DEPLOYMENT, "web", |it| is_at_rest(it, 2))
        .await?;
    let orphan = case.get(kind::DEPLOYMENT, "orphan").await?;
    ensure!(
        orphan["metadata"]["ownerReferences"].is_null(),
        "an orphan with another selector was adopted: {orphan}"
    );
    let now = objects::list(case.client(), &case.namespace, kind::DEPLOYMENT, "").await?;
    ensure!(
        now.len() == own.len() + 1,
        "the UnitedDeployment has other workloads: {now:?}"
    );
    Ok(())
}

/// The webhook refuses fields that would hide pods, and subsets that do not fit; the definition
/// refuses too many subsets.
pub(crate) async fn united_deployments_hide_no_pods(case: &Case) -> Result<()> {
    let refused = async |topology: Value, says: &str| {
        match case
            .create(&united("deploymentTemplate", 1, "none", &topology))
            .await
        {
            Ok(_) => anyhow::bail!("{says}: accepted"),
            Err(error) => ensure!(format!("{error:#}").contains(says), "{error:#}"),
        }
        Ok(())
    };
    let patched = |patch: Value| json!({"subsets": [{"name": "a", "patch": patch}]});
    for key in [APP, SUBSET, "apps.kruise.io/controller-revision-hash"] {
        refused(
            patched(json!({"metadata": {"labels": {key: "forged"}}})),
            &format!("patch.metadata.labels[{key}]"),
        )
        .await?;
    }
    refused(
        patched(json!({"spec": {"a": "x".repeat(MEGABYTE)}})),
        "bytes of JSON",
    )
    .await?;
    let many: Vec<_> = (0..10_000)
        .map(|number| json!({"name": format!("s{number}")}))
        .collect();
    refused(json!({"subsets": many}), "must have at most 200 items").await?;
    Ok(())
}
