//! The objects that the validating webhook refuses, and those that it leaves alone.

use anyhow::{Result, ensure};
use http::Request;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, PostParams};
use kube::client::Body;
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::stage::{LONG, Replica, Stage, node_image, node_images};

fn clone_set(version: &str, name: &str, container: &Value) -> Value {
    json!({
        "apiVersion": format!("apps.kruise.io/{version}"), "kind": "CloneSet", "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}},
        },
    })
}

/// As for Kubernetes' own kinds: without the warning a misspelled field in a template would be
/// dropped in silence.
async fn warns_of_fields_that_do_not_exist(admin: &Client) -> Result<()> {
    let set = clone_set(
        "v1beta1",
        "typo",
        &json!({"name": "web", "image": "nginx", "imagePullPolcy": "Always"}),
    );
    let request = Request::post("/apis/apps.kruise.io/v1beta1/namespaces/default/clonesets")
        .header("content-type", "application/json")
        .body(Body::from(set.to_string().into_bytes()))?;
    let response = admin.send(request).await?;
    let warnings: Vec<_> = response
        .headers()
        .get_all("warning")
        .iter()
        .filter_map(|it| it.to_str().ok())
        .collect();
    let says = r#"unknown field \"spec.template.spec.containers[0].imagePullPolcy\""#;
    ensure!(
        response.status() == 201 && warnings.iter().any(|it| it.contains(says)),
        "{warnings:?}"
    );
    Ok(())
}

pub(crate) fn bad_template_is_refused_and_webhook_is_optional(stage: &Stage) -> Result<()> {
    stage.run(async |admin| {
        let mut replica = Replica::start(stage, &admin, 9876, LONG).await?;
        replica.ready().await?;
        let create = async |version: &str, name: &str, container: Value| {
            let gvk = GroupVersionKind::gvk("apps.kruise.io", version, "CloneSet");
            let api: Api<DynamicObject> = Api::namespaced_with(admin.clone(), "default", &ApiResource::from_gvk(&gvk));
            let object = serde_json::from_value(clone_set(version, name, &container)).map_err(kube::Error::SerdeError)?;
            api.create(&PostParams::default(), &object).await
        };
        let good = json!({"name": "web", "image": "nginx"});
        let bad = json!({"name": "web", "image": "nginx", "ports": [{"containerPort": 99999}]});
        for version in ["v1alpha1", "v1beta1"] {
            create(version, &format!("good-{version}"), good.clone()).await?;
            let refused = create(version, "bad", bad.clone()).await;
            let Err(kube::Error::Api(status)) = refused else { anyhow::bail!("{version}: {refused:?}") };
            let says = "spec.template.spec.containers[0].ports[0].containerPort";
            ensure!(status.message.contains(says), "{version}: {:?} does not name the field", status.message);
        }

        warns_of_fields_that_do_not_exist(&admin).await?;
        refuses_sidecars_that_no_pod_could_have(&admin).await?;

        // With no controller at all: pods come and go, v1beta1 is read and written, v1alpha1 says
        // what is missing.
        replica.end().await?;
        let pods: Api<Pod> = Api::namespaced(admin.clone(), "default");
        let pod = serde_json::from_value(json!({
            "metadata": {"name": "free"},
            "spec": {"containers": [{"name": "c", "image": "i"}], "automountServiceAccountToken": false},
        }))?;
        pods.create(&PostParams::default(), &pod).await?;
        pods.delete("free", &kube::api::DeleteParams::default()).await?;
        create("v1beta1", "slips-through", bad).await?;
        let image =
            node_images(&admin, "v1beta1").create(&PostParams::default(), &node_image("v1beta1", "n", "1")).await?;
        node_images(&admin, "v1beta1").replace("n", &PostParams::default(), &image).await?;
        let Err(kube::Error::Api(status)) = node_images(&admin, "v1alpha1").get("n").await else {
            anyhow::bail!("v1alpha1 works without a webhook");
        };
        ensure!(status.message.contains("conversion webhook"), "{}", status.message);
        Ok(())
    })
}

/// The apiserver judges the containers of a SidecarSet as those of a pod.
async fn refuses_sidecars_that_no_pod_could_have(admin: &kube::Client) -> Result<()> {
    let gvk = GroupVersionKind::gvk("apps.kruise.io", "v1beta1", "SidecarSet");
    let api: Api<DynamicObject> = Api::all_with(admin.clone(), &ApiResource::from_gvk(&gvk));
    let create = async |fields: Value| {
        let mut set = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": "log"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "containers": [{"name": "a", "image": "i"}]},
        });
        for (field, value) in fields.as_object().into_iter().flatten() {
            set["spec"][field] = value.clone();
        }
        let dry_run = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        api.create(
            &dry_run,
            &serde_json::from_value(set).map_err(kube::Error::SerdeError)?,
        )
        .await
    };
    let hot = json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "e"});
    let mount = json!([{"name": "of-the-pod", "mountPath": "/a"}]);
    create(json!({"containers": [{"name": "a", "image": "i", "upgradeStrategy": hot, "volumeMounts": mount}]})).await?;
    create(json!({"containers": [], "initContainers": [{"name": "a", "image": "i", "restartPolicy": "Always"}]}))
        .await?;
    for (fields, says) in [
        (
            json!({"containers": [{"name": "a"}]}),
            "spec.containers[0].image: Required",
        ),
        (
            json!({"containers": [{"name": "a", "image": "i", "imagePullPolicy": "Sometimes"}]}),
            "spec.containers[0].imagePullPolicy",
        ),
        (
            json!({"containers": [{"name": "a", "image": "i", "readinessProbe": {"tcpSocket": {"port": 0}}}]}),
            "spec.containers[0].readinessProbe.tcpSocket.port",
        ),
        (
            json!({"volumes": [{"name": "v", "hostPath": {}}]}),
            "spec.volumes[0].hostPath.path",
        ),
    ] {
        let refused = create(fields.clone()).await;
        let Err(kube::Error::Api(status)) = refused else {
            anyhow::bail!("{fields}: {refused:?}")
        };
        ensure!(
            status.message.contains(says),
            "{fields}: {:?} does not name the field",
            status.message
        );
    }
    Ok(())
}
