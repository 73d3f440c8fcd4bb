//! The cost of SidecarSets on simulated nodes: the writes for each pod whose sidecar gets another
//! image, the extra time of pods that are updated one after the other, compared with pods that are
//! patched by hand, and the memory of a replica that does not lead.

mod one_by_one;
mod table;
mod ways;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_api::names::annotation;
use berth_cluster::programs::workspace_binaries;
use berth_e2e::objects::{self, APP, kind};
use berth_simnode::pod::annotation::START_DELAY;
use clap::Args;
use futures::{StreamExt, TryStreamExt, stream};
use serde::Serialize;
use serde_json::{Value, json};

use crate::admission;
use crate::phases::{self, NAMESPACE, PATIENCE, Phase, Ports, Program, Recipe, SYSTEM, Stage};

/// The options of the measurement.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Pods whose sidecars get new images.
    #[arg(long, default_value_t = 200)]
    pods: usize,
    /// Simulated nodes.
    #[arg(long, default_value_t = 20)]
    nodes: usize,
    /// Pods that are updated one after the other.
    #[arg(long, default_value_t = 10)]
    one_by_one: usize,
    /// How often these are.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How long their containers take to start, in seconds, beside those that start at once. A real
    /// kubelet takes about a second.
    #[arg(long, default_value_t = 1)]
    start_delay: u64,
    /// Measure the debug build: quick to try.
    #[arg(long)]
    unoptimised: bool,
    /// Where the figures go as JSON.
    #[arg(long, default_value = "target/bench-sidecars.json")]
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
    updates: Vec<Update>,
    one_by_one: Vec<one_by_one::Timed>,
    /// The memory of the replica that does not lead, KiB: before there was a pod, and its peak.
    follower_idle: u64,
    follower_peak: u64,
}

/// A change of image of all pods' sidecars.
#[derive(Debug, Serialize)]
struct Update {
    way: &'static str,
    phase: Phase,
    /// The memory of the replica that does not lead, at the end, KiB.
    follower: u64,
}

/// Two replicas: the first one leads, the other serves the webhooks.
struct Replicas {
    leader: Program,
    follower: Program,
}

const LEASE: &str = "coordination.k8s.io/v1/Lease";
const LEASE_NAME: &str = "kruise-manager";
/// Requests at once.
const AT_ONCE: usize = 32;

/// Runs the measurement.
pub(crate) async fn run(options: &Options) -> Result<()> {
    ensure!(
        options.pods > 0
            && options.nodes > 0
            && options.one_by_one > 0
            && options.rounds > 0
            && options.start_delay > 0,
        "--pods, --nodes, --one-by-one, --rounds and --start-delay are to be 1 or more"
    );
    std::fs::create_dir_all(&options.logs)
        .with_context(|| format!("cannot make {}", options.logs.display()))?;
    let built = workspace_binaries(&["berth-controller", "simnode"], !options.unoptimised)?;
    let [controller, simnode] = built.as_slice() else {
        anyhow::bail!("cargo built {} programs, not 2", built.len())
    };
    println!(
        "Making etcd, kube-apiserver and {} simulated nodes …",
        options.nodes
    );
    let mut stage = Stage::up(
        simnode,
        options.nodes,
        &phases::own_manifests(),
        &options.logs,
    )
    .await?;
    let said = || format!("what the programs say is in {}", options.logs.display());
    let figures = measure(options, &mut stage, controller)
        .await
        .with_context(said)?;
    tokio::task::spawn_blocking(move || drop(stage)).await?;
    print!("{}", table::text(&figures));
    std::fs::write(&options.json, serde_json::to_string_pretty(&figures)?)
        .with_context(|| format!("cannot write {}", options.json.display()))?;
    println!("The figures are in {}.", options.json.display());
    Ok(())
}

