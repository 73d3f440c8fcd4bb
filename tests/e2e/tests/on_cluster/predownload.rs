//! Images ahead of pods: lists of images, pulling ahead of updates in place, updates that wait for
//! their image.

use anyhow::{Context, Result, ensure};
use berth_api::names::{annotation, label};
use berth_e2e::objects::{self, kind};
use serde_json::{Value, json};

use crate::world::{Case, ensure_in_place};

fn list_job(name: &str, images: &[String], more: Value) -> Value {
    let mut job = json!({
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "ImageListPullJob",
        "metadata": {"name": name},
        "spec": {"images": images, "parallelism": 3},
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        job["spec"][field] = value.clone();
    }
    job
}

pub(crate) async fn an_image_list_pull_job_completes(case: &Case) -> Result<()> {
    let (one, two) = (case.image("one").await?, case.image("two").await?);
    let missing = case.site.image(&format!("{}:missing", case.namespace));
    case.create(&list_job("good", &[one.clone(), two.clone()], json!({})))
        .await?;
    let ended = |job: &Value| !job["status"]["completionTime"].is_null();
    let job = case.until(kind::IMAGE_LIST_PULL_JOB, "good", ended).await?;
    let status = &job["status"];
    ensure!(
        status["desired"] == 2 && status["completed"] == 2 && status["succeeded"] == 2,
        "{status}"
    );
    let jobs = objects::list(case.client(), &case.namespace, kind::IMAGE_PULL_JOB, "").await?;
    ensure!(
        jobs.len() == 2 && jobs.iter().all(|job| job["status"]["succeeded"] == 3),
        "{jobs:?}"
    );

    let pull = json!({"pullPolicy": {"backoffLimit": 0, "timeoutSeconds": 20}, "completionPolicy": {"ttlSecondsAfterFinished": 5}});
    case.create(&list_job("bad", &[one.clone(), missing.clone()], pull))
        .await?;
    let job = case.until(kind::IMAGE_LIST_PULL_JOB, "bad", ended).await?;
    let status = &job["status"];
    ensure!(
        status["completed"] == 2 && status["succeeded"] == 1,
        "{status}"
    );
    let failed = &status["failedImageStatuses"][0];
    let message = failed["message"].as_str().unwrap_or_default();
    ensure!(
        failed["name"] == *missing && message.contains("3 of 3 nodes"),
        "{status}"
    );
    let gone = [
        "wait",
        "--for=delete",
        "--timeout=120s",
        "imagelistpulljob/bad",
        "-n",
        &case.namespace,
    ];
    case.kubectl(&gone)
        .await
        .context("its time to live is over, but it stays")?;

    // Another list of images: one job is deleted, one is created, and one stays.
    case.create(&list_job(
        "never",
        &[one.clone(), two.clone()],
        json!({"completionPolicy": {"type": "Never"}}),
    ))
    .await?;
    case.until(kind::IMAGE_LIST_PULL_JOB, "never", |job| {
        job["status"]["succeeded"] == 2
    })
    .await?;
    let three = case.image("three").await?;
    case.patch(
        kind::IMAGE_LIST_PULL_JOB,
        "never",
        json!({"spec": {"images": [two, three]}}),
    )
    .await?;
    let of_list = |jobs: Vec<Value>| -> Vec<String> {
        let ours = jobs
            .into_iter()
            .filter(|job| job["metadata"]["ownerReferences"][0]["name"] == "never");
        ours.filter(|job| job["metadata"]["deletionTimestamp"].is_null())
            .map(|job| job["spec"]["image"].to_string())
            .collect()
    };
    let three = json!(three).to_string();
    for _ in 0..600 {
        let images =
            of_list(objects::list(case.client(), &case.namespace, kind::IMAGE_PULL_JOB, "").await?);
        if images.len() == 2 && images.contains(&three) {
            return Ok(());
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    anyhow::bail!("the jobs do not follow the list")
}

pub(crate) async fn images_are_pulled_ahead_and_waited_for(case: &Case) -> Result<()> {
    case.with_gates("PreDownloadImageForInPlaceUpdate=true", async || {
        pulled_ahead(case).await?;
        held_back(case).await
    })
    .await
}

async fn pulled_ahead(case: &Case) -> Result<()> {
    let (one, two) = (case.image("v1").await?, case.image("v2").await?);
    let strategy = json!({
        "podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": 2, "partition": 1,
        "inPlaceUpdateStrategy": {"imagePreDownloadTimeoutSeconds": 120},
    });
    case.clone_set("web", 5, &one, strategy).await?;
    let wait =
        json!({"metadata": {"annotations": {annotation::INPLACE_UPDATE_WAIT_FOR_IMAGE: "3m"}}});
    case.patch(kind::CLONE_SET, "web", wait).await?;
    let before = case.pods("web").await?;
    case.set_image("web", &two).await?;
    let updated = |set: &Value| {
        set["status"]["observedGeneration"] == set["metadata"]["generation"]
            && set["status"]["updatedReadyReplicas"] == 4
    };
    let set = case.until(kind::CLONE_SET, "web", updated).await?;
    let revision = set["status"]["updateRevision"]
        .as_str()
        .context("no update revision")?
        .to_owned();

    // One pod stays behind, so the job stays, too. It has OpenKruise's name, and pulled on one node
    // after another.
    let job = case
        .get(kind::IMAGE_PULL_JOB, &format!("{revision}-main"))
        .await?;
    ensure!(
        job["spec"]["image"] == *two && job["spec"]["parallelism"] == 1,
        "{job}"
    );
    ensure!(
        job["spec"]["pullPolicy"] == json!({"backoffLimit": 1, "timeoutSeconds": 120}),
        "{job}"
    );
    let kept = case.get("apps/v1/ControllerRevision", &revision).await?;
    ensure!(
        kept["metadata"]["labels"][label::IMAGE_PREDOWNLOAD_CREATED] == "true",
        "{}",
        kept["metadata"]
    );
    // No pod was patched before its node had the image.
    let (repository, tag) = two.rsplit_once(':').context("no tag")?;
    for (name, pod) in case.pods("web").await? {
        let now = case.get(kind::POD, &name).await?;
        if now["spec"]["containers"][0]["image"] != *two {
            continue;
        }
        let patched = time(&case.state(&name).await?["updateTimestamp"])?;
        let node = objects::get(case.client(), "", kind::NODE_IMAGE, &pod.node).await?;
        let tags = node["status"]["imageStatuses"][repository]["tags"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        // A node may drop its entry when its part of the job is over.
        let Some(pulled) = tags.iter().find(|status| status["tag"] == tag) else {
            continue;
        };
        let at = time(&pulled["completionTime"])?;
        ensure!(
            pulled["phase"] == "Succeeded" && at <= patched,
            "{name}: {pulled}, patched {patched}"
        );
    }
    case.set_strategy("web", json!({"partition": 0})).await?;
    case.done("web").await?;
    ensure_in_place(&before, &case.pods("web").await?, 1)?;
    let gone = [
        "wait",
        "--for=delete",
        "--timeout=60s",
        "imagepulljob",
        "--all",
        "-n",
        &case.namespace,
    ];
    case.kubectl(&gone)
        .await
        .context("the rollout is over, but its job stays")?;
    case.told("web", |event| {
        event.starts_with("CreatedImagePullJob: created ImagePullJob")
    })
    .await?;
    Ok(())
}

async fn held_back(case: &Case) -> Result<()> {
    let missing = case.site.image(&format!("{}:nowhere", case.namespace));
    let wait =
        json!({"metadata": {"annotations": {annotation::INPLACE_UPDATE_WAIT_FOR_IMAGE: "soon"}}});
    let refused = case.patch(kind::CLONE_SET, "web", wait).await;
    let error = refused.err().context("a wait of \"soon\" was taken")?;
    ensure!(
        format!("{error:#}").contains("write it like 90s"),
        "{error:#}"
    );
    let wait =
        json!({"metadata": {"annotations": {annotation::INPLACE_UPDATE_WAIT_FOR_IMAGE: "30s"}}});
    case.patch(kind::CLONE_SET, "web", wait).await?;
    case.set_image("web", &missing).await?;
    let set = case
        .until(kind::CLONE_SET, "web", |set| {
            set["status"]["updatedReplicas"] == 0
        })
        .await?;
    let revision = set["status"]["updateRevision"]
        .as_str()
        .context("no update revision")?
        .to_owned();
    let job = case
        .until(kind::IMAGE_PULL_JOB, &format!("{revision}-main"), |_| true)
        .await?;
    let waits = format!("waits for image {missing} on node");
    let text = case
        .explained("web", "text", |text| text.contains(&waits))
        .await?;
    ensure!(
        case.pods("web").await?.values().all(|pod| pod.ready),
        "a pod was patched: {text}"
    );

    // The time is over: the rollout continues, and stops at the number of pods that it may disrupt.
    let begun = |set: &Value| set["status"]["updatedReplicas"].as_i64() > Some(0);
    case.until(kind::CLONE_SET, "web", begun).await?;
    let held = jiff::Timestamp::now()
        .duration_since(time(&job["metadata"]["creationTimestamp"])?)
        .as_secs();
    ensure!(held >= 29, "held back for {held} s only");
    // And back.
    let good = case.site.image(&format!("{}:v2", case.namespace));
    case.set_image("web", &good).await?;
    case.done("web").await.map(|_| ())
}

fn time(value: &Value) -> Result<jiff::Timestamp> {
    value
        .as_str()
        .with_context(|| format!("{value} is no time"))?
        .parse()
        .context("no time")
}
