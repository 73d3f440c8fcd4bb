//! Overwritten objects are written again.

use anyhow::{Result, ensure};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::stage::{
    CHART, LONG, NAMESPACE, REGISTRY, Replica, SECRET, Stage, node_image, node_images, until,
};

const CRD: &str = "nodeimages.apps.kruise.io";
const VALIDATING: &str = "kruise-validating-webhook-configuration";

async fn converts(client: &Client, name: &str) -> Result<()> {
    until("v1alpha1 works again", async || {
        node_images(client, "v1alpha1")
            .create(&PostParams::default(), &node_image("v1alpha1", name, "1"))
            .await?;
        Ok(())
    })
    .await
}

async fn wipe(client: &Client, patch: Value) -> Result<()> {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    crds.patch(CRD, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    Ok(())
}

pub(crate) fn wiped_bundles_and_a_deleted_secret_are_repaired(stage: &Stage) -> Result<()> {
    stage.run(async |admin| {
        let mut replica = Replica::start(stage, &admin, 9876, LONG).await?;
        replica.ready().await?;

        let bundle = json!({"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": null}}}}});
        wipe(&admin, bundle).await?;
        converts(&admin, "bundle-wiped").await?;
        wipe(&admin, json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}})).await?;
        // With strategy None a conversion "works" and loses what differs: wait for the strategy
        // itself.
        let crds: Api<CustomResourceDefinition> = Api::all(admin.clone());
        until("the strategy is Webhook again", async || {
            let strategy = crds.get(CRD).await?.spec.conversion.map(|conversion| conversion.strategy);
            ensure!(strategy.as_deref() == Some("Webhook"), "it is {strategy:?}");
            Ok(())
        })
        .await?;
        converts(&admin, "strategy-wiped").await?;

        let validating: Api<ValidatingWebhookConfiguration> = Api::all(admin.clone());
        let client_config = json!({"caBundle": null});
        let patch = json!({"webhooks": [{"name": "validate.apps.kruise.io", "clientConfig": client_config}]});
        validating.patch(VALIDATING, &PatchParams::default(), &Patch::Strategic(patch)).await?;
        until("the validating webhook's bundle is back", async || {
            let webhooks = validating.get(VALIDATING).await?.webhooks.unwrap_or_default();
            ensure!(webhooks.iter().all(|webhook| webhook.client_config.ca_bundle.is_some()), "{webhooks:?}");
            Ok(())
        })
        .await?;

        // A writer with the right to write the bundle can write the rest, and would see every write
        // of the cluster.
        let everything = json!([{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}]);
        let webhook = json!({"name": "validate.apps.kruise.io", "failurePolicy": "Fail", "rules": everything});
        let patch = Patch::Strategic(json!({"webhooks": [webhook]}));
        validating.patch(VALIDATING, &PatchParams::default(), &patch).await?;
        until("the validating webhook asks about our kinds alone", async || {
            let webhooks = serde_json::to_value(validating.get(VALIDATING).await?.webhooks)?;
            ensure!(webhooks[0]["failurePolicy"] == "Ignore", "{webhooks}");
            ensure!(webhooks[0]["rules"][0]["apiGroups"] == json!(["apps.kruise.io"]), "{webhooks}");
            Ok(())
        })
        .await?;

        let secrets: Api<Secret> = Api::namespaced(admin.clone(), NAMESPACE);
        let uid = secrets.get(SECRET).await?.metadata.uid;
        secrets.delete(SECRET, &DeleteParams::default()).await?;
        let secret = until("there is a new Secret", async || Ok(secrets.get(SECRET).await?)).await?;
        ensure!(secret.metadata.uid != uid, "the Secret was not deleted");
        converts(&admin, "secret-deleted").await?;
        let maps: Api<ConfigMap> = Api::namespaced(admin.clone(), NAMESPACE);
        until("daemons learn of the new authority", async || {
            let map = maps.get("kruise-ca").await?.data.unwrap_or_default();
            let authority = secret.data.as_ref().and_then(|data| data.get("ca.crt"));
            ensure!(map.get("ca.crt").map(String::as_bytes) == authority.map(|bytes| bytes.0.as_slice()), "not yet");
            Ok(())
        })
        .await?;
        replica.end().await
    })
}

pub(crate) fn helm_keeps_bundle_and_replaced_bundle_is_repaired(stage: &Stage) -> Result<()> {
    stage.run(async |admin| {
        let mut replica = Replica::start(stage, &admin, 9876, LONG).await?;
        replica.ready().await?;
        let crds: Api<CustomResourceDefinition> = Api::all(admin.clone());
        let bundle = async || -> Result<_> {
            let conversion = crds
                .get(CRD)
                .await?
                .spec
                .conversion
                .and_then(|conversion| conversion.webhook);
            Ok(conversion
                .and_then(|webhook| webhook.client_config)
                .and_then(|config| config.ca_bundle))
        };
        let before = bundle().await?;
        ensure!(before.is_some(), "no bundle was written");
        // The replica sleeps while these run, so the result is theirs alone.
        let set = ["--namespace", NAMESPACE, "--set", REGISTRY];
        for replicas in ["controller.replicas=3", "controller.replicas=1"] {
            stage.upgrade(&[replicas])?;
            ensure!(
                bundle().await? == before,
                "helm upgrade touched the caBundle"
            );
        }
        stage.helm(&["rollback", "berth", "1", "--namespace", NAMESPACE])?;
        ensure!(
            bundle().await? == before,
            "helm rollback touched the caBundle"
        );
        let manifests = stage.helm(
            &[
                &["template", "berth", CHART, "--kube-version", "1.34"],
                &set[..],
            ]
            .concat(),
        )?;
        stage.kubectl(&["apply", "--filename=-"], Some(&manifests))?;
        ensure!(
            bundle().await? == before,
            "kubectl apply touched the caBundle"
        );
        let server_side = [
            "apply",
            "--server-side",
            "--force-conflicts",
            "--filename=-",
        ];
        stage.kubectl(&server_side, Some(&manifests))?;
        ensure!(
            bundle().await? == before,
            "server-side apply touched the caBundle"
        );
        stage.helm(&[&["upgrade", "berth", CHART, "--force"], &set[..]].concat())?;
        ensure!(
            bundle().await?.is_none(),
            "this helm keeps the caBundle even when it replaces: the README is out of date"
        );
        converts(&admin, "replaced").await?;
        replica.end().await
    })
}
