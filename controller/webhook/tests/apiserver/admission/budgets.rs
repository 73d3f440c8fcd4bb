//! The controller's token, native budgets, and pods that are released so that a replacement comes.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams,
};
use serde_json::{Value, json};

use crate::admission::{merge, refused};
use crate::stage::{NAMESPACE, Stage, until};

fn native(name: &str, owner: &Value) -> Result<PodDisruptionBudget> {
    let owners = if owner.is_null() {
        json!([])
    } else {
        json!([owner])
    };
    Ok(serde_json::from_value(json!({
        "metadata": {"name": name, "ownerReferences": owners},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }))?)
}

fn owner(kind: &str, name: &str) -> Value {
    let api_version = if kind == "CloneSet" {
        "apps.kruise.io/v1beta1"
    } else {
        "policy.kruise.io/v1beta1"
    };
    json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": "u", "controller": true})
}

#[test]
fn controller_token_writes_only_owned_native_budgets() -> Result<()> {
    let stage = Stage::shared()?;
    stage.namespace("native-budgets")?;
    stage.run(async |admin| {
        let manager = stage.manager().await?;
        let by_hand = Api::<PodDisruptionBudget>::namespaced(admin.clone(), "native-budgets");
        let own = Api::<PodDisruptionBudget>::namespaced(manager.clone(), "native-budgets");
        let (create, write) = (PostParams::default(), PatchParams::default());
        let trial = PostParams {
            dry_run: true,
            ..create.clone()
        };
        let says = "of PodDisruptionBudgets kruise-manager may write those";
        until("the policy is in force", async || {
            refused(
                "one without an owner",
                own.create(&trial, &native("web", &Value::Null)?).await,
                says,
            )
        })
        .await?;
        for (what, name, owner) in [
            ("one of a CloneSet", "web", owner("CloneSet", "web")),
            (
                "one of another name",
                "web",
                owner("PodUnavailableBudget", "db"),
            ),
        ] {
            refused(what, own.create(&trial, &native(name, &owner)?).await, says)?;
        }
        by_hand
            .create(&create, &native("theirs", &Value::Null)?)
            .await?;
        let less = merge(json!({"spec": {"minAvailable": 0}}));
        refused(
            "somebody else's",
            own.patch("theirs", &write, &less).await,
            says,
        )?;
        refused(
            "its deletion",
            own.delete("theirs", &DeleteParams::default()).await,
            says,
        )?;
        let stolen = merge(
            json!({"metadata": {"ownerReferences": [owner("PodUnavailableBudget", "theirs")]}}),
        );
        refused(
            "its owner",
            own.patch("theirs", &write, &stolen).await,
            says,
        )?;
        let mut unserved = owner("PodUnavailableBudget", "web");
        unserved["apiVersion"] = json!("policy.kruise.io/v9");
        refused(
            "of a version that is not served",
            own.create(&trial, &native("web", &unserved)?).await,
            says,
        )?;
        let there = Api::<PodDisruptionBudget>::namespaced(manager, "kube-system");
        let answer = there
            .create(
                &trial,
                &native("web", &owner("PodUnavailableBudget", "web"))?,
            )
            .await;
        refused("in kube-system", answer, "controller.protectedNamespaces")?;
        // Without its owner the garbage collector would delete it meanwhile.
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(
            "policy.kruise.io",
            "v1beta1",
            "PodUnavailableBudget",
        ));
        let spec = json!({"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1});
        let budget = DynamicObject::new("ours", &resource).data(json!({"spec": spec}));
        let budget = Api::<DynamicObject>::namespaced_with(admin, "native-budgets", &resource)
            .create(&create, &budget)
            .await?;
        let mut ours = owner("PodUnavailableBudget", "ours");
        ours["uid"] = json!(budget.metadata.uid);
        own.create(&create, &native("ours", &ours)?)
            .await
            .context("its own")?;
        own.patch("ours", &PatchParams::default().dry_run(), &less)
            .await
            .context("minAvailable")?;
        let policy = merge(json!({"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}}));
        own.patch("ours", &PatchParams::default().dry_run(), &policy)
            .await
            .context("unhealthyPodEvictionPolicy")?;
        let wider = merge(json!({"spec": {"selector": {"matchLabels": {"app": "db"}}}}));
        refused(
            "another selector",
            own.patch("ours", &PatchParams::default().dry_run(), &wider)
                .await,
            "may write minAvailable",
        )
    })
}

/// The refusal of an object that needs a write in a protected namespace names the value that
/// protects it.
#[test]
fn protected_namespaces_refuse_objects_needing_writes() -> Result<()> {
    let stage = Stage::shared()?;
    stage.namespace("unprotected")?;
    stage.run(async |admin| {
        let trial = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let create =
            async |namespace: &str, version: &str, kind: &str, annotations: Value, spec: Value| {
                let (group, version) = version.split_once('/').unwrap_or_default();
                let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
                let mut object = DynamicObject::new("web", &resource).data(json!({"spec": spec}));
                object.metadata.annotations = serde_json::from_value(annotations).ok();
                Api::<DynamicObject>::namespaced_with(admin.clone(), namespace, &resource)
                    .create(&trial, &object)
                    .await
            };
        let (none, mirror) = (json!({}), json!({"policy.kruise.io/mirror-pdb": "true"}));
        let selects = json!({"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1});
        let request = json!({"podName": "web", "containers": [{"name": "main"}]});
        let (crr, dpdb, pub_) = (
            "ContainerRecreateRequest",
            "DistributedPodDisruptionBudget",
            "PodUnavailableBudget",
        );
        for (version, kind, annotations, spec, is_allowed) in [
            ("apps.kruise.io/v1beta1", crr, &none, &request, false),
            ("policy.kruise.io/v1alpha1", dpdb, &none, &selects, false),
            ("policy.kruise.io/v1beta1", pub_, &mirror, &selects, false),
            ("policy.kruise.io/v1beta1", pub_, &none, &selects, true),
        ] {
            for (namespace, says) in [
                ("kube-system", "take kube-system off that value"),
                (NAMESPACE, "because it is the controller's own"),
            ] {
                until("the policy is in force", async || {
                    let answer =
                        create(namespace, version, kind, annotations.clone(), spec.clone()).await;
                    if !is_allowed {
                        return refused(kind, answer, says);
                    }
                    answer?;
                    Ok(())
                })
                .await?;
            }
            create(
                "unprotected",
                version,
                kind,
                annotations.clone(),
                spec.clone(),
            )
            .await
            .context("elsewhere")?;
        }
        Ok(())
    })
}

#[test]
fn controller_token_releases_pods_by_hash_label_only() -> Result<()> {
    let stage = Stage::shared()?;
    stage.namespace("released")?;
    stage.run(async |admin| {
        let by_hand = Api::<Pod>::namespaced(admin, "released");
        let own = Api::<Pod>::namespaced(stage.manager().await?, "released");
        let pod = |name: &str, labels: Value, owners: Value, surge: &str| -> Result<Pod> {
            let annotations = json!({"apps.kruise.io/surge-on-eviction": surge});
            Ok(serde_json::from_value(json!({
                "metadata": {"name": name, "labels": labels, "annotations": annotations, "ownerReferences": owners},
                "spec": {"containers": [{"name": "main", "image": "web:1"}]},
            }))?)
        };
        let set = json!([{"apiVersion": "none.example/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true}]);
        let create = PostParams::default();
        let labels = json!({"app": "web", "pod-template-hash": "abc"});
        let web = by_hand.create(&create, &pod("web", labels.clone(), set.clone(), "true")?).await?;
        by_hand.create(&create, &pod("closed", labels, set, "false")?).await?;
        by_hand.create(&create, &pod("bare", json!({"app": "web"}), json!([]), "true")?).await?;
        by_hand.create(&create, &pod("free", json!({}), json!([]), "true")?).await?;
        by_hand.create(&create, &pod("forged", json!({"pod-template-hash": "released-1"}), json!([]), "true")?).await?;
        let (trial, says) = (PatchParams::default().dry_run(), "controls");
        let label = |value: &str| json!({"metadata": {"labels": {"pod-template-hash": value}}});
        until("the policy is in force", async || {
            refused("another hash", own.patch("web", &trial, &merge(label("def"))).await, says)
        })
        .await?;
        let value = |pod: &Pod| format!("released-{}", &pod.uid().unwrap_or_default()[..8]);
        let released = &value(&web);
        let mut more = label(released);
        more["metadata"]["labels"]["app"] = json!("db");
        refused("another label beside", own.patch("web", &trial, &merge(more)).await, says)?;
        refused("a value of its own", own.patch("web", &trial, &merge(label("released-1"))).await, says)?;
        refused("a pod whose template does not say so", own.patch("closed", &trial, &merge(label(released))).await, says)?;
        let mut image = label(released);
        image["spec"] = json!({"containers": [{"name": "main", "image": "evil:1"}]});
        refused("an image beside", own.patch("web", &trial, &Patch::Strategic(image)).await, says)?;
        refused("a pod without an owner", own.patch("bare", &trial, &merge(label(released))).await, says)?;
        own.patch("web", &PatchParams::default(), &merge(label(released))).await.context("it is let go")?;
        let gone = DeleteParams::default().dry_run();
        refused("the end of a pod without an owner", own.delete("bare", &gone).await, says)?;
        refused("the end of one that has an owner", own.delete("web", &gone).await, says)?;
        refused("the end of one with another's value", own.delete("forged", &gone).await, says)?;
        let free = by_hand.get("free").await?;
        by_hand.patch("free", &PatchParams::default(), &merge(label(&value(&free)))).await?;
        let owner = json!({"metadata": {"ownerReferences": [owner("CloneSet", "x")]}});
        refused("its adoption", own.patch("free", &trial, &merge(owner.clone())).await, says)?;
        own.patch("bare", &trial, &merge(owner)).await.context("the adoption of a pod without an owner")?;
        own.delete("free", &gone).await.context("one that was let go")?;
        Ok(())
    })
}
