//! The texts that users read.

use anyhow::{Context, Result, ensure};
use berth_e2e::objects::kind;
use serde_json::{Value, json};

use crate::world::Case;

/// OpenKruise's columns.
const COLUMNS: [(&str, &str, &str); 6] = [
    (
        "clonesets",
        "v1beta1",
        "NAME DESIRED UPDATED UPDATED_READY UPDATED_AVAILABLE READY TOTAL AGE",
    ),
    (
        "clonesets",
        "v1alpha1",
        "NAME DESIRED UPDATED UPDATED_READY UPDATED_AVAILABLE READY TOTAL AGE",
    ),
    (
        "nodeimages",
        "v1beta1",
        "NAME DESIRED PULLING SUCCEED FAILED AGE",
    ),
    (
        "nodeimages",
        "v1alpha1",
        "NAME DESIRED PULLING SUCCEED FAILED AGE",
    ),
    // OpenKruise shows MESSAGE only in v1alpha1.
    (
        "imagepulljobs",
        "v1beta1",
        "NAME TOTAL ACTIVE SUCCEED FAILED AGE MESSAGE",
    ),
    (
        "imagepulljobs",
        "v1alpha1",
        "NAME TOTAL ACTIVE SUCCEED FAILED AGE MESSAGE",
    ),
];

pub(crate) async fn kubectl_get_reads_like_the_peers(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    case.clone_set("web", 2, &image, json!({})).await?;
    let job = json!({
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "ImagePullJob",
        "metadata": {"name": "pull"},
        "spec": {"image": image, "completionPolicy": {"type": "Always"}},
    });
    case.create(&job).await?;
    case.until(kind::IMAGE_PULL_JOB, "pull", |job| {
        !job["status"]["completionTime"].is_null()
    })
    .await?;
    for (kind, version, columns) in COLUMNS {
        let table = case
            .kubectl(&[
                "get",
                &format!("{kind}.{version}.apps.kruise.io"),
                "-n",
                &case.namespace,
            ])
            .await?;
        let header = table
            .lines()
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        ensure!(
            header == columns,
            "kubectl get {kind} of {version} has columns {header}, not {columns}"
        );
        ensure!(
            table.lines().count() > 1,
            "kubectl get {kind} shows nothing:\n{table}"
        );
    }
    let row = case
        .kubectl(&["get", "clone", "web", "-n", &case.namespace, "--no-headers"])
        .await?;
    let cells: Vec<_> = row.split_whitespace().take(7).collect();
    ensure!(cells == ["web", "2", "2", "2", "2", "2", "2"], "{row}");
    Ok(())
}

pub(crate) async fn kubectl_explain_helps(case: &Case) -> Result<()> {
    for (field, words) in [
        (
            "cloneset.spec.updateStrategy",
            &["rollingUpdate", "OnDelete"][..],
        ),
        (
            "cloneset.spec.updateStrategy.rollingUpdate",
            &["partition", "maxSurge", "InPlaceIfPossible"],
        ),
        ("cloneset.spec.template", &["kubectl explain pod.spec"]),
        ("nodeimage.status", &["imageStatuses"]),
        ("imagepulljob.spec", &["parallelism", "percentage"]),
        ("imagelistpulljob.spec", &["images", "parallelism"]),
        ("imagelistpulljob.status", &["failedImageStatuses"]),
    ] {
        let text = case.kubectl(&["explain", field]).await?;
        let missing: Vec<_> = words.iter().filter(|word| !text.contains(**word)).collect();
        ensure!(
            missing.is_empty(),
            "kubectl explain {field} says nothing of {missing:?}:\n{text}"
        );
        let silent = text
            .lines()
            .filter(|line| line.contains("<no description>"))
            .count();
        ensure!(
            silent == 0,
            "kubectl explain {field} leaves {silent} fields without a word:\n{text}"
        );
    }
    Ok(())
}

pub(crate) async fn explain_says_what_is_waited_for(case: &Case) -> Result<()> {
    let (one, two) = (case.image("v1").await?, case.image("v2").await?);
    let strategy = json!({
        "podUpdatePolicy": "InPlaceIfPossible",
        "maxUnavailable": 1,
        "inPlaceUpdateStrategy": {"gracePeriodSeconds": 120},
    });
    case.clone_set("web", 2, &one, strategy).await?;
    let watch = case.watch("web").await?;
    case.set_image("web", &two).await?;
    let held = |now: &berth_e2e::record::Moment<'_>| {
        now.pods.values().filter(|s| !s.pod.gates).count() == 1
    };
    watch
        .until(
            "one pod is in its grace period",
            crate::world::PATIENCE,
            held,
        )
        .await?;
    // The status of a pod that is out of service follows a moment after it.
    let told = |set: &Value| set["status"]["readyReplicas"] == 1;
    let before = case.until(kind::CLONE_SET, "web", told).await?;
    let held: Vec<_> = watch.pods()?.into_iter().filter(|pod| !pod.gates).collect();
    let pod = held.first().context("no pod is held back any more")?;
    let waits = |text: &str| text.contains(&pod.name) && text.contains("gracePeriodSeconds");
    case.explained("web", "text", waits).await?;
    let plan = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
    let any_waits = |text: &str| {
        plan(text)["waiting"]
            .as_array()
            .is_some_and(|waiting| !waiting.is_empty())
    };
    case.explained("web", "json", any_waits).await?;
    let after = case.get(kind::CLONE_SET, "web").await?;
    // Its status may have changed by now: a pod that is held for long is reported there.
    let wanted = |set: &Value| (set["metadata"]["generation"].clone(), set["spec"].clone());
    ensure!(
        wanted(&before) == wanted(&after),
        "explaining changed the CloneSet"
    );
    Ok(())
}
