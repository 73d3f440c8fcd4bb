//! Containers that restart for another reason than an image, and the order in which they start.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use berth_api::env_hash;
use berth_api::fields::inplace::RuntimeContainerMetaSet;
use berth_api::names::annotation::{
    CONTAINER_LAUNCH_ORDERED, CONTAINER_LAUNCH_PRIORITY, CONTAINER_LAUNCH_PRIORITY_COMPLETED,
    RESTARTED_AT, RUNTIME_CONTAINERS_META,
};
use berth_e2e::objects::{self, CONTAINER, kind};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::world::Case;

/// A CloneSet whose first container reads the label `tier`; the second reads nothing and listens
/// elsewhere.
fn reading(image: &str) -> Value {
    let strategy = json!({"podUpdatePolicy": "InPlaceOnly", "maxUnavailable": "100%"});
    let mut set = objects::clone_set("web", 2, image, &strategy);
    let template = &mut set["spec"]["template"];
    template["metadata"]["labels"]["tier"] = json!("a");
    let spec = &mut template["spec"];
    let tier = json!({"name": "TIER", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['tier']"}}});
    spec["containers"][0]["env"] = json!([tier]);
    let side = json!({"name": "side", "image": image, "env": [{"name": "PORT", "value": "9090"}]});
    if let Some(containers) = spec["containers"].as_array_mut() {
        containers.push(side);
    }
    set
}

/// The annotation about the containers of a pod.
async fn meta(case: &Case, pod: &str) -> Result<RuntimeContainerMetaSet> {
    let pod = case.get(kind::POD, pod).await?;
    let text = pod["metadata"]["annotations"][RUNTIME_CONTAINERS_META].as_str();
    Ok(serde_json::from_str(text.context(
        "the pod has no annotation about its containers",
    )?)?)
}

pub(crate) async fn a_label_restarts_the_container_that_reads_it(case: &Case) -> Result<()> {
    let (one, two) = (case.image("v1").await?, case.image("v2").await?);
    case.create(&reading(&one)).await?;
    case.done("web").await?;
    let mut before = case.pods("web").await?;
    let patch = |labels: Value| json!({"spec": {"template": {"metadata": {"labels": labels}}}});
    // The first change restarts only its own container; the second restarts none; then back again;
    // and together with an image, one restart.
    let changes = [
        (patch(json!({"tier": "b"})), "b", 1),
        (patch(json!({"other": "x"})), "b", 0),
        (patch(json!({"tier": "a"})), "a", 1),
    ];
    for (change, tier, restarts) in changes {
        case.patch(kind::CLONE_SET, "web", change).await?;
        before = restarted(case, before, tier, restarts).await?;
    }
    let mut set = case.get(kind::CLONE_SET, "web").await?;
    let template = &mut set["spec"]["template"];
    template["spec"]["containers"][0]["image"] = json!(two);
    template["metadata"]["labels"]["tier"] = json!("c");
    let both = json!({"spec": {"template": template}});
    case.patch(kind::CLONE_SET, "web", both).await?;
    restarted(case, before, "c", 1).await?;
    Ok(())
}

type Pods = BTreeMap<String, berth_e2e::record::PodView>;

/// Waits for the end of an update that restarts the first container so many times, and the second
/// never.
async fn restarted(case: &Case, before: Pods, tier: &str, restarts: i32) -> Result<Pods> {
    case.done("web").await?;
    let after = case.pods("web").await?;
    ensure!(
        before.keys().eq(after.keys()),
        "other pods: {:?} {:?}",
        before.keys(),
        after.keys()
    );
    for (before, after) in before.values().zip(after.values()) {
        ensure!(
            before.uid == after.uid && after.serves(),
            "{} is another or does not serve",
            after.name
        );
        let more = |name: &str| after.containers[name].restarts - before.containers[name].restarts;
        let counts = (more(CONTAINER), more("side"));
        // A kubelet that sees the labels late may create it with the old variables once more.
        let as_often = if restarts == 0 {
            counts.0 == 0
        } else {
            counts.0 >= restarts
        };
        ensure!(
            as_often && counts.1 == 0,
            "{}: restarts {counts:?}, not {restarts} and 0",
            after.name
        );
        if restarts == 0 {
            continue;
        }
        let meta = meta(case, &after.name).await?;
        let found = meta
            .containers
            .iter()
            .find(|c| c.name == CONTAINER)
            .context("a container is missing")?;
        ensure!(
            found.container_id == after.containers[CONTAINER].container_id,
            "of another container: {found:?}"
        );
        let wanted = env_hash::of_all(&[("TIER", tier)].into());
        let hash = found.hashes.extracted_env_from_metadata_hash;
        ensure!(
            hash == u64::from(wanted),
            "{}: TIER is not {tier}: {found:?}",
            after.name
        );
        let state = case.state(&after.name).await?;
        ensure!(
            state["berthVerifiedBy"] == "node" && state["updateEnvFromMetadata"] == true,
            "{state}"
        );
    }
    Ok(after)
}

/// How often the two containers of each pod were restarted since, the pods being the same.
async fn restarts_since(case: &Case, before: &Pods) -> Result<Vec<[i32; 2]>> {
    let after = case.pods("web").await?;
    ensure!(
        before.keys().eq(after.keys()),
        "other pods: {:?} {:?}",
        before.keys(),
        after.keys()
    );
    let mut restarts = Vec::new();
    for (before, after) in before.values().zip(after.values()) {
        ensure!(
            before.uid == after.uid && before.ip == after.ip,
            "not the same pod: {before:?} {after:?}"
        );
        let of = |name: &str| {
            let (before, after) = (&before.containers[name], &after.containers[name]);
            let more = after.restarts - before.restarts;
            ensure!(
                (more > 0) == (before.container_id != after.container_id),
                "{before:?} {after:?}"
            );
            Ok(more)
        };
        restarts.push([of(CONTAINER)?, of("side")?]);
    }
    Ok(restarts)
}

pub(crate) async fn another_time_restarts_all_containers_in_place(case: &Case) -> Result<()> {
    let (one, two) = (case.image("v1").await?, case.image("v2").await?);
    let strategy = json!({"podUpdatePolicy": "InPlaceOnly", "maxUnavailable": 1, "partition": 2});
    let mut set = objects::clone_set("web", 3, &one, &strategy);
    let side = json!({"name": "side", "image": one, "env": [{"name": "PORT", "value": "9090"}]});
    if let Some(containers) = set["spec"]["template"]["spec"]["containers"].as_array_mut() {
        containers.push(side);
    }
    case.create(&set).await?;
    case.done("web").await?;
    let before = case.pods("web").await?;
    let restart =
        |at: &str| json!({"spec": {"template": {"metadata": {"annotations": {RESTARTED_AT: at}}}}});
    match case.patch(kind::CLONE_SET, "web", restart("now")).await {
        Ok(_) => bail!("\"now\" was accepted"),
        Err(error) => {
            let text = format!("{error:#}");
            ensure!(
                text.contains(RESTARTED_AT) && text.contains("write it like"),
                "{text}"
            );
        }
    }
    let watch = case.watch("web").await?;
    let began = watch.began().elapsed();
    case.patch(kind::CLONE_SET, "web", restart("2026-11-26T12:00:00Z"))
        .await?;
    let one_is_done = |set: &Value| {
        let status = &set["status"];
        status["observedGeneration"] == set["metadata"]["generation"]
            && status["updatedAvailableReplicas"] == 1
            && status["availableReplicas"] == 3
    };
    case.until(kind::CLONE_SET, "web", one_is_done).await?;
    let mut restarts = restarts_since(case, &before).await?;
    restarts.sort_unstable();
    ensure!(
        restarts == [[0, 0], [0, 0], [1, 1]],
        "with two pods kept back: {restarts:?}"
    );
    case.set_strategy("web", json!({"partition": 0})).await?;
    case.done("web").await?;
    let restarts = restarts_since(case, &before).await?;
    ensure!(restarts == [[1, 1]; 3], "{restarts:?}");
    let record = watch.record()?.since(began);
    for moment in record.moments() {
        ensure!(
            moment.available(Duration::ZERO) >= 2,
            "more than one is out of service: {}",
            moment.describe()
        );
    }
    for pod in before.keys() {
        let state = case.state(pod).await?;
        ensure!(state["berthVerifiedBy"] == "pod", "{state}");
    }
    case.told("web", |event| event.contains("SuccessfulUpdatePodInPlace"))
        .await?;

    // Together with an image, each container is restarted once; and a pod that is new has nothing
    // to restart.
    let mut set = case.get(kind::CLONE_SET, "web").await?;
    let template = &mut set["spec"]["template"];
    template["metadata"]["annotations"][RESTARTED_AT] = json!("2026-11-26T13:00:00Z");
    template["spec"]["containers"][0]["image"] = json!(two);
    case.patch(
        kind::CLONE_SET,
        "web",
        json!({"spec": {"template": template}}),
    )
    .await?;
    case.done("web").await?;
    let restarts = restarts_since(case, &before).await?;
    ensure!(restarts == [[2, 2]; 3], "{restarts:?}");
    case.patch(kind::CLONE_SET, "web", json!({"spec": {"replicas": 4}}))
        .await?;
    case.done("web").await?;
    let new = case
        .pods("web")
        .await?
        .into_values()
        .find(|pod| !before.contains_key(&pod.name))
        .context("no new pod")?;
    ensure!(new.restarts() == 0, "{new:?}");
    Ok(())
}

/// A CloneSet of one pod whose containers start in order, each on a port of its own; the first is
/// ready after the others could be.
fn ordered(image: &str) -> Value {
    let strategy = json!({"podUpdatePolicy": "InPlaceOnly", "maxUnavailable": "100%"});
    let mut set = objects::clone_set("web", 1, image, &strategy);
    let template = &mut set["spec"]["template"];
    template["metadata"]["annotations"] =
        json!({CONTAINER_LAUNCH_PRIORITY: CONTAINER_LAUNCH_ORDERED});
    template["spec"]["containers"][0]["readinessProbe"]["initialDelaySeconds"] = json!(4);
    let side = json!({"name": "side", "image": image, "env": [{"name": "PORT", "value": "9090"}]});
    if let Some(containers) = template["spec"]["containers"].as_array_mut() {
        containers.push(side);
    }
    set
}

/// When each container of the only pod began to run, and the record of its update.
async fn started(case: &Case) -> Result<(Value, BTreeMap<String, Timestamp>)> {
    let pods = case.pods("web").await?;
    let pod = case
        .get(kind::POD, pods.keys().next().context("there is no pod")?)
        .await?;
    let mut started = BTreeMap::new();
    for status in pod["status"]["containerStatuses"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let at = status["state"]["running"]["startedAt"]
            .as_str()
            .context("a container does not run")?;
        started.insert(
            status["name"].as_str().unwrap_or_default().to_owned(),
            at.parse()?,
        );
    }
    Ok((pod, started))
}

pub(crate) async fn containers_start_and_are_updated_in_order(case: &Case) -> Result<()> {
    let (one, two) = (case.image("v1").await?, case.image("v2").await?);
    case.create(&ordered(&one)).await?;
    case.done("web").await?;
    let (pod, at) = started(case).await?;
    ensure!(
        at["side"].duration_since(at[CONTAINER]).as_secs() >= 3,
        "side did not wait: {at:?}"
    );
    let completed = &pod["metadata"]["annotations"][CONTAINER_LAUNCH_PRIORITY_COMPLETED];
    ensure!(completed == "true", "not completed: {completed}");
    let before = case.pods("web").await?;

    let mut set = case.get(kind::CLONE_SET, "web").await?;
    for container in set["spec"]["template"]["spec"]["containers"]
        .as_array_mut()
        .into_iter()
        .flatten()
    {
        container["image"] = json!(two);
    }
    let containers = json!({"spec": {"template": {"spec": {"containers": set["spec"]["template"]["spec"]["containers"]}}}});
    case.patch(kind::CLONE_SET, "web", containers).await?;
    case.done("web").await?;
    let after = case.pods("web").await?;
    ensure!(
        before.keys().eq(after.keys()),
        "other pods: {:?} {:?}",
        before.keys(),
        after.keys()
    );
    let (pod, at) = started(case).await?;
    ensure!(
        at["side"].duration_since(at[CONTAINER]).as_secs() >= 3,
        "side did not wait for its update: {at:?}"
    );
    let state = case
        .state(pod["metadata"]["name"].as_str().unwrap_or_default())
        .await?;
    let batches: Vec<&Value> = state["containerBatchesRecord"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|batch| &batch["containers"])
        .collect();
    ensure!(
        batches == [&json!([CONTAINER]), &json!(["side"])],
        "{state}"
    );
    Ok(())
}
