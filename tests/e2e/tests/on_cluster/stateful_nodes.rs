//! A node is drained, reboots or is deleted, under an Advanced StatefulSet and under Kubernetes'
//! own: its pods return to their places, or a report says why they do not.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use berth_cluster::{Component, Place};
use berth_e2e::objects::{self, kind};
use berth_e2e::record::PodView;
use serde_json::{Value, json};

use crate::kept_ips;
use crate::pulls;
use crate::world::Case;

/// The node that leaves; each set has a pod on it.
const NODE: u8 = 2;
const HOSTNAME: &str = "kubernetes.io/hostname";
/// Each set's name and kind.
const SETS: [(&str, &str); 2] = [
    ("advanced", kind::STATEFUL_SET),
    ("native", kind::NATIVE_STATEFUL_SET),
];

/// Three pods, one on each node, each with a claim, whose places are recorded and whose IPs are
/// kept.
fn set(name: &str, set_kind: &str, image: &str) -> Value {
    let mut template = objects::clone_set(name, 3, image, &json!({}))["spec"]["template"].take();
    template["metadata"]["annotations"] = json!({"io.kubernetes.cri/reserved-ip-duration": "30"});
    template["spec"]["topologySpreadConstraints"] = json!([{
        "maxSkew": 1, "topologyKey": HOSTNAME, "whenUnsatisfiable": "DoNotSchedule", "nodeTaintsPolicy": "Ignore",
        "labelSelector": {"matchLabels": {objects::APP: name}},
    }]);
    let (api_version, kind) = set_kind.rsplit_once('/').unwrap_or_default();
    let claim = json!({
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
    });
    let annotations = json!({
        "kruise.io/auto-generate-persistent-pod-state": "true", "kruise.io/required-persistent-topology": HOSTNAME,
    });
    json!({
        "apiVersion": api_version, "kind": kind, "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "replicas": 3, "serviceName": name, "podManagementPolicy": "Parallel", "template": template,
            "selector": {"matchLabels": {objects::APP: name}}, "volumeClaimTemplates": [claim],
        },
    })
}

type Pods = BTreeMap<String, PodView>;

/// The pods when all three serve.
async fn serving(case: &Case, name: &str, set_kind: &str) -> Result<Pods> {
    case.until(set_kind, name, |set| set["status"]["readyReplicas"] == 3)
        .await?;
    case.pods(name).await
}

/// The pod that is on the node.
fn on_node(pods: &Pods) -> Result<&PodView> {
    let node = Place::Node(NODE).to_string();
    pods.values()
        .find(|pod| pod.node == node)
        .with_context(|| format!("no pod on {node}: {pods:?}"))
}

/// The pods on other nodes are the same; the node's pod is back in its place, and another one only
/// if it was `replaced`.
fn ensure_back(before: &Pods, after: &Pods, replaced: bool) -> Result<()> {
    let moved = on_node(before)?;
    for (name, was) in before {
        let is = after
            .get(name)
            .with_context(|| format!("{name} is missing"))?;
        ensure!(
            is.node == was.node && is.ip == was.ip,
            "{name} was at {} on {}: {is:?}",
            was.ip,
            was.node
        );
        let is_same = is.uid == was.uid;
        ensure!(
            is_same != (replaced && *name == moved.name),
            "{name}, replaced: {}",
            !is_same
        );
    }
    Ok(())
}

pub(crate) async fn pods_come_back_to_a_node_that_was_away(case: &Case) -> Result<()> {
    kept_ips::install_plugin(case).await?;
    let image = case.image("v1").await?;
    let mut before = Vec::new();
    for (name, set_kind) in SETS {
        case.create(&set(name, set_kind, &image)).await?;
    }
    for (name, set_kind) in SETS {
        let pods = serving(case, name, set_kind).await?;
        let recorded = |state: &Value| {
            let states = &state["status"]["podStates"];
            pods.values()
                .all(|pod| states[&pod.name]["nodeName"] == pod.node)
        };
        case.until(kind::PERSISTENT_POD_STATE, name, recorded)
            .await?;
        before.push(pods);
    }
    drained(case, &before).await.context("drained")?;
    booted(case).await.context("booted")?;
    pulls::restored(async { gone(case).await.context("gone") }, back(case)).await
}

