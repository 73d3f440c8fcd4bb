//! StatefulSets that are stuck, each for another reason: `Blocked` and `explain` name it, with the
//! object and the remedy.

use anyhow::{Context, Result, anyhow, ensure};
use berth_api::names::annotation::FORGET_POD_STATES as FORGET;
use berth_cluster::Component;
use berth_e2e::objects::{self, APP, kind};
use berth_e2e::pages;
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
    (
        "claimed",
        "ClaimTerminating",
        &["data-claimed-0", "kruise.io/test"],
    ),
    (
        "started",
        "StartIgnored",
        &["spec.ordinals.start: 5", "StatefulSetStartOrdinal"],
    ),
    ("pulled", "ImageUnavailable", &["pulled-0", "not-there"]),
    ("named", "NameTaken", &["named-0", "delete it"]),
    ("hooked", "HookNotReleased", &["hooked-0", "kruise.io/test"]),
    (
        "pinned",
        "PinnedNodeUnavailable",
        &[
            "pinned-0",
            "PersistentPodState pinned",
            CORDONED,
            "uncordon",
            "forget-pod-states=pinned-0",
        ],
    ),
    (
        "lost",
        "NodeNotReady",
        &["lost-0", "node-3", "node.kubernetes.io/out-of-service"],
    ),
];

