//! What DaemonSets cost on many simulated nodes: the writes for each pod and of the status, as pods are made, updated in place and
//! replaced, and as many nodes join at once; what the controller holds for each node and pod; and which changes of nodes wake whom.

mod life;
mod table;
mod wakes;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use berth_cluster::programs::workspace_binaries;
use clap::Args;
use serde::Serialize;

use crate::phases::{self, Phase, Ports, Program, Recipe, Stage};

/// What is measured.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Simulated nodes, of which each gets a pod.
    #[arg(long, default_value_t = 1000)]
    nodes: usize,
    /// Nodes that join at once; a tenth as many as there are, unless it is said.
    #[arg(long)]
    joining: Option<usize>,
    /// DaemonSets whose pods run on nodes with a label of their own.
    #[arg(long, default_value_t = 50)]
    sets: usize,
    /// How long nodes do nothing but tell that they live, in seconds.
    #[arg(long, default_value_t = 60)]
    heartbeats: u64,
    /// Where `berth-controller` and `simnode` are, in place of those that are built now: to measure those of another commit.
    #[arg(long, value_name = "DIRECTORY")]
    programs: Option<PathBuf>,
    /// Measure what is built for debugging: quick to try.
    #[arg(long)]
    unoptimised: bool,
    /// Where the figures go as JSON.
    #[arg(long, default_value = "target/bench-daemonsets.json")]
    json: PathBuf,
    /// Where what the programs say goes.
    #[arg(long, default_value = "target/bench-logs")]
    logs: PathBuf,
}

/// Everything that was measured.
#[derive(Debug, Serialize)]
struct Figures {
    nodes: usize,
    processors: usize,
    optimised: bool,
    held: Vec<Held>,
    steps: Vec<Step>,
    wakes: Vec<Wake>,
}

/// What the controller holds at rest, KiB.
#[derive(Debug, Serialize)]
struct Held {
    moment: &'static str,
    nodes: usize,
    pods: usize,
    resident: u64,
    anonymous: u64,
}

/// Something that was done to the DaemonSet or its nodes.
#[derive(Debug, Serialize)]
struct Step {
    phase: Phase,
    /// How often its status was written.
    told: usize,
    /// How often within a second, at most.
    told_in_a_second: usize,
}

/// A change of nodes, and how many looks at DaemonSets followed.
#[derive(Debug, Serialize)]
struct Wake {
    change: String,
    reconciles: u64,
}

/// Measures.
pub(crate) async fn run(options: &Options) -> Result<()> {
    let joining = options.joining.unwrap_or(options.nodes / 10);
    ensure!(options.nodes > 0 && options.sets > 0, "--nodes and --sets are to be 1 or more");
    std::fs::create_dir_all(&options.logs).with_context(|| format!("cannot make {}", options.logs.display()))?;
    const NAMES: [&str; 2] = ["berth-controller", "simnode"];
    let programs = match &options.programs {
        Some(directory) => NAMES.map(|name| directory.join(name)).to_vec(),
        None => workspace_binaries(&NAMES, !options.unoptimised)?,
    };
    let [controller, simnode] = programs.as_slice() else { anyhow::bail!("cargo built {} programs", programs.len()) };
    println!("Making etcd and kube-apiserver …");
    // The nodes come later: before, the controller is looked at without any.
    let mut stage = Stage::up(simnode, 0, &phases::own_manifests(), &options.logs).await?;
    let log = options.logs.join("daemonsets.log");
    let _ = std::fs::remove_file(&log);
    let said = format!("what the controller says is in {}", log.display());
    let recipe = Recipe { words: phases::berth(controller), log };
    let program = Program::start(&recipe, &stage, Ports::open(&stage)?)?;
    let measured = async {
        program.until_ready().await?;
        let (held, steps) = life::measure(&mut stage, &program, options.nodes, joining).await?;
        let wakes = wakes::measure(&stage, &program, options, options.nodes + joining).await?;
        anyhow::Ok((held, steps, wakes))
    };
    let (held, steps, wakes) = measured.await.context(said)?;
    program.stop().await?;
    tokio::task::spawn_blocking(move || drop(stage)).await?;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let figures = Figures { nodes: options.nodes, processors, optimised: !options.unoptimised, held, steps, wakes };
    print!("{}", table::text(&figures));
    std::fs::write(&options.json, serde_json::to_string_pretty(&figures)?)
        .with_context(|| format!("cannot write {}", options.json.display()))?;
    println!("The figures are in {}.", options.json.display());
    Ok(())
}
