//! The policies allow the controller's writes to pods and claims of its predecessors: those of
//! OpenKruise's workloads, and pods that Kubernetes' own StatefulSet and DaemonSet left behind.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::admission::controller::Caller;
use crate::stage::{Stage, until};

const PODS: &str = "/api/v1/namespaces/taken-over-pods/pods";
const CLAIMS: &str = "/api/v1/namespaces/taken-over-claims/persistentvolumeclaims";

fn owner(version: &str, kind: &str, uid: &Value) -> Value {
    json!([{"apiVersion": format!("apps.kruise.io/{version}"), "kind": kind, "name": "web", "uid": uid, "controller": true}])
}

fn pod(name: &str, owners: &Value) -> Value {
    json!({"metadata": {"name": name, "ownerReferences": owners}, "spec": {"containers": [{"name": "main", "image": "web:1"}]}})
}

#[test]
fn pods_of_predecessors_are_updated_in_place() -> Result<()> {
    let stage = Stage::shared()?;
    stage.namespace("taken-over-pods")?;
    stage.run(async |admin| {
        let (admin, manager) = (Caller(admin), Caller(stage.manager().await?));
        for (plural, kind) in [("clonesets", "CloneSet"), ("statefulsets", "StatefulSet"), ("daemonsets", "DaemonSet")]
        {
            let labels = json!({"app": "web"});
            let template =
                json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "web:2"}]}});
            let set = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": kind, "metadata": {"name": "web"},
                             "spec": {"selector": {"matchLabels": labels}, "template": template}});
            let path = format!("/apis/apps.kruise.io/v1beta1/namespaces/taken-over-pods/{plural}");
            let set = until("the kind is served", async || Ok(admin.create(&path, &set).await?)).await?;
            let uid = &set["metadata"]["uid"];
            // OpenKruise names v1alpha1 or v1beta1. Kubernetes' own workloads, deleted with
            // --cascade=orphan, leave pods without an owner.
            for (before, owners) in [
                ("of-v1alpha1", owner("v1alpha1", kind, uid)),
                ("of-v1beta1", owner("v1beta1", kind, uid)),
                ("of-none", json!([])),
            ] {
                let name = format!("{plural}-{before}");
                admin.create(PODS, &pod(&name, &owners)).await?;
                let path = format!("{PODS}/{name}");
                if before == "of-none" {
                    let adopted = json!({"metadata": {"ownerReferences": owner("v1beta1", kind, uid)}});
                    manager.strategic(&path, &adopted).await.with_context(|| format!("the adoption of {name}"))?;
                }
                let closed = json!({"metadata": {"labels": {"lifecycle.apps.kruise.io/state": "Updating"}},
                                    "status": {"conditions": [{"type": "InPlaceUpdateReady", "status": "False"}]}});
                manager
                    .strategic(&format!("{path}/status"), &closed)
                    .await
                    .with_context(|| format!("{name} out of service"))?;
                let image = json!({"spec": {"containers": [{"name": "main", "image": "web:2"}]}});
                let patched = manager.strategic(&path, &image).await.with_context(|| format!("the image of {name}"))?;
                ensure!(patched["spec"]["containers"][0]["image"] == "web:2", "{patched}");
            }
        }
        Ok(())
    })
}

#[test]
fn claims_of_predecessors_grow() -> Result<()> {
    let stage = Stage::shared()?;
    stage.namespace("taken-over-claims")?;
    stage.run(async |admin| {
        let (admin, manager) = (Caller(admin), Caller(stage.manager().await?));
        let class = json!({"metadata": {"name": "growing"}, "provisioner": "none.example/none", "allowVolumeExpansion": true});
        admin.create("/apis/storage.k8s.io/v1/storageclasses", &class).await?;
        let set = json!([{"apiVersion": "apps.kruise.io/v1alpha1", "kind": "StatefulSet", "name": "db", "uid": "gone"}]);
        for (name, metadata) in [
            ("data-db-0", json!({})),
            ("data-db-1", json!({"annotations": {"apps.kruise.io/owned-by-asts": "db"}})),
            ("data-db-2", json!({"finalizers": ["example.com/kept"], "ownerReferences": set})),
        ] {
            let size = json!({"storage": "1Mi"});
            let reference = json!({"namespace": "taken-over-claims", "name": name});
            let volume = json!({"metadata": {"name": name}, "spec": {
                "capacity": size, "accessModes": ["ReadWriteOnce"], "storageClassName": "growing", "claimRef": reference,
                "hostPath": {"path": "/tmp"},
            }});
            admin.create("/api/v1/persistentvolumes", &volume).await?;
            let mut claim = json!({"metadata": metadata, "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "growing", "volumeName": name, "resources": {"requests": size},
            }});
            claim["metadata"]["name"] = json!(name);
            admin.create(CLAIMS, &claim).await?;
            let path = format!("{CLAIMS}/{name}");
            until("the claim is bound", async || {
                let claim = admin.get(&path).await?;
                ensure!(claim["status"]["phase"] == "Bound", "{claim}");
                Ok(())
            })
            .await?;
            let grown = json!({"spec": {"resources": {"requests": {"storage": "2Mi"}}}});
            let patched: Value = manager.strategic(&path, &grown).await.with_context(|| format!("the growth of {name}"))?;
            ensure!(patched["spec"]["resources"]["requests"]["storage"] == "2Mi", "{patched}");
        }
        Ok(())
    })
}
