//! Objects that are stored in v1beta1 go to a release that knows v1alpha1 alone, by the commands of
//! TAKEOVER.md.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use berth_api::kinds::releases::{self, Release};
use berth_api::kinds::{
    CLONE_SET, CONTAINER_RECREATE_REQUEST, Kind, PERSISTENT_POD_STATE, POD_UNAVAILABLE_BUDGET,
    UNITED_DEPLOYMENT, Version,
};
use berth_webhook::{Migrated, ReturnError, migrate, prepare_return};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
    PostParams,
};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::stage::{LONG, Replica, Stage};

/// More than two pages.
const CLONE_SETS: usize = 45;
const SETTLE: Duration = Duration::from_secs(2);
const OLDER: [Kind; 5] = [
    CLONE_SET,
    CONTAINER_RECREATE_REQUEST,
    PERSISTENT_POD_STATE,
    POD_UNAVAILABLE_BUDGET,
    UNITED_DEPLOYMENT,
];

fn objects(client: &Client, kind: &Kind, version: Version) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk(kind.group, version.name(), kind.kind);
    Api::namespaced_with(
        client.clone(),
        "default",
        &ApiResource::from_gvk_with_plural(&gvk, kind.plural),
    )
}

async fn create(client: &Client, kind: &Kind, name: &str, spec: Value) -> Result<()> {
    let object = json!({
        "apiVersion": kind.api_version(Version::V1Beta1), "kind": kind.kind, "metadata": {"name": name}, "spec": spec,
    });
    let api = objects(client, kind, Version::V1Beta1);
    api.create(&PostParams::default(), &serde_json::from_value(object)?)
        .await?;
    Ok(())
}

/// The version that each of the definitions stores, and those that its objects may have.
async fn stored(client: &Client) -> Result<Vec<(String, Vec<String>)>> {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut found = Vec::new();
    for kind in &OLDER {
        let crd = crds.get(&kind.crd()).await?;
        let stored = crd
            .status
            .and_then(|status| status.stored_versions)
            .unwrap_or_default();
        let version = crd
            .spec
            .versions
            .into_iter()
            .find(|version| version.storage)
            .context("no version is stored")?;
        found.push((version.name, stored));
    }
    Ok(found)
}

fn all_in(version: &str) -> Vec<(String, Vec<String>)> {
    vec![(version.to_owned(), vec![version.to_owned()]); OLDER.len()]
}

async fn prepare(client: &Client, release: &Release) -> (Result<Migrated, ReturnError>, String) {
    let mut lines = String::new();
    let done = prepare_return(client, release, SETTLE, &mut |line| {
        lines += &format!("{line}\n")
    })
    .await;
    (done, lines)
}

/// The objects that TAKEOVER.md applies for this step.
fn rights() -> Result<String> {
    let page = include_str!("../../../../charts/berth/TAKEOVER.md");
    let step = page
        .split("prepare-return, namespace")
        .next()
        .context("no service account")?;
    let start = step.rfind("<<'YAML'\n").context("no block")? + "<<'YAML'\n".len();
    let block = page[start..]
        .split("   YAML\n")
        .next()
        .context("the block has no end")?;
    Ok(block
        .lines()
        .map(|line| line.strip_prefix("   ").unwrap_or(line).to_owned() + "\n")
        .collect())
}

async fn make_objects(admin: &Client) -> Result<()> {
    let selector = json!({"matchLabels": {"app": "web"}});
    for number in 0..CLONE_SETS {
        let update = json!({"type": "RollingUpdate", "rollingUpdate": {
            "podUpdatePolicy": "InPlaceIfPossible", "partition": "50%",
            "inPlaceUpdateStrategy": {"imagePreDownloadParallelism": 2},
        }});
        let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "nginx"}]}});
        let spec = json!({"replicas": 0, "selector": selector, "template": template, "updateStrategy": update,
                          "scaleStrategy": {"excludePreparingDelete": true}});
        create(admin, &CLONE_SET, &format!("web-{number}"), spec).await?;
    }
    let labels = json!({"labels": {"app": "web"}});
    let update = json!({"type": "RollingUpdate", "rollingUpdate": {"podUpdatePolicy": "InPlaceOnly", "partition": 1}});
    let workload = json!({"template": {"metadata": labels}, "updateStrategy": update});
    let template = json!({"cloneSetTemplate": {"metadata": labels, "spec": workload}});
    let united = json!({"replicas": 0, "selector": selector, "template": template, "topology": {"subsets": [{"name": "a"}]}});
    create(admin, &UNITED_DEPLOYMENT, "united", united).await?;
    let target = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"});
    let topology = json!({"keys": ["kubernetes.io/hostname"]});
    let state = json!({"targetRef": target, "requiredPersistentTopology": topology});
    create(admin, &PERSISTENT_POD_STATE, "db", state).await?;
    let lossy = json!({"selector": selector, "maxUnavailable": 1, "ignoredPodSelector": {"matchLabels": {"idle": "true"}}});
    create(admin, &POD_UNAVAILABLE_BUDGET, "lossy", lossy).await?;
    let kept = json!({"selector": selector, "maxUnavailable": 1, "protectOperations": ["EVICT"]});
    create(admin, &POD_UNAVAILABLE_BUDGET, "kept", kept).await
}

