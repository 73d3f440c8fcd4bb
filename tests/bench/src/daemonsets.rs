//! The cost of DaemonSets on many simulated nodes. It measures the writes for each pod and of the
//! status while pods are created, updated in place and replaced, while many nodes join at once,
//! while a job runs on all of them, and while containers are restarted on request. It also measures
//! the controller's memory for each node and pod, and which changes of nodes trigger reconciles.
//! For Berth, and for any other controller.

mod floor;
mod job;
mod life;
mod restarts;
mod table;
mod wakes;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use berth_cluster::programs::workspace_binaries;
use clap::Args;
use serde::Serialize;

use crate::admission::make_pod_configuration;
use crate::phases::{self, Phase, Ports, Program, Recipe, Stage};

/// The options of the measurement.
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
    /// How long nodes send only heartbeats, in seconds.
    #[arg(long, default_value_t = 60)]
    heartbeats: u64,
    /// Containers to restart, each of another pod, and again with a pod that is out of service
    /// before; 0 for none.
    #[arg(long, default_value_t = 50)]
    requests: usize,
    /// Measure another controller, too, but for restarts. Its command may have {kubeconfig},
    /// {host}, and the ports {metrics}, {health} and {webhook}.
    #[arg(long, value_name = "COMMAND")]
    peer: Option<String>,
    /// The objects that the other controller needs in the cluster: a file or directory of
    /// manifests, such as the output of `kubectl kustomize` for its configuration. Its Deployment
    /// may be among them: no controller runs it.
    #[arg(long, value_name = "PATH", requires = "peer")]
    peer_manifests: Option<PathBuf>,
    /// The directory of `berth-controller` and `simnode`, instead of building them now: to measure
    /// those of another commit.
    #[arg(long, value_name = "DIRECTORY")]
    programs: Option<PathBuf>,
    /// Measure the debug build: quick to try.
    #[arg(long)]
    unoptimised: bool,
    /// Where the figures go as JSON.
    #[arg(long, default_value = "target/bench-daemonsets.json")]
    json: PathBuf,
    /// The directory of the programs' logs.
    #[arg(long, default_value = "target/bench-logs")]
    logs: PathBuf,
}

impl Options {
    fn joining(&self) -> usize {
        self.joining.unwrap_or(self.nodes / 10)
    }
}

/// All measurements.
#[derive(Debug, Serialize)]
struct Figures {
    nodes: usize,
    processors: usize,
    optimised: bool,
    /// How long nodes that join at once take if a bare loop creates their pods.
    floor: f64,
    lives: Vec<Life>,
}

/// The measurements of one controller.
#[derive(Debug, Serialize)]
struct Life {
    subject: &'static str,
    held: Vec<Held>,
    steps: Vec<Step>,
    wakes: Vec<Wake>,
}

/// A controller that is measured.
struct Subject {
    name: &'static str,
    words: Vec<String>,
    manifests: PathBuf,
    /// The name in its metrics of the part that reconciles DaemonSets.
    controller: &'static str,
    /// Simulated nodes carry out this controller's stops of containers.
    restarts: bool,
}

/// The controller's memory at rest, KiB.
#[derive(Debug, Serialize)]
struct Held {
    moment: &'static str,
    nodes: usize,
    pods: usize,
    resident: u64,
    anonymous: u64,
}

/// A change of the DaemonSet or its nodes.
#[derive(Debug, Serialize)]
struct Step {
    phase: Phase,
    /// How often its status was written.
    told: usize,
    /// The most status writes within a second.
    told_in_a_second: usize,
}

/// A change of nodes, and the number of reconciles of DaemonSets after it.
#[derive(Debug, Serialize)]
struct Wake {
    change: String,
    reconciles: u64,
}

/// Runs the measurement.
pub(crate) async fn run(options: &Options) -> Result<()> {
    ensure!(
        options.nodes > 0 && options.sets > 0,
        "--nodes and --sets are to be 1 or more"
    );
    std::fs::create_dir_all(&options.logs)
        .with_context(|| format!("cannot make {}", options.logs.display()))?;
    const NAMES: [&str; 2] = ["berth-controller", "simnode"];
    let programs = match &options.programs {
        Some(directory) => NAMES.map(|name| directory.join(name)).to_vec(),
        None => workspace_binaries(&NAMES, !options.unoptimised)?,
    };
    let [controller, simnode] = programs.as_slice() else {
        anyhow::bail!("cargo built {} programs", programs.len())
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let mut figures = Figures {
        nodes: options.nodes,
        processors,
        optimised: !options.unoptimised,
        floor: 0.0,
        lives: Vec::new(),
    };
    for subject in subjects(options, controller) {
        println!("{}: making etcd and kube-apiserver …", subject.name);
        // The nodes come later, because the controller is measured without any before.
        let mut stage = Stage::up(simnode, 0, &subject.manifests, &options.logs).await?;
        if figures.lives.is_empty() {
            figures.floor =
                floor::measure(&stage, options.nodes..options.nodes + options.joining()).await?;
        }
        let life = measure(&mut stage, &subject, options)
            .await
            .with_context(|| format!("with {}", subject.name))?;
        figures.lives.push(life);
        tokio::task::spawn_blocking(move || drop(stage)).await?;
        // Finished measurements are kept, even if the next one fails.
        std::fs::write(&options.json, serde_json::to_string_pretty(&figures)?)
            .with_context(|| format!("cannot write {}", options.json.display()))?;
    }
    print!("{}", table::text(&figures));
    println!("The figures are in {}.", options.json.display());
    Ok(())
}

fn subjects(options: &Options, controller: &Path) -> Vec<Subject> {
    let own = phases::own_manifests();
    let berth = Subject {
        name: "berth",
        words: phases::berth(controller),
        manifests: own.clone(),
        controller: "daemonset",
        restarts: true,
    };
    let peer = options.peer.as_ref().map(|command| Subject {
        name: "peer",
        words: command.split_whitespace().map(str::to_owned).collect(),
        manifests: options.peer_manifests.clone().unwrap_or(own),
        controller: "daemonset-controller",
        restarts: false,
    });
    std::iter::once(berth).chain(peer).collect()
}

async fn measure(stage: &mut Stage, subject: &Subject, options: &Options) -> Result<Life> {
    let log = options
        .logs
        .join(format!("daemonsets-{}.log", subject.name));
    let _ = std::fs::remove_file(&log);
    let said = format!("what the controller says is in {}", log.display());
    let recipe = Recipe {
        words: subject.words.clone(),
        log,
    };
    if subject.restarts {
        // The webhook fills in requests at their creation, which costs no write.
        make_pod_configuration(stage).await?;
    }
    let program = Program::start(&recipe, stage, Ports::open(stage)?)?;
    let measured = async {
        let (held, steps) = life::measure(stage, &program, subject, options).await?;
        let wakes = wakes::measure(stage, &program, subject.controller, options).await?;
        anyhow::Ok(Life {
            subject: subject.name,
            held,
            steps,
            wakes,
        })
    };
    let life = measured.await.context(said)?;
    program.stop().await?;
    Ok(life)
}