pub(crate) async fn each_cause_is_named(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    stage(case, &image).await?;
    let staged = async {
        loses_its_node(case).await?;
        for (name, reason, words) in STAGED {
            is_told(case, name, reason, words)
                .await
                .with_context(|| format!("{name}: {reason}"))?;
        }
        let says = format!("on node {CORDONED}, which is cordoned");
        case.explained_of("persistentpodstate", "pinned", "text", |text| {
            text.contains(&says)
        })
        .await
    };
    let told = staged.await;
    case.kubectl(&["uncordon", CORDONED]).await?;
    let cluster = case.cluster()?;
    case.blocking(move |_| cluster.start(Component::Kubelet(LOST)))
        .await?;
    case.kubectl(&[
        "wait",
        "--for=condition=Ready",
        &format!("node/node-{LOST}"),
        "--timeout=180s",
    ])
    .await?;
    case.patch(
        kind::CLAIM,
        "data-claimed-0",
        json!({"metadata": {"finalizers": null}}),
    )
    .await?;
    told?;
    // A fixed cause is not reported any more.
    case.kubectl(&[
        "delete",
        "pod",
        "named-0",
        "-n",
        &case.namespace,
        "--grace-period=1",
    ])
    .await?;
    case.patch(
        kind::POD,
        "hooked-0",
        json!({"metadata": {"labels": {"kruise.io/test": null}}}),
    )
    .await?;
    for name in ["claimed", "named", "pinned", "lost"] {
        case.until(kind::STATEFUL_SET, name, |set| {
            blocked(set).is_none() && set["status"]["readyReplicas"] == 1
        })
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
    case.kubectl(&[
        "delete",
        "pvc",
        "data-claimed-0",
        "-n",
        &case.namespace,
        "--wait=false",
    ])
    .await?;
    let mut taken = objects::clone_set("other", 1, image, &json!({}))["spec"]["template"].clone();
    (
        taken["apiVersion"],
        taken["kind"],
        taken["metadata"]["name"],
    ) = (json!("v1"), json!("Pod"), json!("named-0"));
    case.create(&taken).await?;
    let hook = json!({"preDelete": {"labelsHandler": {"kruise.io/test": "held"}}});
    let recorded = json!({"kruise.io/auto-generate-persistent-pod-state": "true", "kruise.io/required-persistent-topology": HOSTNAME});
    let on = |node: &str| json!({HOSTNAME: node});
    let not_there = format!("{image}-not-there");
    for (name, image, fields) in [
        (
            "claimed",
            image,
            json!({"/spec/volumeClaimTemplates": [claim]}),
        ),
        ("started", image, json!({"/spec/ordinals": {"start": 5}})),
        ("pulled", &not_there, json!({})),
        ("named", image, json!({})),
        ("hooked", image, json!({"/spec/lifecycle": hook})),
        ("pinned", image, json!({"/metadata/annotations": recorded})),
        (
            "lost",
            image,
            json!({"/spec/template/spec/nodeSelector": on(&format!("node-{LOST}"))}),
        ),
    ] {
        let mut set = set(name, image, &fields);
        if name == "hooked" {
            set["spec"]["template"]["metadata"]["labels"]["kruise.io/test"] = json!("held");
        }
        if name == "pinned" {
            // Only until the pod has a record.
            set["spec"]["template"]["spec"]["nodeSelector"] = on(CORDONED);
        }
        case.create(&set).await?;
    }
    for name in ["hooked", "pinned", "lost"] {
        case.until(kind::STATEFUL_SET, name, |set| {
            set["status"]["readyReplicas"] == 1
        })
        .await?;
    }
    case.kubectl(&[
        "scale",
        "asts",
        "hooked",
        "-n",
        &case.namespace,
        "--replicas=0",
    ])
    .await?;
    case.until(kind::PERSISTENT_POD_STATE, "pinned", |state| {
        state["status"]["podStates"]["pinned-0"]["nodeName"] == CORDONED
    })
    .await?;
    case.kubectl(&["cordon", CORDONED]).await?;
    case.kubectl(&[
        "delete",
        "pod",
        "pinned-0",
        "-n",
        &case.namespace,
        "--wait=false",
    ])
    .await
    .map(|_| ())
}

async fn loses_its_node(case: &Case) -> Result<()> {
    let cluster = case.cluster()?;
    case.blocking(move |_| cluster.kill(Component::Kubelet(LOST)))
        .await?;
    let node = format!("node/node-{LOST}");
    case.kubectl(&[
        "wait",
        "--for=condition=Ready=Unknown",
        &node,
        "--timeout=180s",
    ])
    .await?;
    case.kubectl(&[
        "delete",
        "pod",
        "lost-0",
        "-n",
        &case.namespace,
        "--wait=false",
    ])
    .await
    .map(|_| ())
}

/// A class that allows claims to grow, and whose volumes no program enlarges.
const CLASS: &str = "grows";
/// The reports about the claims, the order and the records of four more sets.
const CLAIMS_AND_RECORDS: [(&str, &str, &[&str]); 4] = [
    (
        "offline",
        "FileSystemResizePending",
        &[
            "data-offline-0",
            "pod offline-0 starts next",
            "delete the pod",
        ],
    ),
    (
        "fixed",
        "ClassCannotExpand",
        &[
            "data-fixed-0",
            "StorageClass grows",
            "allowVolumeExpansion: true",
            "1Mi",
        ],
    ),
    (
        "ordered",
        "PredecessorNotReady",
        &["pod ordered-0", "OrderedReady", "data-ordered-0"],
    ),
    (
        "gone",
        "PinnedNodeUnavailable",
        &[
            "gone-0",
            "PersistentPodState gone",
            "node-9, which is gone",
            "forget-pod-states",
        ],
    ),
];

pub(crate) async fn claims_and_records_are_named(case: &Case) -> Result<()> {
    let gates = "StatefulSetAutoResizePVCGate=true";
    let tested = case
        .with_gates(gates, async || claims_and_records(case).await)
        .await;
    case.kubectl(&["delete", "storageclass", CLASS, "--ignore-not-found"])
        .await?;
    tested
}

async fn claims_and_records(case: &Case) -> Result<()> {
    stage_claims(case).await?;
    stage_record(case).await?;
    for (name, reason, words) in CLAIMS_AND_RECORDS {
        is_told(case, name, reason, words)
            .await
            .with_context(|| format!("{name}: {reason}"))?;
    }
    let ordered = case.get(kind::STATEFUL_SET, "ordered").await?;
    case.remedies(
        blocked(&ordered)
            .and_then(|condition| condition["message"].as_str())
            .context("ordered")?,
    )
    .await?;
    // A fixed cause is not reported any more.
    grows(case, true).await?;
    let gone = case.get(kind::STATEFUL_SET, "gone").await?;
    let message = blocked(&gone)
        .and_then(|condition| condition["message"].as_str())
        .context("gone")?;
    let [forget, record_again] = pages::commands(message)
        .try_into()
        .map_err(|all| anyhow!("{all:?} in: {message}"))?;
    case.patch(
        kind::PERSISTENT_POD_STATE,
        "gone",
        json!({"metadata": {"annotations": {FORGET: "gone-7"}}}),
    )
    .await?;
    case.twice(&forget).await?;
    let forgotten = |state: &Value| state["status"]["podStates"]["gone-0"].is_null();
    case.until(kind::PERSISTENT_POD_STATE, "gone", forgotten)
        .await?;
    case.kubectl(&[
        "delete",
        "pod",
        "gone-0",
        "-n",
        &case.namespace,
        "--wait=false",
    ])
    .await?;
    for name in ["offline", "fixed", "ordered"] {
        let claim = format!("data-{name}-0");
        case.until(kind::CLAIM, &claim, |claim| {
            claim["spec"]["resources"]["requests"]["storage"] == "2Mi"
        })
        .await?;
        resize_status(
            case,
            &claim,
            &json!({"capacity": {"storage": "2Mi"}, "conditions": null}),
        )
        .await?;
    }
    for (name, ..) in CLAIMS_AND_RECORDS {
        let serves = |set: &Value| set["status"]["readyReplicas"] == set["spec"]["replicas"];
        case.until(kind::STATEFUL_SET, name, |set| {
            blocked(set).is_none() && serves(set)
        })
        .await
        .context(name)?;
    }
    case.twice(&record_again).await?;
    let is_recorded = |state: &Value| !state["status"]["podStates"]["gone-0"].is_null();
    case.until(kind::PERSISTENT_POD_STATE, "gone", is_recorded)
        .await
        .map(drop)
}

async fn grows(case: &Case, grows: bool) -> Result<()> {
    let patch = json!({"allowVolumeExpansion": grows}).to_string();
    case.kubectl(&["patch", "storageclass", CLASS, "-p", &patch])
        .await
        .map(drop)
}

/// Writes a resizer's status of a claim.
async fn resize_status(case: &Case, claim: &str, status: &Value) -> Result<()> {
    let patch = json!({"status": status}).to_string();
    let arguments = [
        "patch",
        "pvc",
        claim,
        "-n",
        &case.namespace,
        "--subresource=status",
        "--type=merge",
        "-p",
        &patch,
    ];
    case.kubectl(&arguments).await.map(drop)
}

/// Three sets whose claims must grow: one waits for the pod's next start, one may not grow, and the
/// volume of one is not enlarged, so that the pod behind it waits.
async fn stage_claims(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    let standard = case
        .get("storage.k8s.io/v1/StorageClass", "standard")
        .await?;
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": CLASS},
        "provisioner": standard["provisioner"], "allowVolumeExpansion": true,
    });
    case.create(&class).await?;
    let templates = |size: &str| {
        let resources = json!({"requests": {"storage": size}});
        json!([{"metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": CLASS, "resources": resources}}])
    };
    let fields = json!({
        "/spec/volumeClaimTemplates": templates("1Mi"), "/spec/volumeClaimUpdateStrategy": {"type": "OnPodRollingUpdate"},
    });
    for name in ["offline", "fixed", "ordered"] {
        case.create(&set(name, &image, &fields)).await?;
    }
    let bigger = json!({"spec": {"volumeClaimTemplates": templates("2Mi")}});
    let mut paused = bigger.clone();
    paused["spec"]["updateStrategy"] = json!({"rollingUpdate": {"paused": true}});
    for (name, patch) in [
        ("offline", &bigger),
        ("ordered", &bigger),
        ("fixed", &paused),
    ] {
        case.until(kind::STATEFUL_SET, name, |set| {
            set["status"]["readyReplicas"] == 1
        })
        .await?;
        case.patch(kind::STATEFUL_SET, name, patch.clone()).await?;
    }
    let now = k8s_openapi::jiff::Timestamp::now().to_string();
    for (name, condition) in [
        ("offline", "FileSystemResizePending"),
        ("ordered", "Resizing"),
    ] {
        let claim = format!("data-{name}-0");
        case.until(kind::CLAIM, &claim, |claim| {
            claim["spec"]["resources"]["requests"]["storage"] == "2Mi"
        })
        .await?;
        let condition = json!({"type": condition, "status": "True", "lastTransitionTime": now});
        resize_status(case, &claim, &json!({"conditions": [condition]})).await?;
    }
    case.patch(
        kind::STATEFUL_SET,
        "ordered",
        json!({"spec": {"replicas": 2}}),
    )
    .await?;
    // The apiserver's policy would refuse the template once the class does not let claims grow.
    grows(case, false).await?;
    case.patch(
        kind::STATEFUL_SET,
        "fixed",
        json!({"spec": {"updateStrategy": {"rollingUpdate": {"paused": false}}}}),
    )
    .await
    .map(drop)
}

