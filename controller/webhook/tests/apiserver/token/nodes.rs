//! The controller's token and nodes: it removes the taints that wait for images, and writes nothing
//! else.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::admission::{merge, refused, trial};
use crate::stage::{Stage, until};

const OURS: &str = "apps.kruise.io/images-not-ready";
const AT_STARTUP: &str = "startup-taint.cluster-autoscaler.kubernetes.io/images-not-ready";

fn taint(key: &str, effect: &str) -> Value {
    json!({"key": key, "value": "v", "effect": effect})
}

fn node(taints: &[Value]) -> Result<Node> {
    let body = json!({"metadata": {"name": "joins", "labels": {"zone": "a"}}, "spec": {"taints": taints, "providerID": "p"}});
    Ok(serde_json::from_value(body)?)
}

fn taints(taints: &[Value]) -> Patch<Value> {
    merge(json!({"spec": {"taints": if taints.is_empty() { Value::Null } else { json!(taints) }}}))
}

/// The taints that the node has.
async fn held(nodes: &Api<Node>) -> Result<Vec<Value>> {
    let node = nodes.get("joins").await?;
    Ok(node
        .spec
        .and_then(|spec| spec.taints)
        .iter()
        .flatten()
        .map(|taint| json!(taint))
        .collect())
}

/// The writes of a thief of the token to a node that has these taints.
fn thefts(all: &[Value]) -> Vec<(&'static str, Patch<Value>)> {
    let [gpu, ours, zone, at_startup] = all else {
        return Vec::new();
    };
    let other = |key: &str, effect: &str| [gpu.clone(), taint(key, effect), zone.clone()];
    let free = [gpu.clone(), zone.clone()];
    let beside = |field: Value| {
        let mut body = json!({"spec": {"taints": free}});
        json_patch::merge(&mut body, &field);
        merge(body)
    };
    vec![
        (
            "another taint less",
            taints(&[ours.clone(), zone.clone(), at_startup.clone()]),
        ),
        ("all taints less", taints(&[])),
        ("another one less beside", taints(std::slice::from_ref(gpu))),
        (
            "others in another order",
            taints(&[zone.clone(), gpu.clone()]),
        ),
        ("one more", taints(&other("evil", "NoExecute"))),
        (
            "another effect",
            taints(&[taint("gpu", "PreferNoSchedule"), zone.clone()]),
        ),
        (
            "one that stays",
            taints(&[gpu.clone(), ours.clone(), zone.clone()]),
        ),
        (
            "one of ours with another effect",
            taints(&other(OURS, "NoExecute")),
        ),
        (
            "a label beside",
            beside(json!({"metadata": {"labels": {"zone": "b"}}})),
        ),
        (
            "an annotation beside",
            beside(json!({"metadata": {"annotations": {"a": "b"}}})),
        ),
        (
            "a finalizer beside",
            beside(json!({"metadata": {"finalizers": ["x.io/y"]}})),
        ),
        (
            "an owner beside",
            beside(json!({"metadata": {"ownerReferences": [
                {"apiVersion": "v1", "kind": "Namespace", "name": "gone", "uid": "u"},
            ]}})),
        ),
        (
            "a cordon beside",
            beside(json!({"spec": {"unschedulable": true}})),
        ),
        (
            "an address range beside",
            beside(json!({"spec": {"podCIDR": "10.9.0.0/24", "podCIDRs": ["10.9.0.0/24"]}})),
        ),
    ]
}

pub(crate) fn only_image_taints(stage: &Stage) -> Result<()> {
    stage.run(async |admin| {
        let (by_hand, manager) = (
            Api::<Node>::all(admin),
            Api::<Node>::all(stage.manager().await?),
        );
        let write = PatchParams::default();
        let all = [
            taint("gpu", "NoSchedule"),
            taint(OURS, "NoSchedule"),
            taint("zone", "NoSchedule"),
            taint(AT_STARTUP, "NoExecute"),
        ];
        by_hand.create(&PostParams::default(), &node(&all)?).await?;
        by_hand.patch("joins", &write, &taints(&all)).await?;
        let says = "of nodes kruise-manager may take away the taints";
        let label = merge(json!({"metadata": {"labels": {"zone": "b"}}}));
        until("the policy is in force", async || {
            refused(
                "a label",
                manager.patch("joins", &trial(), &label).await,
                says,
            )
        })
        .await?;
        for (what, patch) in thefts(&all) {
            refused(what, manager.patch("joins", &write, &patch).await, says)?;
        }
        let held = held(&by_hand).await?;
        ensure!(all.iter().all(|taint| held.contains(taint)), "{held:?}");
        let free = async || {
            let mut rest = self::held(&by_hand).await?;
            rest.retain(|taint| taint["key"] != OURS && taint["key"] != AT_STARTUP);
            manager
                .patch("joins", &write, &taints(&rest))
                .await
                .context("the taints go")
        };
        // Kubernetes adds taints of its own to a node without a kubelet, at any time.
        until("the taints go", free).await?;
        let rest = self::held(&by_hand).await?;
        ensure!(
            all.iter()
                .all(|taint| rest.contains(taint)
                    == (taint["key"] == "gpu" || taint["key"] == "zone")),
            "{rest:?}"
        );

        // Even if an administrator gives the account every right, the policy holds.
        let binding = "--serviceaccount=kruise-system:kruise-manager";
        stage.kubectl(
            &[
                "create",
                "clusterrolebinding",
                "careless-controller",
                "--clusterrole=cluster-admin",
                binding,
            ],
            None,
        )?;
        let ready = merge(json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}));
        until("the rights are there", async || {
            refused(
                "a status",
                manager.patch_status("joins", &trial(), &ready).await,
                says,
            )
        })
        .await?;
        refused(
            "a node's deletion",
            manager.delete("joins", &DeleteParams::default()).await,
            says,
        )?;
        let mut another = node(&[])?;
        another.metadata.name = Some("evil".to_owned());
        refused(
            "a node of its own",
            manager.create(&PostParams::default(), &another).await,
            says,
        )
    })
}

/// Without the value `joiningNodes.takeTaint` the controller has no right to write nodes.
pub(crate) fn no_taints(stage: &Stage) -> Result<()> {
    stage.run(async |admin| {
        let (by_hand, manager) = (
            Api::<Node>::all(admin),
            Api::<Node>::all(stage.manager().await?),
        );
        by_hand
            .create(&PostParams::default(), &node(&[taint(OURS, "NoSchedule")])?)
            .await?;
        refused(
            "the taint",
            manager
                .patch("joins", &PatchParams::default(), &taints(&[]))
                .await,
            "cannot patch",
        )?;
        by_hand.delete("joins", &DeleteParams::default()).await?;
        Ok(())
    })
}
