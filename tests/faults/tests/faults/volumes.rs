//! Enlarges the volumes of claims that grow.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use berth_e2e::objects::{self, kind};
use kube::Client;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::world::PATIENCE;

/// Creates a StorageClass whose claims may grow, with volumes that no controller enlarges.
pub(crate) async fn make_class(client: &Client, name: &str) -> Result<()> {
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
        "provisioner": "kubernetes.io/host-path", "allowVolumeExpansion": true,
    });
    objects::create(client, "", &class).await.map(|_| ())
}

/// Enlarges the volumes of so many claims to the sizes that they request. Checks that two claims
/// never wait at a time, and that the pod of a waiting claim is not changed meanwhile: the claim is
/// read before its pod, and no other writer reports the new size.
pub(crate) async fn grow_as_asked(
    (client, namespace): (&Client, &str),
    claims: usize,
    is_untouched: impl Fn(&Value) -> bool,
) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    let api = objects::api_of(
        client,
        namespace,
        &json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim"}),
    )?;
    let mut grown = 0;
    while grown < claims {
        ensure!(
            Instant::now() < deadline,
            "only {grown} of {claims} claims asked for more"
        );
        let all = objects::list(client, namespace, kind::CLAIM, "").await?;
        let waiting: Vec<_> = all
            .iter()
            .filter(|claim| wanted(claim) != &claim["status"]["capacity"]["storage"])
            .collect();
        ensure!(
            waiting.len() <= 1,
            "{} claims grow at a time: {waiting:?}",
            waiting.len()
        );
        if let Some(claim) = waiting.first() {
            let name = claim["metadata"]["name"].as_str().unwrap_or_default();
            // The part of the name after that of the claim's template.
            let pod = name.split_once('-').map_or(name, |(_, pod)| pod);
            let pod = objects::get(client, namespace, kind::POD, pod).await?;
            ensure!(
                is_untouched(&pod),
                "claim {name} grows, and its pod did not wait for it: {pod}"
            );
            let patch = json!({"status": {"capacity": {"storage": wanted(claim)}}});
            api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch))
                .await?;
            grown += 1;
        }
        sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

fn wanted(claim: &Value) -> &Value {
    &claim["spec"]["resources"]["requests"]["storage"]
}
