//! DaemonSets, BroadcastJobs and ContainerRecreateRequests that are stuck, each for another reason:
//! `Blocked` and `explain` name it, with the object and the remedy.

use anyhow::{Context, Result, ensure};
use berth_api::names::annotation::DAEMONSET_IGNORE_NOT_READY;
use berth_cluster::Component;
use berth_e2e::objects::{self, APP, CONTAINER, kind};
use serde_json::{Value, json};

use crate::pulls;
use crate::world::Case;

const HOSTNAME: &str = "kubernetes.io/hostname";
/// The node of most of them, and the one whose kubelet ends.
const NODE: &str = "node-1";
const LOST: u8 = 3;
const LOST_NODE: &str = "node-3";
/// More than any node has.
const TOO_MUCH: &str = "1000";

/// The kind, the name, the reason, and words of the message.
const STAGED: [(&str, &str, &str, &[&str]); 13] = [
    (
        kind::DAEMON_SET,
        "held",
        "HookNotReleased",
        &[
            "on node node-1",
            "kruise.io/test=held",
            "spec.lifecycle.preDelete",
        ],
    ),
    (
        kind::DAEMON_SET,
        "surging",
        "HostPortWithSurge",
        &["port 18099", "use maxUnavailable in place of maxSurge"],
    ),
    (
        kind::DAEMON_SET,
        "pulled",
        "ImageUnavailable",
        &["on node node-1", "not-there", "imagePullSecrets"],
    ),
    (
        kind::DAEMON_SET,
        "refused",
        "PodsFail",
        &["pods on node node-1", "OutOfcpu", "make room on the node"],
    ),
    (
        kind::DAEMON_SET,
        "away",
        "NodesNotReady",
        &[LOST_NODE, DAEMONSET_IGNORE_NOT_READY],
    ),
    (
        kind::BROADCAST_JOB,
        "roomless",
        "NoNode",
        &[
            "for too little allocatable cpu",
            "correct spec.template.spec",
        ],
    ),
    (
        kind::BROADCAST_JOB,
        "imageless",
        "ImageUnavailable",
        &["on node node-1", "not-there", "imagePullSecrets"],
    ),
    (
        kind::BROADCAST_JOB,
        "failed",
        "PodFailed",
        &[
            "on node-1",
            "broadcastjob-name=failed",
            r#"{"spec":{"paused":false}}"#,
        ],
    ),
    (
        kind::CONTAINER_RECREATE_REQUEST,
        "gateless",
        "NoReadinessGate",
        &["pod gateless", "KruisePodReadinessGate"],
    ),
    (
        kind::CONTAINER_RECREATE_REQUEST,
        "crashing",
        "NotStarted",
        &["pod crashing", "CrashLoopBackOff", "--previous"],
    ),
    (
        kind::CONTAINER_RECREATE_REQUEST,
        "unready",
        "NotReady",
        &["pod unready", "readiness probes"],
    ),
    (
        kind::CONTAINER_RECREATE_REQUEST,
        "waits",
        "BehindAnother",
        &["unready comes first", "delete it"],
    ),
    (
        kind::CONTAINER_RECREATE_REQUEST,
        "silent",
        "NotReported",
        &[LOST_NODE, "whether the node is up"],
    ),
];

pub(crate) async fn each_cause_is_named(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    let staged = async {
        stage_sets(case, &image).await?;
        stage_jobs(case, &image).await?;
        stage_requests(case, &image).await?;
        loses_its_node(case).await?;
        for (kind, name, reason, words) in STAGED {
            is_told(case, kind, name, reason, words)
                .await
                .with_context(|| format!("{name}: {reason}"))?;
        }
        // The remedy in the message.
        case.patch(
            kind::DAEMON_SET,
            "away",
            json!({"metadata": {"annotations": {DAEMONSET_IGNORE_NOT_READY: "true"}}}),
        )
        .await?;
        case.until(kind::DAEMON_SET, "away", |set| {
            set["status"]["updatedNumberScheduled"] == 2
        })
        .await
        .map(drop)
    };
    pulls::restored(staged, restored(case)).await?;
    mended(case, &image).await
}

