//! Resources of containers that change in place.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use berth_api::names::annotation::INPLACE_UPDATE_STATE;
use berth_cluster::versions::Kubernetes;
use berth_e2e::install;
use berth_e2e::objects::{self, CONTAINER, kind};
use berth_e2e::record::{Change, PodView};
use serde_json::{Value, json};

use crate::world::{Case, ensure_in_place};

/// A CloneSet of two pods with this image and cpu, all of its pods ready.
async fn clone_set(case: &Case, image: &str, cpu: &str) -> Result<()> {
    let strategy = json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": "100%"});
    let mut set = objects::clone_set("web", 2, image, &strategy);
    set["spec"]["template"]["spec"]["containers"][0]["resources"] = resources(cpu);
    case.create(&set).await?;
    case.done("web").await?;
    Ok(())
}

fn resources(cpu: &str) -> Value {
    json!({"requests": {"cpu": cpu, "memory": "16Mi"}})
}

async fn set_container(case: &Case, edit: impl FnOnce(&mut Value)) -> Result<Value> {
    let set = case.get(kind::CLONE_SET, "web").await?;
    let mut containers = set["spec"]["template"]["spec"]["containers"].clone();
    edit(&mut containers[0]);
    case.patch(
        kind::CLONE_SET,
        "web",
        json!({"spec": {"template": {"spec": {"containers": containers}}}}),
    )
    .await
}

/// Every pod requests this cpu, and has it by its kubelet's report.
async fn ensure_cpu(case: &Case, cpu: &str) -> Result<()> {
    for pod in case.pods("web").await?.keys() {
        let pod = case.get(kind::POD, pod).await?;
        let (wanted, given) = (
            &pod["spec"]["containers"][0],
            &pod["status"]["containerStatuses"][0],
        );
        for container in [wanted, given] {
            let found = &container["resources"]["requests"]["cpu"];
            ensure!(
                found == cpu,
                "{CONTAINER} has cpu {found}, not {cpu}: {}",
                pod["status"]
            );
        }
        let conditions = pod["status"]["conditions"]
            .as_array()
            .context("no conditions")?;
        let resizing = conditions.iter().find(|c| {
            c["type"]
                .as_str()
                .unwrap_or_default()
                .starts_with("PodResize")
        });
        ensure!(resizing.is_none(), "a resize is not done: {resizing:?}");
    }
    Ok(())
}

pub(crate) async fn cpu_is_raised_without_a_restart(case: &Case) -> Result<()> {
    clone_set(case, &case.image("v1").await?, "10m").await?;
    let before = case.pods("web").await?;
    let watch = case.watch("web").await?;
    set_container(case, |container| container["resources"] = resources("20m")).await?;
    case.done("web").await?;
    ensure_in_place(&before, &case.pods("web").await?, 0)?;
    ensure_cpu(case, "20m").await?;
    let record = watch.record()?;
    let away = |change: &Change| matches!(change, Change::Is(pod) if !pod.ready);
    ensure!(
        !record.entries().iter().any(|entry| away(&entry.change)),
        "a pod was out of service while it was resized"
    );
    for pod in before.keys() {
        let state = case.state(pod).await?;
        ensure!(
            state["updateResources"] == true && state["berthVerifiedBy"] == "pod",
            "{state}"
        );
        ensure!(
            state["berthResources"].is_null(),
            "what is proven is still wanted: {state}"
        );
    }
    Ok(())
}

pub(crate) async fn cpu_and_image_change_together(case: &Case) -> Result<()> {
    let (one, two) = (case.image("v1").await?, case.image("v2").await?);
    clone_set(case, &one, "10m").await?;
    let before = case.pods("web").await?;
    set_container(case, |container| {
        container["image"] = json!(two);
        container["resources"] = resources("20m");
    })
    .await?;
    case.done("web").await?;
    ensure_in_place(&before, &case.pods("web").await?, 1)?;
    ensure_cpu(case, "20m").await
}

/// More than any node has.
const TOO_MUCH: &str = "1000";

/// The message of the condition `Blocked` for a resize that is infeasible.
fn infeasible(set: &Value) -> Option<&str> {
    let mut conditions = set["status"]["conditions"].as_array()?.iter();
    conditions.find(|one| one["type"] == "Blocked" && one["reason"] == "ResizeInfeasible")?["message"].as_str()
}

/// How many pods the status reports as updated, as updated and ready, as updated and available, and
/// as ready.
fn counts(set: &Value) -> [u64; 4] {
    [
        "updatedReplicas",
        "updatedReadyReplicas",
        "updatedAvailableReplicas",
        "readyReplicas",
    ]
    .map(|count| set["status"][count].as_u64().unwrap_or(0))
}

/// The component that refuses an infeasible resize: the apiserver since Kubernetes 1.36, before
/// that the kubelet.
fn refusing_component(case: &Case) -> Result<&'static str> {
    Ok(
        if case.cluster()?.versions().kubernetes >= Kubernetes::V1_36 {
            "the apiserver says: "
        } else {
            "the kubelet says: "
        },
    )
}

/// Waits until the status says that the resize is infeasible and that no pod of two is updated, and
/// returns the message.
async fn blocked(case: &Case) -> Result<String> {
    let is_told = |set: &Value| infeasible(set).is_some() && counts(set) == [0, 0, 0, 2];
    let set = case.until(kind::CLONE_SET, "web", is_told).await?;
    Ok(infeasible(&set).unwrap_or_default().to_owned())
}