async fn specs(client: &Client) -> Result<Vec<Value>> {
    let all = objects(client, &CLONE_SET, Version::V1Beta1)
        .list(&ListParams::default())
        .await?;
    Ok(all
        .items
        .into_iter()
        .map(|object| object.data["spec"].clone())
        .collect())
}

/// Applies a release's form of a definition: v1alpha1 without conversion.
async fn apply_release(admin: &Client, kind: &Kind) -> Result<()> {
    let crds: Api<CustomResourceDefinition> = Api::all(admin.clone());
    let none = json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}});
    crds.patch(&kind.crd(), &PatchParams::default(), &Patch::Merge(none))
        .await?;
    let mut crd = crds.get(&kind.crd()).await?;
    crd.spec
        .versions
        .retain(|version| version.name == "v1alpha1");
    crds.replace(&kind.crd(), &PostParams::default(), &crd)
        .await?;
    Ok(())
}

#[test]
fn objects_go_to_a_release_of_v1alpha1_alone() -> Result<()> {
    let stage = Stage::with_chart()?;
    let release = releases::named("1.9.0").context("no release")?;
    stage.kubectl(&["apply", "-f", "-"], Some(&rights()?))?;
    stage.kubectl(&["apply", "-f", "-"], Some(&rights()?))?;
    stage.run(async |admin| {
        let mut replica = Replica::start(&stage, &admin, 9876, LONG).await?;
        replica.ready().await?;
        make_objects(&admin).await?;
        let before = specs(&admin).await?;
        let returner = stage.client(Some(stage.token("berth-prepare-return", &[])?)).await?;

        let (refused, lines) = prepare(&returner, release).await;
        ensure!(matches!(refused, Err(ReturnError::Losses { losses: 1, .. })), "{refused:?}");
        let named = r#"PodUnavailableBudget default/lossy: spec.ignoredPodSelector {"matchLabels":{"idle":"true"}} has no place"#;
        ensure!(lines.contains(named), "{lines}");
        ensure!(
            stored(&admin).await? == all_in("v1beta1"),
            "a refused step writes nothing: {:?}",
            stored(&admin).await?
        );

        objects(&admin, &POD_UNAVAILABLE_BUDGET, Version::V1Beta1).delete("lossy", &DeleteParams::default()).await?;
        let manager = stage.manager().await?;
        let (refused, _) = prepare(&manager, release).await;
        ensure!(refused.is_err(), "the controller's own token may store another version");
        ensure!(stored(&admin).await? == all_in("v1beta1"), "{:?}", stored(&admin).await?);

        let (done, lines) = prepare(&returner, release).await;
        ensure!(done? == Migrated { crds: 5, objects: CLONE_SETS + 3 }, "{lines}");
        ensure!(stored(&admin).await? == all_in("v1alpha1"), "{:?}", stored(&admin).await?);
        ensure!(prepare(&returner, release).await.0? == Migrated::default(), "a second step found something to do");
        ensure!(specs(&admin).await? == before, "specs changed");

        // The leader's migration leaves it unchanged, however long it tries.
        if tokio::time::timeout(Duration::from_secs(5), migrate(&manager)).await.is_ok() {
            bail!("the migration takes the CRDs for its own");
        }
        ensure!(stored(&admin).await? == all_in("v1alpha1"), "{:?}", stored(&admin).await?);

        replica.end().await?;
        for kind in &OLDER {
            apply_release(&admin, kind).await.with_context(|| kind.crd())?;
        }
        let all = objects(&admin, &CLONE_SET, Version::V1Alpha1).list(&ListParams::default()).await?;
        ensure!(all.items.len() == CLONE_SETS, "{} can be read", all.items.len());
        let update = &all.items[0].data["spec"]["updateStrategy"];
        ensure!(update["type"] == "InPlaceIfPossible" && update["partition"] == "50%", "{update}");
        let united = objects(&admin, &UNITED_DEPLOYMENT, Version::V1Alpha1).get("united").await?;
        let update = &united.data["spec"]["template"]["cloneSetTemplate"]["spec"]["updateStrategy"];
        ensure!(*update == json!({"type": "InPlaceOnly", "partition": 1}), "{update}");
        Ok(())
    })
}
