//! A node's time of day is set while its daemon pulls: nothing ends early, nothing hangs, and all
//! reported times make sense.

use anyhow::{Context, Result, ensure};
use berth_api::v1beta1::nodeimage::ImageTagStatus;
use berth_cluster::programs::workspace_binaries;
use berth_cluster::{Image, Place};
use berth_e2e::install;
use berth_e2e::objects::kind;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::pulls::{self, PART, Way};
use crate::world::Case;

/// The node whose time of day is set.
const NODE: u8 = 2;
/// The file with the seconds by which it is off, in a directory that each node has for itself, and
/// that its daemon sees.
const OFF: &str = "/run/containerd/time-is-off";
const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;
const DAEMONS: [&str; 3] = ["daemonset/kruise-daemon", "-n", install::NAMESPACE];

/// The daemons run under a program that sets their time of day.
pub(crate) async fn ahead_and_back_and_behind(case: &Case) -> Result<()> {
    let image = case.blocking(|site| {
        let binaries = workspace_binaries(&["berth-daemon", "clock"], false)?;
        let [daemon, clock] = binaries.as_slice() else {
            anyhow::bail!("no program was built")
        };
        let image = Image::scratch()
            .file("berth-daemon", daemon)?
            .layer()
            .file("clock", clock)?;
        site.push(
            &image.entrypoint(["/clock", &format!("/host{OFF}"), "/berth-daemon"]),
            &["berth-daemon:clock"],
        )?;
        Ok(site.image("berth-daemon:clock"))
    });
    let image = image.await?;
    let which = ["-o", "jsonpath={.spec.template.spec.containers[0].image}"];
    let before = case
        .kubectl(&[&["get"], &DAEMONS[..], &which[..]].concat())
        .await?;
    let tested = async {
        run_daemons(case, &image).await?;
        ahead_in_the_middle_of_a_pull(case, &image).await?;
        back_in_the_middle_of_a_pause(case).await?;
        behind_from_the_beginning(case).await
    };
    let restore = async {
        let restored = run_daemons(case, &before).await;
        restored.and(set(case, 0).await)
    };
    pulls::restored(tested, restore).await
}

/// Runs the daemons from this image, and waits until all do.
async fn run_daemons(case: &Case, image: &str) -> Result<()> {
    case.kubectl(
        &[
            &["set", "image"],
            &DAEMONS[..],
            &[&format!("daemon={image}")],
        ]
        .concat(),
    )
    .await?;
    case.kubectl(&[&["rollout", "status"], &DAEMONS[..], &["--timeout=180s"]].concat())
        .await
        .map(drop)
}

/// Sets the time of day of the node's daemon: off by so many seconds from now on.
async fn set(case: &Case, seconds: i64) -> Result<()> {
    let cluster = case.cluster()?;
    // In one step, because half a number would be another time.
    let script = format!("echo {seconds} >{OFF}.new; mv {OFF}.new {OFF}");
    case.blocking(move |_| {
        cluster
            .exec(Place::Node(NODE), &["sh", "-ec", &script])
            .map(drop)
    })
    .await
}

/// The pull has ten minutes and no second try. Its node's clock is set an hour ahead, and back
/// before its end.
async fn ahead_in_the_middle_of_a_pull(case: &Case, there: &str) -> Result<()> {
    let image = pulls::large(case, "ahead").await?;
    let [way] = Way::of(case, [NODE]).await?;
    let policy = json!({"pullPolicy": {"backoffLimit": 0, "timeoutSeconds": 600}});
    case.create(&pulls::job("ahead", &image.name, policy))
        .await?;
    let before = pulls::until_said(case, NODE, &image.name, pulls::in_the_middle).await?;
    set(case, HOUR).await?;
    // The daemon's next report about an image that the node has uses the new time.
    case.create(&pulls::job("there", there, json!({}))).await?;
    let said = pulls::until_said(case, NODE, there, |said| said.completion_time.is_some()).await?;
    let ahead = said
        .completion_time
        .context("it was said a moment ago")?
        .0
        .duration_since(Timestamp::now());
    ensure!(
        ahead > SignedDuration::from_mins(30),
        "the node's time of day is not ahead: {:?}",
        said.start_time
    );
    way.valve.allow(PART);
    let got_on = |said: &ImageTagStatus| said.bytes_done > before.bytes_done;
    let said = pulls::until_said(case, NODE, &image.name, |said| {
        got_on(said) || said.completion_time.is_some()
    })
    .await?;
    ensure!(
        said.completion_time.is_none() && said.message.is_empty(),
        "its time is not over: {said:?}"
    );
    set(case, 0).await?;
    way.valve.open();
    pulls::succeeded(case, "ahead").await?;
    is_sane(
        case,
        "ahead",
        &pulls::ensure_pulled(case, NODE, &image).await?,
    )
    .await
}

/// Between two tries the node's clock is set an hour back.
async fn back_in_the_middle_of_a_pause(case: &Case) -> Result<()> {
    let late = format!("{}-late:v1", case.namespace);
    let name = case.site.image(&late);
    set(case, HOUR).await?;
    case.create(&pulls::job(
        "late",
        &name,
        json!({"pullPolicy": {"backoffLimit": 8}}),
    ))
    .await?;
    pulls::until_said(case, NODE, &name, |said| {
        said.message.starts_with("try 4 of 9 failed")
    })
    .await?;
    set(case, 0).await?;
    case.blocking(move |site| site.push(&Image::scratch().text("late", &late), &[&late]))
        .await?;
    pulls::succeeded(case, "late").await.map(drop)
}

/// Neither the daemon nor the controller takes a pull that began a day ago for overdue, and
/// finished entries are removed in time.
async fn behind_from_the_beginning(case: &Case) -> Result<()> {
    let image = pulls::large(case, "behind").await?;
    set(case, -DAY).await?;
    let [way] = Way::of(case, [NODE]).await?;
    let more = json!({"pullPolicy": {"backoffLimit": 0}, "completionPolicy": {"ttlSecondsAfterFinished": 10}});
    case.create(&pulls::job("behind", &image.name, more))
        .await?;
    pulls::until_said(case, NODE, &image.name, pulls::in_the_middle).await?;
    case.until(kind::IMAGE_PULL_JOB, "behind", |job| {
        job["status"]["succeeded"] == 2
    })
    .await?;
    way.valve.open();
    pulls::succeeded(case, "behind").await?;
    is_sane(
        case,
        "behind",
        &pulls::ensure_pulled(case, NODE, &image).await?,
    )
    .await?;
    case.gone(kind::IMAGE_PULL_JOB, "behind").await?;
    pulls::until_node(case, NODE, |node| {
        pulls::said_of(node, &image.name).is_none()
    })
    .await
    .map(drop)
}

/// A pull does not begin before its request, does not end before it begins, and does not end in the
/// future.
async fn is_sane(case: &Case, job: &str, said: &ImageTagStatus) -> Result<()> {
    let job = case.get(kind::IMAGE_PULL_JOB, job).await?;
    let asked: Timestamp = job["metadata"]["creationTimestamp"]
        .as_str()
        .context("no time of creation")?
        .parse()?;
    let start = said
        .start_time
        .as_ref()
        .with_context(|| format!("no start: {said:?}"))?
        .0;
    let end = said
        .completion_time
        .as_ref()
        .with_context(|| format!("no end: {said:?}"))?
        .0;
    ensure!(
        asked <= start && start <= end && end <= Timestamp::now(),
        "asked for at {asked}: {said:?}"
    );
    Ok(())
}
