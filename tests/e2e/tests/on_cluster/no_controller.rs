//! Without a controller the cluster lives on.

use anyhow::{Result, ensure};
use berth_e2e::objects::{self, kind};
use berth_e2e::{ask, install};
use serde_json::json;

use crate::world::Case;

pub(crate) async fn pods_come_and_go(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    case.clone_set("before", 2, &image, json!({})).await?;
    scale(case, 0).await?;
    let lived = without(case, &image).await;
    scale(case, 2).await?;
    lived?;
    // The controller acts now on the changes of the meantime.
    case.done("meanwhile").await?;
    case.until(kind::CLONE_SET, "before", |set| {
        set["status"]["replicas"] == 2
    })
    .await?;
    Ok(())
}

async fn without(case: &Case, image: &str) -> Result<()> {
    // A pod of its own, a pod of a CloneSet, and pods of a Deployment.
    let spec = json!({"containers": [{"name": "main", "image": image, "ports": [{"containerPort": ask::PORT}]}]});
    let pod =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "alone"}, "spec": spec});
    case.create(&pod).await?;
    case.until(kind::POD, "alone", |pod| {
        pod["status"]["phase"] == "Running"
    })
    .await?;
    let labels = json!({"app": "deployed"});
    let deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "deployed"},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}},
    });
    case.create(&deployment).await?;
    case.until("apps/v1/Deployment", "deployed", |deployment| {
        deployment["status"]["readyReplicas"] == 2
    })
    .await?;
    let of_set = case.pods("before").await?;
    for name in of_set.keys().chain([&"alone".to_owned()]) {
        case.kubectl(&[
            "delete",
            "pod",
            name,
            "-n",
            &case.namespace,
            "--wait=true",
            "--timeout=120s",
        ])
        .await?;
    }
    ensure!(
        case.pods("before").await?.is_empty(),
        "pods of a CloneSet are there again, so a controller runs"
    );

    case.create(&objects::clone_set("meanwhile", 1, image, &json!({})))
        .await?;
    case.patch(
        kind::CLONE_SET,
        "meanwhile",
        json!({"spec": {"replicas": 2}}),
    )
    .await?;
    ensure!(
        case.get(kind::CLONE_SET, "meanwhile").await?["spec"]["replicas"] == 2,
        "the patch was lost"
    );
    let listed = objects::list(case.client(), &case.namespace, kind::CLONE_SET, "").await?;
    ensure!(listed.len() == 2, "{} CloneSets are listed", listed.len());
    let job = json!({
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "ImagePullJob",
        "metadata": {"name": "job"},
        "spec": {"image": image},
    });
    case.create(&job).await?;
    case.kubectl(&[
        "delete",
        "imagepulljob",
        "job",
        "-n",
        &case.namespace,
        "--wait=true",
        "--timeout=120s",
    ])
    .await?;
    ensure!(
        !objects::list(case.client(), "", kind::NODE_IMAGE, "")
            .await?
            .is_empty(),
        "no NodeImage can be read"
    );
    Ok(())
}

/// Scales the controller and waits until as many replicas are ready, and no other runs.
pub(crate) async fn scale(case: &Case, replicas: usize) -> Result<()> {
    let (deployment, namespace) = (
        "deployment/kruise-controller-manager",
        ["-n", install::NAMESPACE],
    );
    case.kubectl(
        &[
            &["scale", deployment, &format!("--replicas={replicas}")],
            &namespace[..],
        ]
        .concat(),
    )
    .await?;
    let done = ["rollout", "status", deployment, "--timeout=180s"];
    case.kubectl(&[&done[..], &namespace[..]].concat()).await?;
    let selector = "app.kubernetes.io/component=controller";
    loop {
        let pods = objects::list(case.client(), install::NAMESPACE, kind::POD, selector).await?;
        if pods.len() == replicas {
            return Ok(());
        }
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
}
