//! StatefulSets that are stuck, each for another reason: `Blocked` and `explain` name it, with the object and the remedy.

use anyhow::{Context, Result, ensure};
use berth_cluster::Component;
use berth_e2e::objects::{self, APP, kind};
use serde_json::{Value, json};

use crate::world::Case;

const HOSTNAME: &str = "kubernetes.io/hostname";
/// The node that is cordoned, and the one whose kubelet ends.
const CORDONED: &str = "node-2";
const LOST: u8 = 3;

fn set(name: &str, image: &str, fields: &Value) -> Value {
    let clone_set = objects::clone_set(name, 1, image, &json!({}));
    let mut template = clone_set["spec"]["template"].clone();
    template["spec"]["terminationGracePeriodSeconds"] = 1.into();
    let mut set = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "metadata": {"name": name, "annotations": {}},
        "spec": {"replicas": 1, "serviceName": name, "selector": {"matchLabels": {APP: name}}, "template": template},
    });
    for (path, value) in fields.as_object().into_iter().flatten() {
        let (parent, field) = path.rsplit_once('/').unwrap_or_default();
        if let Some(parent) = set.pointer_mut(parent) {
            parent[field] = value.clone();
        }
    }
    set
}

/// Each set, its reason, and words of the message.
const STAGED: [(&str, &str, &[&str]); 7] = [
    ("claimed", "ClaimTerminating", &["data-claimed-0", "kruise.io/test"]),
    ("started", "StartIgnored", &["spec.ordinals.start: 5", "StatefulSetStartOrdinal"]),
    ("pulled", "ImageUnavailable", &["pulled-0", "not-there"]),
    ("named", "NameTaken", &["named-0", "delete it"]),
    ("hooked", "HookNotReleased", &["hooked-0", "kruise.io/test"]),
    (
        "pinned",
        "PinnedNodeUnavailable",
        &["pinned-0", "PersistentPodState pinned", CORDONED, "uncordon", "forget-pod-states=pinned-0"],
    ),
    ("lost", "NodeNotReady", &["lost-0", "node-3", "node.kubernetes.io/out-of-service"]),
];

pub(crate) async fn each_cause_is_named(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    stage(case, &image).await?;
    let staged = async {
        loses_its_node(case).await?;
        for (name, reason, words) in STAGED {
            is_told(case, name, reason, words).await.with_context(|| format!("{name}: {reason}"))?;
        }
        let says = format!("on node {CORDONED}, which is cordoned");
        case.explained_of("persistentpodstate", "pinned", "text", |text| text.contains(&says)).await
    };
    let told = staged.await;
    case.kubectl(&["uncordon", CORDONED]).await?;
    let cluster = case.cluster()?;
    case.blocking(move |_| cluster.start(Component::Kubelet(LOST))).await?;
    case.kubectl(&["wait", "--for=condition=Ready", &format!("node/node-{LOST}"), "--timeout=180s"]).await?;
    case.patch(kind::CLAIM, "data-claimed-0", json!({"metadata": {"finalizers": null}})).await?;
    told?;
    // What is mended is told no more.
    case.kubectl(&["delete", "pod", "named-0", "-n", &case.namespace, "--grace-period=1"]).await?;
    case.patch(kind::POD, "hooked-0", json!({"metadata": {"labels": {"kruise.io/test": null}}})).await?;
    for name in ["claimed", "named", "pinned", "lost"] {
        case.until(kind::STATEFUL_SET, name, |set| blocked(set).is_none() && set["status"]["readyReplicas"] == 1)
            .await?;
    }
    Ok(())
}

async fn stage(case: &Case, image: &str) -> Result<()> {
    let claim = json!({
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
    });
    let mut going = claim.clone();
    (going["apiVersion"], going["kind"]) = (json!("v1"), json!("PersistentVolumeClaim"));
    going["metadata"] = json!({"name": "data-claimed-0", "finalizers": ["kruise.io/test"]});
    case.create(&going).await?;
    case.kubectl(&["delete", "pvc", "data-claimed-0", "-n", &case.namespace, "--wait=false"]).await?;
    let mut taken = objects::clone_set("other", 1, image, &json!({}))["spec"]["template"].clone();
    (taken["apiVersion"], taken["kind"], taken["metadata"]["name"]) = (json!("v1"), json!("Pod"), json!("named-0"));
    case.create(&taken).await?;
    let hook = json!({"preDelete": {"labelsHandler": {"kruise.io/test": "held"}}});
    let recorded = json!({"kruise.io/auto-generate-persistent-pod-state": "true", "kruise.io/required-persistent-topology": HOSTNAME});
    let on = |node: &str| json!({HOSTNAME: node});
    let not_there = format!("{image}-not-there");
    for (name, image, fields) in [
        ("claimed", image, json!({"/spec/volumeClaimTemplates": [claim]})),
        ("started", image, json!({"/spec/ordinals": {"start": 5}})),
        ("pulled", &not_there, json!({})),
        ("named", image, json!({})),
        ("hooked", image, json!({"/spec/lifecycle": hook})),
        ("pinned", image, json!({"/metadata/annotations": recorded})),
        ("lost", image, json!({"/spec/template/spec/nodeSelector": on(&format!("node-{LOST}"))})),
    ] {
        let mut set = set(name, image, &fields);
        if name == "hooked" {
            set["spec"]["template"]["metadata"]["labels"]["kruise.io/test"] = json!("held");
        }
        if name == "pinned" {
            // Only until it has a record.
            set["spec"]["template"]["spec"]["nodeSelector"] = on(CORDONED);
        }
        case.create(&set).await?;
    }
    for name in ["hooked", "pinned", "lost"] {
        case.until(kind::STATEFUL_SET, name, |set| set["status"]["readyReplicas"] == 1).await?;
    }
    case.kubectl(&["scale", "asts", "hooked", "-n", &case.namespace, "--replicas=0"]).await?;
    case.until(kind::PERSISTENT_POD_STATE, "pinned", |state| {
        state["status"]["podStates"]["pinned-0"]["nodeName"] == CORDONED
    })
    .await?;
    case.kubectl(&["cordon", CORDONED]).await?;
    case.kubectl(&["delete", "pod", "pinned-0", "-n", &case.namespace, "--wait=false"]).await.map(|_| ())
}

async fn loses_its_node(case: &Case) -> Result<()> {
    let cluster = case.cluster()?;
    case.blocking(move |_| cluster.kill(Component::Kubelet(LOST))).await?;
    let node = format!("node/node-{LOST}");
    case.kubectl(&["wait", "--for=condition=Ready=Unknown", &node, "--timeout=180s"]).await?;
    case.kubectl(&["delete", "pod", "lost-0", "-n", &case.namespace, "--wait=false"]).await.map(|_| ())
}

fn blocked(set: &Value) -> Option<&Value> {
    set["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == "Blocked")
}

async fn is_told(case: &Case, name: &str, reason: &str, words: &[&str]) -> Result<()> {
    let is = |set: &Value| blocked(set).is_some_and(|condition| condition["reason"] == reason);
    let set = case.until(kind::STATEFUL_SET, name, is).await?;
    let message = blocked(&set).and_then(|condition| condition["message"].as_str()).unwrap_or_default().to_owned();
    ensure!(words.iter().all(|word| message.contains(word)), "it says {message:?}");
    let head: String = message.chars().take_while(|c| !c.is_ascii_digit()).collect();
    case.explained_of("statefulset", name, "text", |text| text.contains(reason) && text.contains(&head))
        .await
        .map(|_| ())
}