/// A fixed cause is not reported any more.
async fn mended(case: &Case, image: &str) -> Result<()> {
    let pods = case.pods("held").await?;
    let held = pods
        .keys()
        .next()
        .context("the pod that the hook holds is gone")?;
    case.patch(
        kind::POD,
        held,
        json!({"metadata": {"labels": {"kruise.io/test": null}}}),
    )
    .await?;
    let set = case.get(kind::DAEMON_SET, "pulled").await?;
    case.patch(
        kind::DAEMON_SET,
        "pulled",
        objects::image_patch(&set, image),
    )
    .await?;
    let mut containers =
        case.get(kind::DAEMON_SET, "refused").await?["spec"]["template"]["spec"]["containers"]
            .take();
    containers[0]["resources"] = json!({});
    let template = json!({"spec": {"template": {"spec": {"containers": containers}}}});
    case.patch(kind::DAEMON_SET, "refused", template).await?;
    case.patch(
        kind::BROADCAST_JOB,
        "failed",
        json!({"spec": {"paused": false}}),
    )
    .await?;
    for (kind, name) in STAGED.iter().map(|(kind, name, ..)| (*kind, *name)) {
        let is_mended = |object: &Value| blocked(object).is_none();
        if ["held", "pulled", "refused", "away", "failed", "silent"].contains(&name) {
            case.until(kind, name, is_mended)
                .await
                .with_context(|| format!("{name} is mended"))?;
        }
    }
    Ok(())
}

/// A set with this rolling update, on one node, and these additional fields of the pods' spec.
fn set(name: &str, image: &str, rolling: &Value, spec: &Value) -> Value {
    let mut template = objects::clone_set(name, 1, image, &json!({}))["spec"]["template"].take();
    template["spec"]["terminationGracePeriodSeconds"] = 1.into();
    for (field, value) in spec.as_object().into_iter().flatten() {
        template["spec"][field] = value.clone();
    }
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "DaemonSet", "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {APP: name}}, "template": template, "updateStrategy": {"rollingUpdate": rolling},
        },
    })
}

async fn stage_sets(case: &Case, image: &str) -> Result<()> {
    let (rolling, one) = (json!({}), json!({"nodeSelector": {HOSTNAME: NODE}}));
    let mut held = set("held", image, &rolling, &one);
    held["spec"]["lifecycle"] = json!({"preDelete": {"labelsHandler": {"kruise.io/test": "held"}}});
    held["spec"]["template"]["metadata"]["labels"]["kruise.io/test"] = "held".into();
    let mut surging = set("surging", image, &json!({"maxSurge": 1}), &one);
    surging["spec"]["template"]["spec"]["containers"][0]["ports"][0]["hostPort"] = 18_099.into();
    // The pod bypasses the scheduler, which would see that the node lacks resources.
    let mut refused = set("refused", image, &rolling, &json!({"nodeName": NODE}));
    refused["spec"]["template"]["spec"]["containers"][0]["resources"] =
        json!({"requests": {"cpu": TOO_MUCH}});
    // Without this toleration, a node that is away does not count for the set.
    let tolerates = json!({"tolerations": [{"operator": "Exists"}]});
    for set in [
        held,
        surging,
        refused,
        set("pulled", image, &rolling, &one),
        set("away", image, &rolling, &tolerates),
    ] {
        case.create(&set).await?;
    }
    let updates = case.image("v2").await?;
    for (name, nodes, image) in [
        ("held", 1, Some(updates.clone())),
        ("surging", 1, Some(updates)),
        ("pulled", 1, Some(format!("{image}-not-there"))),
        ("away", 3, None),
    ] {
        let set = case
            .until(kind::DAEMON_SET, name, |set| {
                set["status"]["numberAvailable"] == nodes
            })
            .await?;
        if let Some(image) = image {
            case.patch(kind::DAEMON_SET, name, objects::image_patch(&set, &image))
                .await?;
        }
    }
    Ok(())
}

async fn stage_jobs(case: &Case, image: &str) -> Result<()> {
    let fails = json!([{"name": "PORT", "value": "none"}]);
    for (name, container) in [
        (
            "roomless",
            json!({"image": image, "resources": {"requests": {"cpu": TOO_MUCH}}}),
        ),
        ("imageless", json!({"image": format!("{image}-not-there")})),
        ("failed", json!({"image": image, "env": fails})),
    ] {
        let mut container = container;
        container["name"] = CONTAINER.into();
        let template = json!({"restartPolicy": "Never", "containers": [container], "nodeSelector": {HOSTNAME: NODE}});
        let job = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "BroadcastJob", "metadata": {"name": name},
            "spec": {"failurePolicy": {"type": "Pause"}, "template": {"spec": template}},
        });
        case.create(&job).await?;
    }
    Ok(())
}

