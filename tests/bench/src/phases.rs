//! With many pods on simulated nodes: the cost of each phase of a CloneSet's life, for Berth, for a
//! bare loop that sends the same patches, and for any other controller. The subjects alternate,
//! each on a fresh etcd and kube-apiserver.

mod audit;
mod beside;
mod floor;
mod life;
mod many;
mod measure;
mod pictures;
mod process;
mod program;
mod record;
mod stage;
mod stateful;
mod table;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use berth_cluster::programs::workspace_binaries;
use clap::Args;
use serde::Serialize;

pub(crate) use audit::OWN_STATUSES;
#[cfg(test)]
pub(crate) use audit::Requests;
pub(crate) use measure::{Phase, begin};
pub(crate) use program::{Place, Ports, Program, Recipe, berth};
use record::Sample;
pub(crate) use stage::{NAMESPACE, PATIENCE, SYSTEM, Stage};

/// The options of the measurement with simulated nodes.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Pods of the CloneSet.
    #[arg(long, default_value_t = 1000)]
    pods: usize,
    /// Simulated nodes.
    #[arg(long, default_value_t = 20)]
    nodes: usize,
    /// Rounds of each subject; the table has the medians.
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// How long the idle time is measured, in seconds.
    #[arg(long, default_value_t = 10)]
    idle: u64,
    /// Measure a bare loop, too, that sends the same patches at the same concurrency: the limit.
    #[arg(long)]
    floor: bool,
    /// Measure another controller, too. Its command may have {kubeconfig}, {host}, and the ports
    /// {metrics}, {health} and {webhook}.
    #[arg(long, value_name = "COMMAND")]
    peer: Option<String>,
    /// The objects that the other controller needs in the cluster: a file or directory of
    /// manifests, such as the output of `kubectl kustomize` for its configuration. Its Deployment
    /// may be among them: no controller runs it.
    #[arg(long, value_name = "PATH", requires = "peer")]
    peer_manifests: Option<PathBuf>,
    /// So many CloneSets more, created and rolled out at once; 0 for none.
    #[arg(long, default_value_t = 0)]
    sets: usize,
    /// Pods of each of them.
    #[arg(long, default_value_t = 500)]
    of: usize,
    /// So many CloneSets of one pod each, changed one after the other while the CloneSet is rolled
    /// out once more.
    #[arg(long, default_value_t = 0)]
    small: usize,
    /// A StatefulSet of as many pods, too, with a claim and a record for each.
    #[arg(long)]
    stateful: bool,
    /// Pull an image on all nodes by an ImagePullJob, too.
    #[arg(long)]
    pull: bool,
    /// The directory of `berth-controller` and `simnode`, instead of building them now: to measure
    /// those of another commit.
    #[arg(long, value_name = "DIRECTORY")]
    programs: Option<PathBuf>,
    /// Measure the debug build: quick to try, and slower than the programs that users install.
    #[arg(long)]
    unoptimised: bool,
    /// Where the figures go as JSON.
    #[arg(long, default_value = "target/bench-phases.json")]
    json: PathBuf,
    /// The directory of the programs' logs.
    #[arg(long, default_value = "target/bench-logs")]
    logs: PathBuf,
}

/// All measurements.
#[derive(Debug, Serialize)]
struct Figures {
    pods: usize,
    nodes: usize,
    processors: usize,
    optimised: bool,
    phases: Vec<Phase>,
    lives: Vec<Life>,
}

/// A round of a subject.
#[derive(Debug, Serialize)]
struct Life {
    subject: String,
    round: usize,
    /// Resident memory over time.
    memory: Vec<Sample>,
}

/// The controller or loop that is measured.
enum Subject {
    Controller {
        name: &'static str,
        words: Vec<String>,
        manifests: PathBuf,
    },
    Floor,
}

impl Subject {
    fn name(&self) -> &'static str {
        match self {
            Self::Controller { name, .. } => name,
            Self::Floor => "floor",
        }
    }
}

