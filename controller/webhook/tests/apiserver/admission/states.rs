//! The controller's token and PersistentPodStates: those that their workload asked for, and no
//! others.

use anyhow::{Context, Result, ensure};
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

use crate::admission::controller::Caller;
use crate::admission::refused;
use crate::stage::{Stage, until};

fn state(name: &str, fields: &Value) -> Result<DynamicObject> {
    let mut state = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "PersistentPodState",
        "metadata": {"name": name, "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "u", "controller": true},
        ]},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"},
            "requiredPersistentTopology": {"keys": ["kubernetes.io/hostname"]},
        },
    });
    for (path, value) in fields.as_object().into_iter().flatten() {
        *state.pointer_mut(path).context("no such field")? = value.clone();
    }
    Ok(serde_json::from_value(state)?)
}

#[test]
fn controller_token_writes_only_owned_pod_states() -> Result<()> {
    let stage = Stage::shared()?;
    stage.namespace("states")?;
    stage.run(async |admin| {
        let of = ApiResource::from_gvk(&GroupVersionKind::gvk("apps.kruise.io", "v1beta1", "PersistentPodState"));
        let by_hand: Api<DynamicObject> = Api::namespaced_with(admin, "states", &of);
        let manager: Api<DynamicObject> = Api::namespaced_with(stage.manager().await?, "states", &of);
        let create = PostParams::default();
        let trial = PostParams { dry_run: true, ..create.clone() };
        let says = "PersistentPodStates that their workload, of their name, controls";
        let no_owner = json!({"/metadata/ownerReferences": []});
        until("the policy is in force", async || {
            refused("one without an owner", manager.create(&trial, &state("db", &no_owner)?).await, says)
        })
        .await?;
        for (what, name, fields) in [
            ("another name", "other", json!({})),
            ("an owner that does not control", "db", json!({"/metadata/ownerReferences/0/controller": false})),
            ("another target", "db", json!({"/spec/targetRef/name": "other"})),
            ("a target of another group", "db", json!({"/spec/targetRef/apiVersion": "apps.kruise.io/v1beta1"})),
        ] {
            refused(what, manager.create(&create, &state(name, &fields)?).await, says)?;
        }
        manager.create(&create, &state("db", &json!({}))?).await.context("what a workload asked for")?;
        let keys = Patch::Merge(json!({"spec": {"requiredPersistentTopology": {"keys": ["zone"]}}}));
        manager.patch("db", &PatchParams::default(), &keys).await.context("other keys")?;
        manager.delete("db", &DeleteParams::default()).await.context("its deletion")?;

        let made = until("it is gone", async || Ok(by_hand.create(&create, &state("db", &no_owner)?).await?)).await?;
        ensure!(made.metadata.owner_references.is_none(), "{made:?}");
        let patched = manager.patch("db", &PatchParams::default(), &keys).await;
        refused("the keys of one that somebody made", patched, "of the spec of persistentpodstates")?;
        let owner = |name: &str, api_version: &str| {
            json!([{"apiVersion": api_version, "kind": "StatefulSet", "name": name, "uid": "u", "controller": true}])
        };
        let ours = "apps.kruise.io/v1beta1";
        for (what, owners, target) in [
            ("another's", owner("other", ours), ours),
            ("one that stays that of the same group", owner("db", "apps/v1"), "apps/v1"),
            ("one whose owner is of another group", owner("db", "apps/v1"), ours),
            ("one without an owner", json!([]), ours),
        ] {
            let patch = json!({"metadata": {"ownerReferences": owners}, "spec": {"targetRef": {"apiVersion": target}}});
            let patched = manager.patch("db", &PatchParams::default(), &Patch::Merge(patch)).await;
            ensure!(patched.is_err(), "{what} is written");
        }
        let handed = json!({"metadata": {"ownerReferences": owner("db", ours)}, "spec": {"targetRef": {"apiVersion": ours}}});
        let dry_run = PatchParams { dry_run: true, ..PatchParams::default() };
        manager.patch("db", &dry_run, &Patch::Merge(handed)).await.context("a set that moved")?;
        let deleted = manager.delete("db", &DeleteParams::default()).await;
        refused("the deletion of one that somebody made", deleted, "may delete no persistentpodstates")
    })
}

