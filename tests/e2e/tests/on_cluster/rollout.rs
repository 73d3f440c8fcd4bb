//! Rollouts that go well.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use berth_e2e::limits::Limits;
use berth_e2e::objects::{self, APP, CONTAINER, image_patch, kind};
use serde_json::{Value, json};

use crate::world::{Case, PATIENCE, ensure_gated, ensure_in_place, two_at_a_time};

pub(crate) async fn an_image_changes_in_place(case: &Case) -> Result<()> {
    let (one, two) = (case.image("v1").await?, case.image("v2").await?);
    case.clone_set(
        "web",
        6,
        &one,
        json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": 2}),
    )
    .await?;
    let before = case.pods("web").await?;
    let watch = case.watch("web").await?;
    let asker = case.ask("web", &watch).await?;

    case.set_image("web", &two).await?;
    let done = case.done("web").await?;

    ensure_in_place(&before, &case.pods("web").await?, 1)?;
    let record = watch.record()?;
    ensure_gated(&record, CONTAINER)?;
    Limits {
        available: 4,
        active: 6,
        ..Limits::default()
    }
    .ensure_kept(&record)?;
    for pod in before.keys() {
        let state = case.state(pod).await?;
        ensure!(
            state["berthVerifiedBy"].is_string(),
            "pod {pod} was not verified: {state}"
        );
        let deadline = Instant::now() + PATIENCE;
        let answer = || asker.look(|asked| asked.latest(pod).cloned());
        while answer() != Some(Ok("v2".to_owned())) {
            ensure!(
                Instant::now() < deadline,
                "pod {pod} answers {:?}",
                answer()
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    case.answers(asker).await?;
    let status = &done["status"];
    ensure!(
        status["currentRevision"] == status["updateRevision"],
        "the rollout has not ended: {status}"
    );
    case.told("web", |event| {
        event.starts_with("SuccessfulUpdatePodInPlace")
    })
    .await?;
    Ok(())
}

pub(crate) async fn partition_keeps_image_over_zero_pods(case: &Case) -> Result<()> {
    let (one, two) = (case.image("v1").await?, case.image("v2").await?);
    for (name, partition) in [("number", json!(4)), ("percent", json!("80%"))] {
        let rolling_update = json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": "100%", "partition": partition});
        case.clone_set(name, 5, &one, rolling_update).await?;
        case.set_image(name, &two).await?;
        let held = |set: &Value| objects::is_stateful_set_done(set, 1);
        let set = case.until(kind::CLONE_SET, name, held).await?;
        let current = set["status"]["currentRevision"].clone();
        case.patch(kind::CLONE_SET, name, json!({"spec": {"replicas": 0}}))
            .await?;
        let set = case
            .until(kind::CLONE_SET, name, |set| {
                objects::is_stateful_set_done(set, 0)
            })
            .await?;
        ensure!(
            set["status"]["currentRevision"] == current,
            "{name}: {}",
            set["status"]
        );
        case.patch(kind::CLONE_SET, name, json!({"spec": {"replicas": 5}}))
            .await?;
        case.until(kind::CLONE_SET, name, held).await?;
        ensure_images(case, name, (&one, 4), (&two, 1)).await?;
        case.set_strategy(name, json!({"partition": 0})).await?;
        case.done(name).await?;
        ensure_images(case, name, (&one, 0), (&two, 5)).await?;
    }
    Ok(())
}

/// So many pods have the one image, and so many the other.
pub(crate) async fn ensure_images(
    case: &Case,
    name: &str,
    one: (&str, usize),
    two: (&str, usize),
) -> Result<()> {
    let mut pods = objects::list(
        case.client(),
        &case.namespace,
        kind::POD,
        &format!("{APP}={name}"),
    )
    .await?;
    pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    for (image, count) in [one, two] {
        let have = pods
            .iter()
            .filter(|pod| pod["spec"]["containers"][0]["image"] == image)
            .count();
        ensure!(
            have == count,
            "{have} pods of {name} have image {image}, not {count}"
        );
    }
    Ok(())
}

pub(crate) async fn a_new_environment_variable_recreates(case: &Case) -> Result<()> {
    let one = case.image("v1").await?;
    let rolling_update = json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": 1});
    let set = case.clone_set("web", 3, &one, rolling_update).await?;
    let before = case.pods("web").await?;
    let mut change = image_patch(&set, &one);
    change["spec"]["template"]["spec"]["containers"][0]["env"] =
        json!([{"name": "A", "value": "B"}]);
    case.patch(kind::CLONE_SET, "web", change).await?;
    let done = case.done("web").await?;
    let mut after = case.pods("web").await?;
    after.retain(|_, pod| !pod.terminating);
    let kept: Vec<_> = before
        .values()
        .filter(|old| after.values().any(|new| new.uid == old.uid))
        .collect();
    ensure!(
        kept.is_empty(),
        "not replaced: {kept:?}, though the status is {} of {after:?}",
        done["status"]
    );
    ensure!(
        after.len() == 3,
        "there are {} pods: {after:?}",
        after.len()
    );
    Ok(())
}

pub(crate) async fn labels_and_annotations_change_without_a_restart(case: &Case) -> Result<()> {
    let one = case.image("v1").await?;
    case.clone_set(
        "web",
        3,
        &one,
        json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": 1}),
    )
    .await?;
    let before = case.pods("web").await?;
    let metadata = json!({"labels": {"tier": "front"}, "annotations": {"note": "hello"}});
    case.patch(
        kind::CLONE_SET,
        "web",
        json!({"spec": {"template": {"metadata": metadata}}}),
    )
    .await?;
    case.done("web").await?;
    ensure_in_place(&before, &case.pods("web").await?, 0)?;
    for pod in before.keys() {
        let metadata = &case.get(kind::POD, pod).await?["metadata"];
        ensure!(metadata["labels"]["tier"] == "front", "{metadata}");
        ensure!(metadata["annotations"]["note"] == "hello", "{metadata}");
    }
    Ok(())
}

pub(crate) async fn a_rollback_is_recognised(case: &Case) -> Result<()> {
    let (one, two) = (case.image("v1").await?, case.image("v2").await?);
    let strategy = json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": "100%"});
    let first = case.clone_set("web", 2, &one, strategy).await?;
    case.set_image("web", &two).await?;
    let second = case.done("web").await?;
    case.set_image("web", &one).await?;
    let third = case.done("web").await?;
    let revision = |set: &serde_json::Value| set["status"]["updateRevision"].clone();
    ensure!(
        revision(&first) != revision(&second),
        "another image gave no other revision"
    );
    ensure!(
        revision(&first) == revision(&third),
        "the rollback made a new revision"
    );
    let kept = objects::list(
        case.client(),
        &case.namespace,
        "apps/v1/ControllerRevision",
        "",
    )
    .await?;
    ensure!(
        kept.len() == 2,
        "there are {} revisions: {kept:?}",
        kept.len()
    );
    Ok(())
}

pub(crate) async fn a_paused_rollout_waits(case: &Case) -> Result<()> {
    let (one, two) = (case.image("v1").await?, case.image("v2").await?);
    case.clone_set(
        "web",
        3,
        &one,
        json!({"podUpdatePolicy": "InPlaceIfPossible", "paused": true}),
    )
    .await?;
    let watch = case.watch("web").await?;
    let changed = case.set_image("web", &two).await?;
    let generation = &changed["metadata"]["generation"];
    let seen = case
        .until(kind::CLONE_SET, "web", |set| {
            set["status"]["observedGeneration"] == *generation
        })
        .await?;
    ensure!(seen["status"]["updatedReplicas"] == 0, "{}", seen["status"]);
    // Scaling continues, and by the time the new pods are ready the controller has decided many
    // times.
    case.patch(kind::CLONE_SET, "web", json!({"spec": {"replicas": 4}}))
        .await?;
    case.until(kind::CLONE_SET, "web", |set| {
        set["status"]["readyReplicas"] == 4
    })
    .await?;
    let updated = |pod: &&berth_e2e::record::PodView| pod.containers[CONTAINER].wanted == two;
    let old = case
        .pods("web")
        .await?
        .values()
        .filter(|pod| !updated(pod))
        .count();
    ensure!(old >= 3, "a paused rollout updated pods: {old} are left");
    case.set_strategy("web", json!({"paused": false})).await?;
    case.done("web").await?;
    watch
        .until("all pods have the new image", PATIENCE, |now| {
            now.pods.values().all(|s| updated(&s.pod))
        })
        .await?;
    Ok(())
}

pub(crate) async fn both_versions_of_the_api_work(case: &Case) -> Result<()> {
    let (one, two) = (case.image("v1").await?, case.image("v2").await?);
    let mut old = objects::clone_set("web", 2, &one, &json!({}));
    old["apiVersion"] = "apps.kruise.io/v1alpha1".into();
    old["spec"]["updateStrategy"] = json!({"type": "InPlaceIfPossible", "maxUnavailable": "100%"});
    case.create(&old).await?;
    let new = case.done("web").await?;
    let rolling_update = &new["spec"]["updateStrategy"]["rollingUpdate"];
    ensure!(
        rolling_update["podUpdatePolicy"] == "InPlaceIfPossible",
        "converted to {}",
        new["spec"]
    );
    let before = case.pods("web").await?;
    case.patch(kind::CLONE_SET_V1ALPHA1, "web", image_patch(&new, &two))
        .await?;
    case.done("web").await?;
    ensure_in_place(&before, &case.pods("web").await?, 1)?;
    let old = case.get(kind::CLONE_SET_V1ALPHA1, "web").await?;
    ensure!(
        old["spec"]["updateStrategy"]["type"] == "InPlaceIfPossible",
        "converted back to {}",
        old["spec"]
    );
    Ok(())
}

pub(crate) async fn a_request_to_a_ready_pod_is_answered(case: &Case) -> Result<()> {
    let (one, two) = (case.image("v1").await?, case.image("v2").await?);
    // The controller of the service's slices may need a few seconds when several pods change at
    // once.
    case.clone_set("web", 6, &one, two_at_a_time(10)).await?;
    let watch = case.watch("web").await?;
    let asker = case.ask("web", &watch).await?;
    case.set_image("web", &two).await?;
    case.done("web").await?;
    let asked = case.answers(asker).await?;
    let all = asked.by_pod(std::time::Duration::ZERO, watch.began().elapsed());
    let restarted = all.values().filter(|seen| seen.failed > 0).count();
    ensure!(
        all.len() == 6 && restarted > 0,
        "the watcher saw no container restart, so it proves nothing: {all:?}"
    );
    let failed = asked.failed_while_ready();
    ensure!(
        failed.is_empty(),
        "{} requests to ready pods failed, the first: {:?}",
        failed.len(),
        failed.first()
    );
    Ok(())
}
