//! Runs the commands of messages as they are printed, twice.

use anyhow::{Context, Result, anyhow, ensure};
use berth_api::commands::{self, Named};
use berth_api::kinds::broadcastjob::names::label::BROADCASTJOB_NAME;
use berth_api::names::SYSTEM_NAMESPACE;
use berth_api::names::annotation::FORGET_POD_STATES;
use berth_api::names::label::DELETE_PROTECTION;
use berth_e2e::objects::{self, APP, CONTAINER, kind};
use serde_json::{Value, json};

use crate::world::Case;

/// A node without a kubelet.
const NODE: &str = "remedies";

/// Each command of `berth_api::commands`, on real objects.
pub(crate) async fn each_command_runs_twice(case: &Case) -> Result<()> {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}});
    case.create(&node).await?;
    let ran = commands_run(case).await;
    case.kubectl(&["delete", "node", NODE]).await?;
    ran
}

async fn commands_run(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    case.create(&crashing(&image)).await?;
    let crashed = case
        .until(kind::CLONE_SET, "crash", |set| {
            message(set, "ContainerCrashLooping").is_some()
        })
        .await?;
    let pod = crashed_pod(case).await?;
    let state = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "PersistentPodState",
        "metadata": {"name": "keep", "annotations": {FORGET_POD_STATES: "db-0"}},
        "spec": {"targetRef": {"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": "db"},
                 "requiredPersistentTopology": {"keys": ["kubernetes.io/hostname"]}},
    });
    case.create(&state).await?;
    let namespace = case.namespace.as_str();
    let named = |resource, name| Named {
        resource,
        namespace,
        name,
    };
    let (keep, crash) = (
        named("persistentpodstate", "keep"),
        named("clonesets.apps.kruise.io", "crash"),
    );
    for command in [
        commands::annotate(keep, FORGET_POD_STATES, "db-1,db-2"),
        commands::take_annotation(keep, FORGET_POD_STATES),
        commands::take_label(crash, DELETE_PROTECTION),
        commands::patch(crash, r#"{"spec":{"replicas":1}}"#),
        commands::taint(
            NODE,
            "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute",
        ),
        commands::describe(crash),
        commands::describe_all("pvc", namespace),
        commands::list("nodes", ""),
        commands::list("controllerrevisions", SYSTEM_NAMESPACE),
        commands::list_everywhere("podunavailablebudgets.policy.kruise.io"),
        commands::previous_log(namespace, &pod, CONTAINER),
        commands::logs(namespace, &format!("{APP}=crash")),
        commands::logs(namespace, &format!("{BROADCASTJOB_NAME}=none")),
        commands::flat_kubeconfig().to_owned(),
    ] {
        case.remedies(&command).await?;
    }
    let told = message(&crashed, "ContainerCrashLooping").context("no message")?;
    ensure!(
        told.contains(&commands::previous_log(namespace, &pod, CONTAINER)),
        "{told}"
    );
    Ok(())
}

/// The messages that a test can cause in a namespace. `stuck_sets` has those of nodes, claims and
/// records.
pub(crate) async fn each_message_has_commands_that_run(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    for object in [
        crashing(&image),
        without_claim(&image),
        failing_job(&image),
        missing_images(case),
    ] {
        case.create(&object).await?;
    }
    for (kind, name, reason) in [
        (kind::CLONE_SET, "crash", "ContainerCrashLooping"),
        (kind::BROADCAST_JOB, "job", "PodFailed"),
        (kind::CLONE_SET, "unclaimed", "PodUnschedulable"),
    ] {
        let object = case
            .until(kind, name, |object| message(object, reason).is_some())
            .await?;
        case.remedies(message(&object, reason).unwrap_or_default())
            .await
            .context(name)?;
    }
    let has_failed = |job: &Value| job["status"]["failedImageStatuses"][0]["message"].is_string();
    let job = case
        .until(kind::IMAGE_LIST_PULL_JOB, "images", has_failed)
        .await?;
    case.remedies(
        job["status"]["failedImageStatuses"][0]["message"]
            .as_str()
            .unwrap_or_default(),
    )
    .await?;
    for arguments in [&["cloneset", "absent"][..], &["sidecarset", "absent"]] {
        let why = [&["why"], arguments, &["-n", &case.namespace]].concat();
        let refused = case
            .plugin(&why)
            .await
            .err()
            .ok_or_else(|| anyhow!("{arguments:?} is there"))?;
        case.remedies(&format!("{refused:#}")).await?;
    }
    protected(case).await
}

/// The apiserver's own refusal, and the controller's. Both stop once the label is removed.
async fn protected(case: &Case) -> Result<()> {
    let labels = json!({DELETE_PROTECTION: "Always"});
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "kept", "labels": labels},
        "spec": {"ports": [{"port": 80}]},
    });
    case.create(&service).await?;
    case.kubectl(&[
        "label",
        "namespace",
        &case.namespace,
        &format!("{DELETE_PROTECTION}=Cascading"),
    ])
    .await?;
    for [kind, name] in [["service", "kept"], ["namespace", &case.namespace]] {
        let delete = ["delete", kind, name, "-n", &case.namespace, "--wait=false"];
        let refused = case
            .kubectl(&delete)
            .await
            .err()
            .ok_or_else(|| anyhow!("{kind} {name} is deleted"))?;
        case.remedies(&format!("{refused:#}")).await?;
    }
    case.kubectl(&["delete", "service", "kept", "-n", &case.namespace])
        .await
        .map(drop)
}

/// The message of a condition Blocked with this reason.
fn message<'a>(object: &'a Value, reason: &str) -> Option<&'a str> {
    let mut conditions = object["status"]["conditions"].as_array()?.iter();
    conditions.find(|c| c["type"] == "Blocked" && c["reason"] == reason)?["message"].as_str()
}

fn crashing(image: &str) -> Value {
    let mut set = objects::clone_set("crash", 1, image, &json!({}));
    set["spec"]["template"]["spec"]["containers"][0]["env"] =
        json!([{"name": "PORT", "value": "none"}]);
    set
}

async fn crashed_pod(case: &Case) -> Result<String> {
    Ok(case.pods("crash").await?.pop_first().context("no pod")?.0)
}

fn without_claim(image: &str) -> Value {
    let mut set = objects::clone_set("unclaimed", 1, image, &json!({}));
    set["spec"]["template"]["spec"]["volumes"] =
        json!([{"name": "data", "persistentVolumeClaim": {"claimName": "absent"}}]);
    set
}

fn failing_job(image: &str) -> Value {
    let container =
        json!({"name": "main", "image": image, "env": [{"name": "PORT", "value": "none"}]});
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "BroadcastJob", "metadata": {"name": "job"},
        "spec": {"failurePolicy": {"type": "Pause"},
                 "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    })
}

fn missing_images(case: &Case) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "ImageListPullJob", "metadata": {"name": "images"},
        "spec": {"images": [case.site.image(&format!("{}:missing", case.namespace))],
                 "pullPolicy": {"backoffLimit": 0, "timeoutSeconds": 20},
                 "completionPolicy": {"type": "Always"}},
    })
}
