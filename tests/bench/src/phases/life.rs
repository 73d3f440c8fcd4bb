//! The phases of a CloneSet's life under a controller.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_e2e::objects::{self, kind};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::Options;
use super::beside::Small;
use super::measure::{Phase, begin};
use super::program::{Ports, Program, Recipe};
use super::stage::{NAMESPACE, PATIENCE, Stage};
use super::{many, stateful};

const NAME: &str = "web";
const JOB: &str = "pulled";

/// Runs a controller through all phases.
pub(crate) async fn run(
    stage: &mut Stage,
    recipe: &Recipe,
    options: &Options,
    subject: (&str, usize),
) -> Result<Vec<Phase>> {
    let (pods, idle) = (options.pods, Duration::from_secs(options.idle));
    let ports = Ports::open(stage)?;
    let mut program = Program::start(recipe, stage, ports)?;
    warm_up(stage)
        .await
        .context("the controller does not get to work")?;
    let mut phases = Vec::new();

    let phase = begin(stage, Some(&program)).await?;
    sleep(idle).await;
    phases.push(
        phase
            .end(stage, Some(&program), subject, ("idle", 0))
            .await?,
    );

    let rolling_update = json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": "25%"});
    let set = objects::clone_set(NAME, pods, "web:1", &rolling_update);
    let phase = begin(stage, Some(&program)).await?;
    objects::create(&stage.client, NAMESPACE, &set).await?;
    done(stage, NAME).await?;
    phases.push(
        phase
            .end(stage, Some(&program), subject, ("create", pods))
            .await?,
    );

    for (name, image) in [("in place", "web:2"), ("again", "web:3")] {
        let patch = objects::image_patch(&set, image);
        phases.push(change(stage, &program, &patch, subject, (name, pods)).await?);
    }

    let phase = begin(stage, Some(&program)).await?;
    sleep(idle).await;
    phases.push(
        phase
            .end(stage, Some(&program), subject, ("held", 0))
            .await?,
    );

    let mut patch = objects::image_patch(&set, "web:4");
    let recreate =
        json!({"podUpdatePolicy": "ReCreate", "maxUnavailable": "25%", "maxSurge": "10%"});
    patch["spec"]["updateStrategy"] = json!({"rollingUpdate": recreate});
    phases.push(change(stage, &program, &patch, subject, ("recreate", pods)).await?);

    if options.small > 0 {
        let mut small = Small::create(stage, options.small).await?;
        phases.push(small.alone(stage, &program, subject).await?);
        phases.push(
            small
                .beside(stage, &program, options, NAME, subject)
                .await?,
        );
    }

    let others = options.small + options.sets * options.of;
    if options.sets > 0 {
        phases.extend(many::create(stage, &program, options, subject).await?);
        phases.push(many::update(stage, &program, options, subject).await?);
    }

    // The restart ends with the first decision: to delete one pod.
    program.stop().await?;
    let fewer = pods - 1;
    let wish = json!({"spec": {"replicas": fewer}});
    let wished = objects::patch(&stage.client, NAMESPACE, kind::CLONE_SET, NAME, &wish)
        .await
        .is_ok();
    program = Program::start(recipe, stage, ports)?;
    // Usage of a process before this moment does not count.
    let phase = begin(stage, Some(&program)).await?;
    // Some controllers have webhooks that must run before any change.
    let deadline = Instant::now() + PATIENCE;
    while !wished
        && let Err(error) =
            objects::patch(&stage.client, NAMESPACE, kind::CLONE_SET, NAME, &wish).await
    {
        ensure!(
            Instant::now() < deadline,
            "the CloneSet cannot be changed after the restart: {error:#}"
        );
        sleep(Duration::from_millis(50)).await;
    }
    until_pods(stage, fewer + others).await?;
    done(stage, NAME).await?;
    phases.push(
        phase
            .end(stage, Some(&program), subject, ("restart", 0))
            .await?,
    );

    let phase = begin(stage, Some(&program)).await?;
    objects::patch(
        &stage.client,
        NAMESPACE,
        kind::CLONE_SET,
        NAME,
        &json!({"spec": {"replicas": 0}}),
    )
    .await?;
    until_pods(stage, others).await?;
    done(stage, NAME).await?;
    phases.push(
        phase
            .end(stage, Some(&program), subject, ("scale down", fewer))
            .await?,
    );

    if options.stateful {
        phases.extend(stateful::run(stage, &program, (pods, others), subject).await?);
    }
    if options.pull {
        phases.push(pull(stage, &program, options.nodes, subject).await?);
    }
    program.stop().await?;
    Ok(phases)
}

/// Waits until the controller works: it creates a pod, and deletes it again.
async fn warm_up(stage: &Stage) -> Result<()> {
    let set = objects::clone_set("first", 1, "first:1", &json!({}));
    let deadline = Instant::now() + Duration::from_secs(180);
    // Its webhooks may have to start first.
    while let Err(error) = objects::create(&stage.client, NAMESPACE, &set).await {
        ensure!(
            Instant::now() < deadline,
            "the CloneSet cannot be created: {error:#}"
        );
        sleep(Duration::from_millis(200)).await;
    }
    done(stage, "first").await?;
    objects::patch(
        &stage.client,
        NAMESPACE,
        kind::CLONE_SET,
        "first",
        &json!({"spec": {"replicas": 0}}),
    )
    .await?;
    done(stage, "first").await?;
    until_pods(stage, 0).await?;
    sleep(Duration::from_secs(2)).await;
    Ok(())
}

async fn change(
    stage: &mut Stage,
    program: &Program,
    patch: &Value,
    subject: (&str, usize),
    what: (&'static str, usize),
) -> Result<Phase> {
    let phase = begin(stage, Some(program)).await?;
    objects::patch(&stage.client, NAMESPACE, kind::CLONE_SET, NAME, patch).await?;
    done(stage, NAME).await?;
    phase.end(stage, Some(program), subject, what).await
}

async fn done(stage: &Stage, name: &str) -> Result<()> {
    objects::until(
        &stage.client,
        NAMESPACE,
        kind::CLONE_SET,
        name,
        PATIENCE,
        objects::is_done,
    )
    .await?;
    Ok(())
}

pub(super) async fn until_pods(stage: &Stage, wanted: usize) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while stage.pods().await? != wanted {
        ensure!(Instant::now() < deadline, "there are never {wanted} pods");
        sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// An image, pulled on every node.
async fn pull(
    stage: &mut Stage,
    program: &Program,
    nodes: usize,
    subject: (&str, usize),
) -> Result<Phase> {
    let job = json!({
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "ImagePullJob",
        "metadata": {"name": JOB},
        "spec": {"image": "pulled:1", "parallelism": "100%", "completionPolicy": {"type": "Always"}},
    });
    let is_done = move |job: &Value| {
        !job["status"]["completionTime"].is_null()
            && job["status"]["succeeded"].as_u64() == u64::try_from(nodes).ok()
    };
    let phase = begin(stage, Some(program)).await?;
    objects::create(&stage.client, NAMESPACE, &job).await?;
    objects::until(
        &stage.client,
        NAMESPACE,
        kind::IMAGE_PULL_JOB,
        JOB,
        PATIENCE,
        is_done,
    )
    .await?;
    phase
        .end(stage, Some(program), subject, ("pull", nodes))
        .await
}