async fn measure(options: &Options, stage: &mut Stage, controller: &Path) -> Result<Figures> {
    let replicas = Replicas::start(stage, controller, &options.logs).await?;
    let follower_idle = replicas.follower.used()?.resident;
    let mut updates = Vec::new();
    for way in ways::ALL {
        let of_way = ways::measure(stage, &replicas, way, options.pods).await;
        updates.extend(of_way.with_context(|| format!("{} updates", way.name()))?);
    }
    let mut one_by_one = Vec::new();
    for delay in [Duration::ZERO, Duration::from_secs(options.start_delay)] {
        one_by_one.push(
            one_by_one::measure(stage, options, delay)
                .await
                .context("one by one")?,
        );
    }
    // A replica that had led in between would have a leader's memory.
    ensure!(
        replicas.follower.reconciles().await == 0,
        "the replica that was to follow has led"
    );
    let figures = Figures {
        pods: options.pods,
        nodes: options.nodes,
        processors: std::thread::available_parallelism().map_or(1, usize::from),
        optimised: !options.unoptimised,
        updates,
        one_by_one,
        follower_idle,
        follower_peak: replicas.follower.used()?.peak,
    };
    replicas.follower.stop().await?;
    replicas.leader.stop().await?;
    Ok(figures)
}

impl Replicas {
    /// Starts one replica after the other, so that the leader is known. The webhooks lead to the
    /// other one, which is measured with all requests; a Service would send it half of them.
    async fn start(stage: &Stage, controller: &Path, logs: &Path) -> Result<Self> {
        admission::make_pod_configuration(stage).await?;
        let (own, ports) = (Ports::inside()?, Ports::open(stage)?);
        let recipe = |name: &str| {
            let log = logs.join(format!("sidecars-{name}.log"));
            let _ = std::fs::remove_file(&log);
            Recipe {
                words: ports.reached_at(phases::berth(controller)),
                log,
            }
        };
        let leader = Program::start(&recipe("leader"), stage, own)?;
        let is_held = |lease: &Value| !lease["spec"]["holderIdentity"].is_null();
        objects::until(&stage.client, SYSTEM, LEASE, LEASE_NAME, PATIENCE, is_held).await?;
        let follower = Program::start(&recipe("follower"), stage, ports)?;
        leader.until_ready().await?;
        follower.until_ready().await?;
        Ok(Self { leader, follower })
    }
}

/// A SidecarSet that selects the pods whose app has its name.
fn sidecar_set(name: &str, spec: &Value) -> Value {
    let mut set = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name}, "spec": spec,
    });
    set["spec"]["selector"] = json!({"matchLabels": {APP: name}});
    set
}

/// Creates the SidecarSet, and waits until the apiserver calls the webhook for it.
async fn make_set(stage: &Stage, set: &Value) -> Result<()> {
    let made = objects::create(&stage.client, "", set).await?;
    let name = made["metadata"]["name"]
        .as_str()
        .context("the SidecarSet has a name")?;
    objects::until(
        &stage.client,
        "",
        kind::SIDECAR_SET,
        name,
        PATIENCE,
        admission::is_asked,
    )
    .await?;
    Ok(())
}

/// Creates pods of an app whose containers take `delay` to start, and waits until the SidecarSet of
/// that name counts them all.
async fn make_pods(stage: &Stage, app: &str, pods: usize, delay: Duration) -> Result<()> {
    let template = &objects::clone_set(app, 1, "main:0", &json!({}))["spec"]["template"];
    stream::iter(0..pods)
        .map(|number| {
            let mut pod = template.clone();
            (pod["apiVersion"], pod["kind"]) = (json!("v1"), json!("Pod"));
            pod["metadata"]["name"] = json!(format!("{app}-{number}"));
            pod["metadata"]["annotations"] =
                json!({START_DELAY: format!("{}ms", delay.as_millis())});
            async move { objects::create(&stage.client, NAMESPACE, &pod).await }
        })
        .buffer_unordered(AT_ONCE)
        .try_for_each(async |pod| {
            let list = &pod["metadata"]["annotations"][annotation::SIDECARSET_INJECTED_LIST];
            ensure!(
                list == app,
                "a pod was created without the sidecars: {}",
                pod["metadata"]
            );
            Ok(())
        })
        .await?;
    until_updated(stage, app, pods).await
}

/// Waits until the SidecarSet's status counts so many pods that have its present containers, and
/// serve.
async fn until_updated(stage: &Stage, name: &str, pods: usize) -> Result<()> {
    let is_so = |set: &Value| {
        let status = &set["status"];
        status["observedGeneration"] == set["metadata"]["generation"]
            && ["matchedPods", "updatedPods", "updatedReadyPods"]
                .iter()
                .all(|count| status[count] == pods)
    };
    objects::until(&stage.client, "", kind::SIDECAR_SET, name, PATIENCE, is_so)
        .await
        .map(drop)
}
