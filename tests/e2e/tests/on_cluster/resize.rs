//! Resources of containers that change in place.

use anyhow::{Context, Result, ensure};
use berth_e2e::objects::{self, CONTAINER, kind};
use berth_e2e::record::Change;
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
    case.patch(kind::CLONE_SET, "web", json!({"spec": {"template": {"spec": {"containers": containers}}}})).await
}

/// That every pod asks for this cpu, and has it as its kubelet says.
async fn ensure_cpu(case: &Case, cpu: &str) -> Result<()> {
    for pod in case.pods("web").await?.keys() {
        let pod = case.get(kind::POD, pod).await?;
        let (wanted, given) = (&pod["spec"]["containers"][0], &pod["status"]["containerStatuses"][0]);
        for container in [wanted, given] {
            let found = &container["resources"]["requests"]["cpu"];
            ensure!(found == cpu, "{CONTAINER} has cpu {found}, not {cpu}: {}", pod["status"]);
        }
        let conditions = pod["status"]["conditions"].as_array().context("no conditions")?;
        let resizing = conditions.iter().find(|c| c["type"].as_str().unwrap_or_default().starts_with("PodResize"));
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
    ensure!(!record.entries().iter().any(|entry| away(&entry.change)), "a pod was out of service while it was resized");
    for pod in before.keys() {
        let state = case.state(pod).await?;
        ensure!(state["updateResources"] == true && state["berthVerifiedBy"] == "pod", "{state}");
        ensure!(state["berthResources"].is_null(), "what is proven is still wanted: {state}");
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

pub(crate) async fn more_than_the_node_has_is_told_and_taken_back(case: &Case) -> Result<()> {
    clone_set(case, &case.image("v1").await?, "10m").await?;
    let before = case.pods("web").await?;
    set_container(case, |container| container["resources"] = resources("1000")).await?;
    let told = |set: &Value| set["status"]["conditions"].to_string().contains("ResizeInfeasible");
    case.until(kind::CLONE_SET, "web", told).await?;
    let pods = case.pods("web").await?;
    ensure!(pods.values().all(|pod| pod.ready), "a pod that is not resized goes on serving: {pods:?}");
    set_container(case, |container| container["resources"] = resources("10m")).await?;
    let done = case.done("web").await?;
    ensure!(!told(&done), "the condition stays: {}", done["status"]);
    let event = case.told("web", |event| event.starts_with("ResizeInfeasible")).await?;
    ensure!(event.contains("requests.cpu from 10m to 1000"), "{event}");
    ensure_in_place(&before, &case.pods("web").await?, 0)?;
    ensure_cpu(case, "10m").await
}