/// Rolls the template back, and checks that everything is as before.
async fn taken_back(case: &Case, before: &BTreeMap<String, PodView>) -> Result<()> {
    set_container(case, |container| container["resources"] = resources("10m")).await?;
    let done = case.done("web").await?;
    ensure!(
        infeasible(&done).is_none(),
        "the condition stays: {}",
        done["status"]
    );
    ensure_in_place(before, &case.pods("web").await?, 0)?;
    ensure_cpu(case, "10m").await
}

pub(crate) async fn infeasible_resize_is_reported_and_reverted(case: &Case) -> Result<()> {
    clone_set(case, &case.image("v1").await?, "10m").await?;
    let before = case.pods("web").await?;
    set_container(case, |container| {
        container["resources"] = resources(TOO_MUCH)
    })
    .await?;
    let told = blocked(case).await?;
    let named = before
        .values()
        .find(|pod| told.contains(&format!(": pod {} cannot be resized", pod.name)));
    let pod = named.with_context(|| format!("it names none of the pods: {told}"))?;
    let words = format!(
        "on node {} (container {CONTAINER}, requests.cpu from 10m to {TOO_MUCH}); ",
        pod.node
    );
    ensure!(
        told.contains(&(words + refusing_component(case)?)),
        "{told}"
    );
    ensure!(told.contains("cpu, requested: 1000000, "), "{told}");
    let event = case
        .told("web", |event| event.starts_with("ResizeInfeasible"))
        .await?;
    ensure!(
        event == format!("ResizeInfeasible: {told}"),
        "{event}, and the condition says {told}"
    );
    let pods = case.pods("web").await?;
    ensure!(
        pods.values().all(|pod| pod.ready),
        "a pod that is not resized goes on serving: {pods:?}"
    );
    taken_back(case, &before).await?;
    let events = case.events("web").await?;
    let times = events
        .iter()
        .filter(|event| event.starts_with("ResizeInfeasible"))
        .count();
    ensure!(times == 1, "{times} events report it: {events:?}");
    Ok(())
}

pub(crate) async fn infeasible_resize_is_tried_with_one_pod(case: &Case) -> Result<()> {
    clone_set(case, &case.image("v1").await?, "10m").await?;
    let before = case.pods("web").await?;
    case.set_strategy("web", json!({"maxUnavailable": 1}))
        .await?;
    set_container(case, |container| {
        container["resources"] = resources(TOO_MUCH)
    })
    .await?;
    let told = blocked(case).await?;
    // A leader's knowledge is lost when it ends.
    let controller = [
        "deployment/kruise-controller-manager",
        "-n",
        install::NAMESPACE,
    ];
    case.kubectl(&[&["rollout", "restart"], &controller[..]].concat())
        .await?;
    case.kubectl(&[&["rollout", "status", "--timeout=180s"], &controller[..]].concat())
        .await?;
    // maxUnavailable is not the reason why the other pod is not updated.
    let changed = case
        .set_strategy("web", json!({"maxUnavailable": 2}))
        .await?;
    let is_seen =
        |set: &Value| set["status"]["observedGeneration"] == changed["metadata"]["generation"];
    case.until(kind::CLONE_SET, "web", is_seen).await?;
    case.explained("web", "text", |text| {
        text.contains("which lacks its new resources")
    })
    .await?;
    let again = blocked(case).await?;
    ensure!(again == told, "the next leader says {again}, not {told}");
    let mut tried = 0;
    for name in before.keys() {
        let pod = case.get(kind::POD, name).await?;
        let begun = pod["metadata"]["annotations"][INPLACE_UPDATE_STATE].is_string();
        ensure!(
            begun == told.contains(&**name),
            "{name} was tried, and {told}"
        );
        tried += usize::from(begun);
    }
    ensure!(tried == 1, "{tried} pods were tried");
    taken_back(case, &before).await
}

pub(crate) async fn sidecar_is_resized_in_place(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    let strategy = json!({"podUpdatePolicy": "InPlaceOnly", "maxUnavailable": 1});
    let mut set = objects::clone_set("web", 2, &image, &strategy);
    let sidecar = |cpu: &str| {
        let env = json!([{"name": "PORT", "value": "8081"}]);
        json!([{"name": "mesh", "image": image, "restartPolicy": "Always", "env": env, "resources": resources(cpu)}])
    };
    set["spec"]["template"]["spec"]["initContainers"] = sidecar("10m");
    case.create(&set).await?;
    case.done("web").await?;
    let before = case.pods("web").await?;
    let template = json!({"spec": {"template": {"spec": {"initContainers": sidecar("20m")}}}});
    case.patch(kind::CLONE_SET, "web", template).await?;
    case.done("web").await?;
    ensure_in_place(&before, &case.pods("web").await?, 0)?;
    for name in before.keys() {
        let pod = case.get(kind::POD, name).await?;
        let status = &pod["status"]["initContainerStatuses"][0];
        for container in [&pod["spec"]["initContainers"][0], status] {
            let found = &container["resources"]["requests"]["cpu"];
            ensure!(found == "20m", "mesh has cpu {found}: {}", pod["status"]);
        }
        ensure!(status["restartCount"] == 0, "mesh was restarted: {status}");
    }
    Ok(())
}