/// Runs the measurement.
pub(crate) async fn run(options: &Options) -> Result<()> {
    ensure!(
        options.rounds > 0 && options.pods > 0 && options.nodes > 0,
        "--rounds, --pods and --nodes are to be 1 or more"
    );
    std::fs::create_dir_all(&options.logs)
        .with_context(|| format!("cannot make {}", options.logs.display()))?;
    let [controller, simnode] = &programs(options)?;
    let subjects = subjects(options, controller);
    let mut figures = Figures {
        pods: options.pods,
        nodes: options.nodes,
        processors: std::thread::available_parallelism().map_or(1, usize::from),
        optimised: !options.unoptimised,
        phases: Vec::new(),
        lives: Vec::new(),
    };
    for round in 1..=options.rounds {
        for subject in &subjects {
            println!(
                "Round {round}, {}: making etcd, kube-apiserver and {} simulated nodes …",
                subject.name(),
                options.nodes
            );
            let measured = measure(options, subject, round, simnode).await;
            let (phases, memory) =
                measured.with_context(|| format!("round {round} of {}", subject.name()))?;
            figures.phases.extend(phases);
            figures.lives.push(Life {
                subject: subject.name().to_owned(),
                round,
                memory,
            });
            // Finished measurements are kept, even if the next one fails.
            std::fs::write(&options.json, serde_json::to_string_pretty(&figures)?)
                .with_context(|| format!("cannot write {}", options.json.display()))?;
        }
    }
    print!("{}", table::text(&figures));
    let pictures = pictures::write(&figures, &options.json)?;
    let pictures: Vec<_> = pictures
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    println!(
        "The figures are in {}, and drawn in {}.",
        options.json.display(),
        pictures.join(", ")
    );
    Ok(())
}

/// The controller and simnode.
fn programs(options: &Options) -> Result<[PathBuf; 2]> {
    const NAMES: [&str; 2] = ["berth-controller", "simnode"];
    if let Some(directory) = &options.programs {
        return Ok(NAMES.map(|name| directory.join(name)));
    }
    let built = workspace_binaries(&NAMES, !options.unoptimised)?;
    built.try_into().map_err(|built: Vec<_>| {
        anyhow::anyhow!("cargo built {} programs instead of 2", built.len())
    })
}

fn subjects(options: &Options, controller: &Path) -> Vec<Subject> {
    let own = own_manifests();
    let mut subjects = vec![Subject::Controller {
        name: "berth",
        words: program::berth(controller),
        manifests: own.clone(),
    }];
    if options.floor {
        subjects.push(Subject::Floor);
    }
    if let Some(command) = &options.peer {
        let words = command.split_whitespace().map(str::to_owned).collect();
        let manifests = options.peer_manifests.clone().unwrap_or(own);
        subjects.push(Subject::Controller {
            name: "peer",
            words,
            manifests,
        });
    }
    subjects
}

/// Berth's CustomResourceDefinitions.
pub(crate) fn own_manifests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/berth/files/crds")
}

async fn measure(
    options: &Options,
    subject: &Subject,
    round: usize,
    simnode: &Path,
) -> Result<(Vec<Phase>, Vec<Sample>)> {
    let manifests = match subject {
        Subject::Controller { manifests, .. } => manifests.clone(),
        Subject::Floor => own_manifests(),
    };
    let mut stage = Stage::up(simnode, options.nodes, &manifests, &options.logs).await?;
    let phases = match subject {
        Subject::Floor => floor::run(&mut stage, options, round).await?,
        Subject::Controller { name, words, .. } => {
            let log = options.logs.join(format!("{name}-{round}.log"));
            let _ = std::fs::remove_file(&log);
            let recipe = Recipe {
                words: words.clone(),
                log,
            };
            let said = format!("what it says is in {}", recipe.log.display());
            life::run(&mut stage, &recipe, options, (*name, round))
                .await
                .context(said)?
        }
    };
    let memory = stage.record.samples();
    tokio::task::spawn_blocking(move || drop(stage)).await?;
    Ok((phases, memory))
}