#[test]
fn pinning_skips_system_pods_and_unlisted_annotations() -> Result<()> {
    let stage = Stage::shared()?;
    stage.namespace("pinned")?;
    stage.account("kube-system")?;
    stage.run(async |admin| {
        let admin = Caller(admin);
        let mut object = json!(state("pinned", &json!({"/metadata/ownerReferences": [], "/spec/targetRef/name": "pinned"}))?);
        object["spec"]["persistentPodAnnotations"] = json!([{"key": "listed"}]);
        let record = json!({"nodeName": "n", "nodeTopologyLabels": {"kubernetes.io/hostname": "n"},
                            "annotations": {"listed": "x", "unlisted": "x"}});
        let status = json!({"status": {"observedGeneration": 1, "podStates": {"pinned-0": record}}});
        let owner =
            json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "pinned", "uid": "u", "controller": true});
        let pod = json!({"metadata": {"name": "pinned-0", "ownerReferences": [owner]},
                         "spec": {"containers": [{"name": "main", "image": "web:1"}]}});
        for namespace in ["pinned", "kube-system"] {
            let states = format!("/apis/apps.kruise.io/v1beta1/namespaces/{namespace}/persistentpodstates");
            until("PersistentPodStates are served", async || Ok(admin.create(&states, &object).await.map(drop)?))
                .await?;
            admin.merge(&format!("{states}/pinned/status"), &status).await?;
        }
        let made = async |namespace: &str| {
            admin.create(&format!("/api/v1/namespaces/{namespace}/pods?dryRun=All"), &pod).await
        };
        until("the policy is in force", async || {
            let pinned = made("pinned").await?;
            ensure!(pinned["metadata"]["annotations"]["listed"] == "x", "{}", pinned["metadata"]);
            ensure!(pinned["metadata"]["annotations"]["unlisted"].is_null(), "{}", pinned["metadata"]);
            ensure!(pinned["spec"]["nodeSelector"]["kubernetes.io/hostname"] == "n", "{}", pinned["spec"]);
            Ok(())
        })
        .await?;
        let spared = made("kube-system").await?;
        ensure!(spared["metadata"]["annotations"].is_null(), "{}", spared["metadata"]);
        ensure!(spared["spec"]["nodeSelector"].is_null(), "{}", spared["spec"]);
        Ok(())
    })
}

#[test]
fn one_object_holds_the_records_of_5000_pods() -> Result<()> {
    let stage = Stage::shared()?;
    stage.namespace("records")?;
    stage.run(async |admin| {
        let of = ApiResource::from_gvk(&GroupVersionKind::gvk("apps.kruise.io", "v1beta1", "PersistentPodState"));
        let states: Api<DynamicObject> = Api::namespaced_with(admin, "records", &of);
        states.create(&PostParams::default(), &state("db", &json!({}))?).await?;
        let record = |number: usize| {
            let node = format!("ip-10-20-{}-{}.eu-central-1.compute.internal", number / 250, number % 250);
            let labels = json!({"kubernetes.io/hostname": node, "topology.kubernetes.io/zone": "eu-central-1a"});
            (format!("a-database-with-a-long-name-{number}"), json!({"nodeName": node, "nodeTopologyLabels": labels}))
        };
        let records: serde_json::Map<_, _> = (0..5_000).map(record).collect();
        let patch = Patch::Merge(json!({"status": {"observedGeneration": 1, "podStates": records}}));
        let written = states.patch_status("db", &PatchParams::default(), &patch).await?;
        let kept = written.data["status"]["podStates"].as_object().map_or(0, serde_json::Map::len);
        ensure!(kept == 5_000, "{kept} records are kept");
        Ok(())
    })
}