/// A record that names a node that does not exist, of a pod that is created after it.
async fn stage_record(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    let mut none = set("gone", &image, &json!({}));
    none["spec"]["replicas"] = json!(0);
    case.create(&none).await?;
    let spec = json!({
        "targetRef": {"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": "gone"},
        "requiredPersistentTopology": {"keys": [HOSTNAME]}, "persistentPodStateRetentionPolicy": "WhenDeleted",
    });
    let records = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "PersistentPodState", "metadata": {"name": "gone"}, "spec": spec,
    });
    case.create(&records).await?;
    let record = json!({"status": {"podStates": {
        "gone-0": {"nodeName": "node-9", "nodeTopologyLabels": {HOSTNAME: "node-9"}},
    }}})
    .to_string();
    let arguments = [
        "patch",
        "persistentpodstate",
        "gone",
        "-n",
        &case.namespace,
        "--subresource=status",
        "--type=merge",
        "-p",
    ];
    case.kubectl(&[&arguments[..], &[&record]].concat()).await?;
    case.kubectl(&[
        "scale",
        "asts",
        "gone",
        "-n",
        &case.namespace,
        "--replicas=1",
    ])
    .await
    .map(drop)
}

fn blocked(set: &Value) -> Option<&Value> {
    set["status"]["conditions"]
        .as_array()?
        .iter()
        .find(|condition| condition["type"] == "Blocked")
}

async fn is_told(case: &Case, name: &str, reason: &str, words: &[&str]) -> Result<()> {
    let is = |set: &Value| blocked(set).is_some_and(|condition| condition["reason"] == reason);
    let set = case.until(kind::STATEFUL_SET, name, is).await?;
    let message = blocked(&set)
        .and_then(|condition| condition["message"].as_str())
        .unwrap_or_default()
        .to_owned();
    ensure!(
        words.iter().all(|word| message.contains(word)),
        "it says {message:?}"
    );
    let head: String = message
        .chars()
        .take_while(|c| !c.is_ascii_digit())
        .collect();
    case.explained_of("statefulset", name, "text", |text| {
        text.contains(reason) && text.contains(&head)
    })
    .await?;
    case.shown("asts", name, reason).await
}