/// Pods without an owner, and a request for each but the last, whose request is created once its
/// node is away.
async fn stage_requests(case: &Case, image: &str) -> Result<()> {
    let no_port = json!({"tcpSocket": {"port": 1}, "periodSeconds": 1});
    for (name, node, field, value) in [
        ("gateless", NODE, "readinessProbe", json!(null)),
        (
            "crashing",
            NODE,
            "env",
            json!([{"name": "PORT", "value": "none"}]),
        ),
        ("unready", NODE, "readinessProbe", no_port),
        ("silent", LOST_NODE, "readinessProbe", json!(null)),
    ] {
        let mut pod = objects::clone_set(name, 1, image, &json!({}))["spec"]["template"].take();
        (pod["apiVersion"], pod["kind"], pod["metadata"]["name"]) =
            (json!("v1"), json!("Pod"), name.into());
        pod["spec"]["nodeName"] = node.into();
        pod["spec"]["containers"][0][field] = value;
        case.create(&pod).await?;
    }
    for (name, pod, strategy) in [
        (
            "gateless",
            "gateless",
            json!({"unreadyGracePeriodSeconds": 1}),
        ),
        ("crashing", "crashing", json!({})),
        ("unready", "unready", json!({})),
        // Its name also sorts after the other's, because both may be created in the same second.
        ("waits", "unready", json!({})),
    ] {
        request(case, name, pod, &strategy).await?;
    }
    Ok(())
}

async fn request(case: &Case, name: &str, pod: &str, strategy: &Value) -> Result<()> {
    let has_begun = |pod: &Value| {
        let status = &pod["status"]["containerStatuses"][0];
        // The crashing container has its id from its first start on.
        status["containerID"]
            .as_str()
            .is_some_and(|id| !id.is_empty())
    };
    case.until(kind::POD, pod, has_begun).await?;
    let request = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "ContainerRecreateRequest", "metadata": {"name": name},
        "spec": {"podName": pod, "containers": [{"name": CONTAINER}], "strategy": strategy},
    });
    case.create(&request).await.map(drop)
}

async fn loses_its_node(case: &Case) -> Result<()> {
    case.until(kind::POD, "silent", |pod| {
        pod["status"]["containerStatuses"][0]["ready"] == true
    })
    .await?;
    let cluster = case.cluster()?;
    case.blocking(move |_| cluster.kill(Component::Kubelet(LOST)))
        .await?;
    // The node's daemon goes on without the kubelet.
    request(
        case,
        "silent",
        "silent",
        &json!({"terminationGracePeriodSeconds": 1}),
    )
    .await?;
    let node = format!("node/{LOST_NODE}");
    case.kubectl(&[
        "wait",
        "--for=condition=Ready=Unknown",
        &node,
        "--timeout=180s",
    ])
    .await?;
    let set = case.get(kind::DAEMON_SET, "away").await?;
    let image = case.image("v3").await?;
    case.patch(kind::DAEMON_SET, "away", objects::image_patch(&set, &image))
        .await
        .map(drop)
}

async fn restored(case: &Case) -> Result<()> {
    let cluster = case.cluster()?;
    case.blocking(move |_| {
        let kubelet = Component::Kubelet(LOST);
        if cluster.runs(kubelet) {
            Ok(())
        } else {
            cluster.start(kubelet)
        }
    })
    .await?;
    case.kubectl(&[
        "wait",
        "--for=condition=Ready",
        &format!("node/{LOST_NODE}"),
        "--timeout=180s",
    ])
    .await
    .map(drop)
}

fn blocked(object: &Value) -> Option<&Value> {
    object["status"]["conditions"]
        .as_array()?
        .iter()
        .find(|condition| condition["type"] == "Blocked")
}

async fn is_told(case: &Case, kind: &str, name: &str, reason: &str, words: &[&str]) -> Result<()> {
    let is =
        |object: &Value| blocked(object).is_some_and(|condition| condition["reason"] == reason);
    let object = case.until(kind, name, is).await?;
    let message = blocked(&object)
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
    let plain = kind.rsplit('/').next().unwrap_or(kind).to_lowercase();
    case.explained_of(&plain, name, "text", |text| {
        text.contains(reason) && text.contains(&head)
    })
    .await?;
    match kind {
        kind::DAEMON_SET => case.shown("ads", name, reason).await,
        kind::BROADCAST_JOB => case.shown("bcj", name, reason).await,
        _ => Ok(()),
    }
}
