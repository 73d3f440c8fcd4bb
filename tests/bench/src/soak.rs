//! A day of churn, compressed: hundreds of CloneSets are scaled, updated, deleted and created anew,
//! images are pulled ahead, pods and nodes are lost. At the end of each hour all objects are
//! brought to the same state. Then memory and numbers of objects must be those of the hour before.

mod churn;
mod count;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use berth_cluster::programs::workspace_binaries;
use clap::Args;
use futures::{StreamExt, TryStreamExt, stream};
use serde::Serialize;

use crate::phases::{self, Ports, Program, Recipe, Stage};
use crate::plot::{self, Series, Titles};
use churn::Churn;
use count::Counts;

/// The options of the churn.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// How many hours are simulated.
    #[arg(long, default_value_t = 24)]
    hours: usize,
    /// CloneSets.
    #[arg(long, default_value_t = 200)]
    sets: usize,
    /// Changes in each hour.
    #[arg(long, default_value_t = 400)]
    changes: usize,
    /// Simulated nodes.
    #[arg(long, default_value_t = 10)]
    nodes: usize,
    /// Where chance begins.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Measure the debug build: quick to try.
    #[arg(long)]
    unoptimised: bool,
    /// Where the figures go as JSON; pictures go beside it.
    #[arg(long, default_value = "target/soak.json")]
    json: PathBuf,
    /// The directory of the programs' logs.
    #[arg(long, default_value = "target/soak-logs")]
    logs: PathBuf,
}

/// The state at the end of an hour.
#[derive(Debug, Clone, Serialize)]
struct Hour {
    hour: usize,
    /// Seconds since the hour before.
    seconds: f64,
    /// Resident memory of the controller, KiB.
    resident: u64,
    counts: Counts,
}

/// Changes at once.
const PARALLEL: usize = 8;
/// The time for work that is still under way when all CloneSets are done, such as garbage
/// collection and the return of heap memory.
const SETTLE: Duration = Duration::from_secs(3);
/// The allowed ratio of the memory of the last quarter to that of the second: an allocator may keep
/// so much.
const FLAT: f64 = 1.1;

/// Runs the churn.
pub(crate) async fn run(options: &Options) -> Result<()> {
    ensure!(
        options.hours > 0 && options.sets > 0 && options.nodes > 1,
        "--hours and --sets are to be 1 or more, --nodes 2"
    );
    std::fs::create_dir_all(&options.logs)
        .with_context(|| format!("cannot make {}", options.logs.display()))?;
    let built = workspace_binaries(&["berth-controller", "simnode"], !options.unoptimised)?;
    let [controller, simnode] = built.as_slice() else {
        anyhow::bail!("cargo built {} programs, not 2", built.len())
    };
    println!(
        "Making etcd, kube-apiserver, kube-controller-manager and {} simulated nodes …",
        options.nodes
    );
    let stage = Stage::with_controllers(
        simnode,
        options.nodes,
        &phases::own_manifests(),
        &options.logs,
    )
    .await?;
    let recipe = Recipe {
        words: phases::berth(controller),
        log: options.logs.join("berth.log"),
    };
    let program = Program::start(&recipe, &stage, Ports::open(&stage)?)?;
    let hours = churn(options, &stage, &program).await;
    program.stop().await?;
    let hours = hours.with_context(|| format!("what it says is in {}", recipe.log.display()))?;
    tokio::task::spawn_blocking(move || drop(stage)).await?;
    draw(&hours, &options.json)?;
    judge(&hours)
}

async fn churn(options: &Options, stage: &Stage, program: &Program) -> Result<Vec<Hour>> {
    let churn = Churn::begin(stage, options.sets, options.nodes).await?;
    let mut random = fastrand::Rng::with_seed(options.seed);
    let mut hours: Vec<Hour> = Vec::new();
    println!(
        "{:>4} {:>7} {:>8}  {}",
        "hour",
        "s",
        "MiB",
        Counts::NAMES.join("  ")
    );
    for hour in 0..options.hours {
        let began = Instant::now();
        let changes: Vec<_> = (0..options.changes)
            .map(|_| churn.draw(&mut random))
            .collect();
        stream::iter(changes)
            .map(|change| churn.apply(change))
            .buffer_unordered(PARALLEL)
            .try_collect::<()>()
            .await
            .with_context(|| format!("in hour {hour}"))?;
        churn
            .settle(hour)
            .await
            .with_context(|| format!("at the end of hour {hour}"))?;
        tokio::time::sleep(SETTLE).await;
        let counts = Counts::take(stage, program).await?;
        let resident = program.resident()?;
        let ended = Hour {
            hour,
            seconds: began.elapsed().as_secs_f64(),
            resident,
            counts,
        };
        println!(
            "{hour:>4} {:>7.1} {:>8.1}  {}",
            ended.seconds,
            resident as f64 / 1024.0,
            ended.counts
        );
        churn
            .check(&ended.counts)
            .with_context(|| format!("at the end of hour {hour}"))?;
        hours.push(ended);
        std::fs::write(&options.json, serde_json::to_string_pretty(&hours)?)
            .with_context(|| format!("cannot write {}", options.json.display()))?;
    }
    Ok(hours)
}

fn draw(hours: &[Hour], json: &Path) -> Result<()> {
    let line = |name: &str, value: &dyn Fn(&Hour) -> f64| Series {
        name: name.to_owned(),
        points: hours
            .iter()
            .map(|hour| (hour.hour as f64, value(hour)))
            .collect(),
    };
    let (memory, objects) = (
        json.with_extension("memory.svg"),
        json.with_extension("objects.svg"),
    );
    let resident = line("berth-controller", &|hour| hour.resident as f64 / 1024.0);
    let titles = Titles {
        picture: "Resident memory at the end of each hour",
        across: "hours",
        up: "MiB",
    };
    plot::lines(&memory, titles, &[resident], &[])?;
    let counts: Vec<_> = Counts::NAMES
        .iter()
        .enumerate()
        .map(|(index, name)| line(name, &|hour| hour.counts.values()[index] as f64))
        .collect();
    let titles = Titles {
        picture: "Objects at the end of each hour",
        across: "hours",
        up: "objects",
    };
    plot::lines(&objects, titles, &counts, &[])?;
    println!(
        "The figures are in {}, and drawn in {} and {}.",
        json.display(),
        memory.display(),
        objects.display()
    );
    Ok(())
}

/// Memory is flat: the controller needs in the last quarter as much as in the second.
fn judge(hours: &[Hour]) -> Result<()> {
    let quarter = hours.len() / 4;
    let mean = |part: &[Hour]| {
        part.iter().map(|hour| hour.resident as f64).sum::<f64>() / part.len() as f64
    };
    if quarter == 0 {
        println!("Too few hours to say whether memory is flat.");
        return Ok(());
    }
    let growth = mean(&hours[hours.len() - quarter..]) / mean(&hours[quarter..2 * quarter]);
    println!("Resident memory of the last quarter is {growth:.2} × that of the second.");
    ensure!(
        growth <= FLAT,
        "memory grows: {growth:.2} × from the second quarter to the last"
    );
    Ok(())
}

#[cfg(test)]
mod tests;