/// An evicted pod waits for its node, which is reported, and is back when the node accepts pods
/// again.
async fn drained(case: &Case, before: &[Pods]) -> Result<()> {
    let node = Place::Node(NODE).to_string();
    let drain = [
        "drain",
        &node,
        "--ignore-daemonsets",
        "--delete-emptydir-data",
        "--timeout=180s",
    ];
    let tested = async {
        case.kubectl(&drain).await?;
        says(case, &format!("on node {node}, which is cordoned")).await
    };
    pulls::restored(tested, async {
        case.kubectl(&["uncordon", &node]).await.map(drop)
    })
    .await?;
    for ((name, set_kind), before) in SETS.into_iter().zip(before) {
        ensure_back(before, &serving(case, name, set_kind).await?, true).context(name)?;
    }
    Ok(())
}

/// Checks that `explain` says of each set's pod why it is missing, and that the Advanced set's
/// condition does.
async fn says(case: &Case, what: &str) -> Result<()> {
    for (name, _) in SETS {
        case.explained_of("persistentpodstate", name, "text", |text| {
            text.contains(what)
        })
        .await?;
    }
    let told = |set: &Value| {
        let mut conditions = set["status"]["conditions"].as_array().into_iter().flatten();
        conditions.any(|c| {
            c["reason"] == "PinnedNodeUnavailable"
                && c["message"].as_str().is_some_and(|m| m.contains(what))
        })
    };
    case.until(kind::STATEFUL_SET, "advanced", told)
        .await
        .map(drop)
}

/// The kubelet starts the same pods again.
async fn booted(case: &Case) -> Result<()> {
    let mut before = Vec::new();
    for (name, set_kind) in SETS {
        before.push(serving(case, name, set_kind).await?);
    }
    kept_ips::reboot(case, NODE, "advanced").await?;
    for ((name, set_kind), before) in SETS.into_iter().zip(&before) {
        ensure_back(before, &serving(case, name, set_kind).await?, false).context(name)?;
    }
    Ok(())
}

/// Pods of a node that does not exist any more wait for it, which is reported, until their records
/// are deleted.
async fn gone(case: &Case) -> Result<()> {
    let mut before = Vec::new();
    for (name, set_kind) in SETS {
        before.push(serving(case, name, set_kind).await?);
    }
    let node = Place::Node(NODE).to_string();
    let cluster = case.cluster()?;
    case.blocking(move |_| cluster.kill(Component::Kubelet(NODE)))
        .await?;
    case.kubectl(&["delete", "node", &node]).await?;
    says(case, &format!("on node {node}, which is gone")).await?;
    for ((name, set_kind), before) in SETS.into_iter().zip(&before) {
        let lost = on_node(before)?;
        let forget = format!("kruise.io/forget-pod-states={}", lost.name);
        case.kubectl(&[
            "annotate",
            "--overwrite",
            "persistentpodstate",
            "-n",
            &case.namespace,
            name,
            &forget,
        ])
        .await?;
        let forgotten = |state: &Value| state["status"]["podStates"][&lost.name].is_null();
        case.until(kind::PERSISTENT_POD_STATE, name, forgotten)
            .await?;
        let delete = [
            "delete",
            "pod",
            "-n",
            &case.namespace,
            &lost.name,
            "--grace-period=1",
            "--wait=false",
        ];
        case.kubectl(&delete).await?;
        case.until(kind::POD, &lost.name, |pod| {
            pod["metadata"]["uid"] != lost.uid
        })
        .await?;
        let after = serving(case, name, set_kind).await?;
        for (pod, was) in before {
            let is = after
                .get(pod)
                .with_context(|| format!("{pod} is missing"))?;
            let is_same = is.uid == was.uid && is.node == was.node && is.ip == was.ip;
            ensure!(
                is_same == (*pod != lost.name) && is.node != node,
                "{was:?} is now {is:?}"
            );
        }
    }
    Ok(())
}

/// The node registers again.
async fn back(case: &Case) -> Result<()> {
    let cluster = case.cluster()?;
    case.blocking(move |_| {
        if cluster.runs(Component::Kubelet(NODE)) {
            Ok(())
        } else {
            cluster.start(Component::Kubelet(NODE))
        }
    })
    .await?;
    pulls::until_node(case, NODE, |_| true).await?;
    let node = format!("node/{}", Place::Node(NODE));
    case.kubectl(&["wait", "--for=condition=Ready", &node, "--timeout=180s"])
        .await
        .map(drop)
}
