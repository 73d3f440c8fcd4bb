//! Objects that were stored in v1alpha1 are stored in v1beta1 afterwards.

use anyhow::{Result, ensure};
use berth_webhook::{Migrated, migrate};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

use crate::stage::{LONG, Replica, Stage, node_image, node_images, until};

const CRD: &str = "nodeimages.apps.kruise.io";
/// More than one page.
const OBJECTS: usize = 230;

/// Makes this version the one that is stored, and waits until the apiserver stores it.
async fn store_in(client: &Client, version: &str) -> Result<()> {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut crd = crds.get(CRD).await?;
    for entry in &mut crd.spec.versions {
        entry.storage = entry.name == version;
    }
    crds.replace(CRD, &PostParams::default(), &crd).await?;
    until("the apiserver knows the stored version", async || {
        let stored = crds
            .get(CRD)
            .await?
            .status
            .and_then(|status| status.stored_versions)
            .unwrap_or_default();
        ensure!(stored.iter().any(|stored| stored == version), "{stored:?}");
        Ok(())
    })
    .await
}

async fn stored(client: &Client) -> Result<Vec<String>> {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    Ok(crds
        .get(CRD)
        .await?
        .status
        .and_then(|status| status.stored_versions)
        .unwrap_or_default())
}

pub(crate) fn every_object_is_stored_in_v1beta1_and_then_v1alpha1_can_go(
    stage: &Stage,
) -> Result<()> {
    stage.run(async |admin| {
        let mut replica = Replica::start(stage, &admin, 9876, LONG).await?;
        replica.ready().await?;
        store_in(&admin, "v1alpha1").await?;
        let old = node_images(&admin, "v1alpha1");
        for number in 0..OBJECTS {
            let object = node_image("v1alpha1", &format!("old-{number}"), "1");
            old.create(&PostParams::default(), &object).await?;
        }
        store_in(&admin, "v1beta1").await?;
        ensure!(
            stored(&admin).await?.len() == 2,
            "both versions may be stored now"
        );

        let manager = stage.manager().await?;
        let done = migrate(&manager).await;
        ensure!(
            done == Migrated {
                crds: 1,
                objects: OBJECTS
            },
            "{done:?}"
        );
        ensure!(
            stored(&admin).await? == ["v1beta1"],
            "{:?}",
            stored(&admin).await?
        );
        ensure!(
            migrate(&manager).await == Migrated::default(),
            "a second migration found something to do"
        );

        // Were one of them still stored in v1alpha1, it could not be read without a conversion.
        replica.end().await?;
        let crds: Api<CustomResourceDefinition> = Api::all(admin.clone());
        let none = json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}});
        crds.patch(CRD, &PatchParams::default(), &Patch::Merge(none))
            .await?;
        let mut crd = crds.get(CRD).await?;
        crd.spec
            .versions
            .retain(|version| version.name == "v1beta1");
        crds.replace(CRD, &PostParams::default(), &crd).await?;
        let all = node_images(&admin, "v1beta1")
            .list(&kube::api::ListParams::default())
            .await?;
        ensure!(
            all.items.len() == OBJECTS,
            "{} can be read",
            all.items.len()
        );
        Ok(())
    })
}
