//! Many CloneSets at once: whether each gets its share, and the cost of so many pods.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use berth_e2e::objects::{self, kind};
use futures::future::try_join_all;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::Options;
use super::measure::{Phase, begin};
use super::program::Program;
use super::stage::{NAMESPACE, PATIENCE, Stage};

/// How often a CloneSet is read.
const LOOK: Duration = Duration::from_millis(250);

fn name(number: usize) -> String {
    format!("many-{number}")
}

/// Creates the CloneSets, and keeps them for a while.
pub(crate) async fn create(
    stage: &mut Stage,
    program: &Program,
    options: &Options,
    subject: (&str, usize),
) -> Result<Vec<Phase>> {
    let pods = options.sets * options.of;
    let rolling_update = json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": "25%"});
    let phase = begin(stage, Some(program)).await?;
    for number in 0..options.sets {
        let set = objects::clone_set(&name(number), options.of, "web:1", &rolling_update);
        objects::create(&stage.client, NAMESPACE, &set).await?;
    }
    let each = all_done(stage, options.sets).await?;
    let created = phase
        .end(stage, Some(program), subject, ("many create", pods))
        .await?;
    let phase = begin(stage, Some(program)).await?;
    sleep(Duration::from_secs(options.idle)).await;
    let held = phase
        .end(stage, Some(program), subject, ("many held", 0))
        .await?;
    Ok(vec![Phase { each, ..created }, held])
}

/// Changes the image of all at the same time.
pub(crate) async fn update(
    stage: &mut Stage,
    program: &Program,
    options: &Options,
    subject: (&str, usize),
) -> Result<Phase> {
    let phase = begin(stage, Some(program)).await?;
    let patches = (0..options.sets).map(|number| {
        let client = stage.client.clone();
        async move {
            let set = objects::clone_set(&name(number), options.of, "web:1", &json!({}));
            objects::patch(
                &client,
                NAMESPACE,
                kind::CLONE_SET,
                &name(number),
                &objects::image_patch(&set, "web:2"),
            )
            .await
        }
    });
    try_join_all(patches).await?;
    let each = all_done(stage, options.sets).await?;
    let phase = phase
        .end(
            stage,
            Some(program),
            subject,
            ("many in place", options.sets * options.of),
        )
        .await?;
    Ok(Phase { each, ..phase })
}

/// Waits for all, and returns after how many seconds each was done.
async fn all_done(stage: &Stage, sets: usize) -> Result<Vec<f64>> {
    let begun = Instant::now();
    let waits = (0..sets).map(|number| async move {
        loop {
            let set: Value =
                objects::get(&stage.client, NAMESPACE, kind::CLONE_SET, &name(number)).await?;
            if objects::is_done(&set) {
                return anyhow::Ok(begun.elapsed().as_secs_f64());
            }
            let status = &set["status"];
            ensure!(
                begun.elapsed() < PATIENCE,
                "it is not done after {PATIENCE:?}: {status}"
            );
            sleep(LOOK).await;
        }
    });
    try_join_all(waits).await.context("of many CloneSets")
}
