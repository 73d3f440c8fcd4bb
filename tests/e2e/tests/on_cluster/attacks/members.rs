//! Pods of a tenant that a SidecarSet selects beside pods of others: one that is never ready, and
//! one that a policy keeps the controller from patching.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use berth_e2e::objects::{self, APP, kind};
use serde_json::{Map, Value, json};

use super::attack_by_tenant;
use super::tenant::Tenant;
use crate::sidecar_set::{asked, image, sidecar_set};
use crate::world::Case;

/// The longest time of a rollout over a neighbour's three pods.
const ROLLOUT: Duration = Duration::from_secs(60);

fn pod(name: &str, image: &str, fields: &Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"sidecar": "yes"}},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": "main", "image": image}]},
    });
    for (pointer, value) in fields.as_object().into_iter().flatten() {
        let (parent, field) = pointer.rsplit_once('/').unwrap_or_default();
        if let Some(parent) = pod.pointer_mut(parent) {
            parent[field] = value.clone();
        }
    }
    pod
}

/// Creates pods of the tenant that would stop a rollout if a SidecarSet waited for them.
async fn stop_rollouts(case: &Case, tenant: &Tenant, image: &str) -> Result<()> {
    let probe = json!({"httpGet": {"port": 1, "path": "/"}, "periodSeconds": 1});
    tenant
        .create(&pod(
            "sick",
            image,
            &json!({"/spec/containers/0/readinessProbe": probe}),
        ))
        .await?;
    // The annotations of a neighbour's pod, on a pod that the webhook does not see.
    let of_neighbour =
        objects::list(case.client(), &case.namespace, kind::POD, "sidecar=yes").await?;
    let marks = of_neighbour
        .first()
        .and_then(|pod| pod["metadata"]["annotations"].as_object());
    let marks = marks
        .into_iter()
        .flatten()
        .filter(|(key, _)| key.starts_with("kruise.io/sidecarset"));
    let marks: Map<String, Value> = marks
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    ensure!(!marks.is_empty(), "a neighbour's pod has no marks");
    let agent = json!([{"name": "agent", "image": image}]);
    let fields =
        json!({"/metadata/labels": {}, "/metadata/annotations": marks, "/spec/containers": agent});
    tenant.create(&pod("fake", image, &fields)).await?;
    let label = json!({"metadata": {"labels": {"sidecar": "yes"}}});
    objects::patch(&tenant.client, &tenant.namespace, kind::POD, "fake", &label).await?;
    for name in ["sick", "fake"] {
        let is_running = |pod: &Value| pod["status"]["phase"] == "Running";
        objects::until(
            case.client(),
            &tenant.namespace,
            kind::POD,
            name,
            ROLLOUT,
            is_running,
        )
        .await?;
    }
    Ok(())
}

/// A neighbour's pods get the new image, although a tenant's pods are unhealthy or forged.
pub(crate) async fn pods_of_a_tenant_stop_no_rollout(case: &Case) -> Result<()> {
    let (own, one, two) = (
        case.image("v1").await?,
        image(case, "one").await?,
        image(case, "two").await?,
    );
    attack_by_tenant(case, async |tenant| {
        let namespaces = json!({"key": "kubernetes.io/metadata.name", "operator": "In", "values": [case.namespace, tenant.namespace]});
        let set = sidecar_set(case, &one, &json!({"namespaceSelector": {"matchExpressions": [namespaces]}}));
        case.create(&set).await?;
        let attacked = async {
            asked(case).await?;
            let mut web = objects::clone_set("web", 3, &own, &json!({}));
            web["spec"]["template"]["metadata"]["labels"]["sidecar"] = json!("yes");
            case.create(&web).await?;
            case.done("web").await?;
            stop_rollouts(case, tenant, &own).await?;
            rolled_out(case, &two).await
        };
        let attacked = attacked.await;
        let deleted = case.kubectl(&["delete", "sidecarset", &case.namespace, "--ignore-not-found"]).await.map(drop);
        super::all([attacked, deleted])
    })
    .await
}

async fn rolled_out(case: &Case, image: &str) -> Result<()> {
    let containers = json!([{"name": "agent", "image": image}]);
    case.patch(
        kind::SIDECAR_SET,
        &case.namespace,
        json!({"spec": {"containers": containers}}),
    )
    .await?;
    let began = Instant::now();
    loop {
        let pods = objects::list(
            case.client(),
            &case.namespace,
            kind::POD,
            &format!("{APP}=web"),
        )
        .await?;
        let images = |pod: &Value| pod["spec"]["containers"].to_string();
        let left = pods
            .iter()
            .filter(|pod| !images(pod).contains(image))
            .count();
        if left == 0 {
            println!(
                "a neighbour's {} pods had the new image after {:?}",
                pods.len(),
                began.elapsed()
            );
            return Ok(());
        }
        ensure!(
            began.elapsed() < ROLLOUT,
            "{left} of a neighbour's {} pods wait after {ROLLOUT:?}",
            pods.len()
        );
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}
