//! The cost of budgets on simulated nodes: the writes of a rollout in place that reserves from one,
//! compared with a rollout without, and the memory of many budgets.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use berth_cluster::programs::workspace_binaries;
use berth_e2e::objects::{self, APP, kind};
use clap::Args;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::EvictParams;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::{Duration, Instant, sleep};

use crate::admission::{is_true, make_configuration, make_pod_configuration};
use crate::median::percentiles;
use crate::phases::{
    self, NAMESPACE, PATIENCE, Phase, Place, Ports, Program, Recipe, Stage, begin,
};

/// The options of the measurement.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Pods of the CloneSet.
    #[arg(long, default_value_t = 1_000)]
    pods: usize,
    /// Simulated nodes.
    #[arg(long, default_value_t = 20)]
    nodes: usize,
    /// Evictions one after the other, for each series: enough that a hundredth of them is more than
    /// a few.
    #[arg(long, default_value_t = 1_000)]
    evictions: usize,
    /// Further budgets.
    #[arg(long, default_value_t = 1_000)]
    budgets: usize,
    /// Pods that each of these selects, and that run on no node.
    #[arg(long, default_value_t = 20)]
    selected: usize,
    /// Measure the debug build: quick to try.
    #[arg(long)]
    unoptimised: bool,
    /// Where the figures go as JSON.
    #[arg(long, default_value = "target/bench-budgets.json")]
    json: PathBuf,
    /// The directory of the programs' logs.
    #[arg(long, default_value = "target/bench-logs")]
    logs: PathBuf,
}

/// All measurements.
#[derive(Debug, Serialize)]
struct Figures {
    optimised: bool,
    phases: Vec<Phase>,
    /// How long evictions took, p50 and p99 in milliseconds.
    evictions: Vec<(&'static str, [f64; 2])>,
    /// The controller's memory in KiB, without many budgets, and with them.
    before: u64,
    with_budgets: u64,
}

const BUDGET: &str = "policy.kruise.io/v1beta1/PodUnavailableBudget";
const GATES: &str = "--feature-gates=ImagePullJobGate=true,PodUnavailableBudgetUpdateGate=true";
const NAME: &str = "web";
/// Requests at once.
const AT_ONCE: usize = 32;
/// Pods of the CloneSet without a budget.
const OTHERS: usize = 200;
/// A CloneSet whose pods have no budget.
const OTHER: &str = "other";
/// The pause after each eviction.
const BETWEEN: Duration = Duration::from_millis(50);
/// The time until memory is read.
const REST: Duration = Duration::from_secs(10);

/// Runs the measurement.
pub(crate) async fn run(options: &Options) -> Result<()> {
    ensure!(
        options.pods > 0 && options.nodes > 0,
        "--pods and --nodes are to be 1 or more"
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
    print!("{}", text(options, &figures));
    std::fs::write(&options.json, serde_json::to_string_pretty(&figures)?)
        .with_context(|| format!("cannot write {}", options.json.display()))?;
    println!("The figures are in {}.", options.json.display());
    Ok(())
}

async fn measure(options: &Options, stage: &mut Stage, controller: &Path) -> Result<Figures> {
    let log = options.logs.join("budgets.log");
    let _ = std::fs::remove_file(&log);
    let words = phases::berth(controller).into_iter();
    let words = words
        .map(|word| {
            if word.starts_with("--feature-gates=") {
                GATES.to_owned()
            } else {
                word
            }
        })
        .collect();
    // This webhook adds the pod's uid to an eviction.
    make_pod_configuration(stage).await?;
    make_configuration(
        stage,
        "ValidatingWebhookConfiguration",
        "kruise-budget-webhook-configuration",
    )
    .await?;
    let program = Program::start_at(
        Place::Inside,
        &Recipe { words, log },
        stage,
        Ports::inside()?,
    )?;
    let rolling_update = json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": "25%"});
    let set = objects::clone_set(NAME, options.pods, "web:1", &rolling_update);
    objects::create(&stage.client, NAMESPACE, &set).await?;
    done(stage).await?;
    let mut phases = Vec::new();
    for (name, image) in [("free", "web:2"), ("free again", "web:3")] {
        phases.push(roll(stage, &program, &set, (name, image), options.pods).await?);
    }
    let other = objects::clone_set(OTHER, OTHERS, "web:1", &rolling_update);
    objects::create(&stage.client, NAMESPACE, &other).await?;
    objects::until(
        &stage.client,
        NAMESPACE,
        kind::CLONE_SET,
        OTHER,
        PATIENCE,
        objects::is_done,
    )
    .await?;
    let mut evictions = vec![(
        "the webhook is not called",
        evict(stage, OTHER, options.evictions).await?,
    )];
    let target = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": NAME});
    let budget = budget(NAME, &json!({"targetRef": target, "maxUnavailable": "25%"}));
    objects::create(&stage.client, NAMESPACE, &budget).await?;
    let is_asked = |budget: &Value| {
        budget["status"]["totalReplicas"] == options.pods && is_true(budget, "Enforced")
    };
    objects::until(&stage.client, NAMESPACE, BUDGET, NAME, PATIENCE, is_asked).await?;
    for (name, image) in [("budget", "web:4"), ("budget again", "web:5")] {
        phases.push(roll(stage, &program, &set, (name, image), options.pods).await?);
    }
    evictions.push((
        "asked, and no budget holds the pod",
        evict(stage, OTHER, options.evictions).await?,
    ));
    evictions.push((
        "a budget holds the pod",
        evict(stage, NAME, options.evictions).await?,
    ));
    make_selected(options, stage).await?;
    sleep(REST).await;
    let before = program.used()?.resident;
    let names = (0..options.budgets).map(many);
    let made = stream::iter(names.clone()).map(|name| {
        let selector = json!({"matchLabels": {APP: name}});
        let budget = self::budget(
            &name,
            &json!({"selector": selector, "maxUnavailable": 1, "protectTotalReplicas": options.selected}),
        );
        let client = &stage.client;
        async move { objects::create(client, NAMESPACE, &budget).await }
    });
    made.buffer_unordered(AT_ONCE)
        .try_for_each(async |_| Ok(()))
        .await?;
    for name in names {
        let is_counted = |budget: &Value| budget["status"]["totalReplicas"] == options.selected;
        objects::until(
            &stage.client,
            NAMESPACE,
            BUDGET,
            &name,
            PATIENCE,
            is_counted,
        )
        .await?;
    }
    sleep(REST).await;
    let with_budgets = program.used()?.resident;
    program.stop().await?;
    Ok(Figures {
        optimised: !options.unoptimised,
        phases,
        evictions,
        before,
        with_budgets,
    })
}

/// The name of one of many budgets, and the app that it selects.
fn many(number: usize) -> String {
    format!("budget-{number}")
}

/// Creates the pods that many budgets select. They are not scheduled, so that nothing writes to
/// them.
async fn make_selected(options: &Options, stage: &Stage) -> Result<()> {
    let template = &objects::clone_set(NAME, 1, "web:1", &json!({}))["spec"]["template"];
    let pods = (0..options.budgets)
        .flat_map(|number| (0..options.selected).map(move |pod| (many(number), pod)));
    let made = stream::iter(pods).map(|(app, number)| {
        let mut pod = template.clone();
        (pod["apiVersion"], pod["kind"], pod["spec"]["schedulerName"]) =
            (json!("v1"), json!("Pod"), json!("none"));
        pod["metadata"] = json!({"name": format!("{app}-{number}"), "labels": {APP: app}});
        async move { objects::create(&stage.client, NAMESPACE, &pod).await }
    });
    made.buffer_unordered(AT_ONCE)
        .try_for_each(async |_| Ok(()))
        .await
}

fn budget(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "policy.kruise.io/v1beta1", "kind": "PodUnavailableBudget", "metadata": {"name": name}, "spec": spec,
    })
}

async fn done(stage: &Stage) -> Result<()> {
    objects::until(
        &stage.client,
        NAMESPACE,
        kind::CLONE_SET,
        NAME,
        PATIENCE,
        objects::is_done,
    )
    .await?;
    Ok(())
}

/// Evicts pods of a CloneSet one after the other; after half of its pods, waits until it is whole
/// again.
async fn evict(stage: &Stage, name: &str, evictions: usize) -> Result<[f64; 2]> {
    let pods = Api::<Pod>::namespaced(stage.client.clone(), NAMESPACE);
    let mut times = Vec::new();
    while times.len() < evictions {
        let all = objects::list(
            &stage.client,
            NAMESPACE,
            kind::POD,
            &format!("{APP}={name}"),
        )
        .await?;
        ensure!(all.len() > 1, "{name} has {} pods", all.len());
        let names = all
            .iter()
            .filter_map(|pod| pod["metadata"]["name"].as_str());
        for name in names.take((all.len() / 2).min(evictions - times.len())) {
            let began = Instant::now();
            pods.evict(name, &EvictParams::default())
                .await
                .with_context(|| format!("cannot evict {name}"))?;
            times.push(began.elapsed().as_secs_f64() * 1e3);
            sleep(BETWEEN).await;
        }
        let is_whole = |set: &Value| set["status"]["readyReplicas"] == set["spec"]["replicas"];
        objects::until(
            &stage.client,
            NAMESPACE,
            kind::CLONE_SET,
            name,
            PATIENCE,
            is_whole,
        )
        .await?;
    }
    Ok(percentiles(&mut times))
}

async fn roll(
    stage: &mut Stage,
    program: &Program,
    set: &Value,
    (name, image): (&'static str, &str),
    pods: usize,
) -> Result<Phase> {
    let phase = begin(stage, Some(program)).await?;
    let patch = objects::image_patch(set, image);
    objects::patch(&stage.client, NAMESPACE, kind::CLONE_SET, NAME, &patch).await?;
    done(stage).await?;
    phase
        .end(stage, Some(program), ("berth", 1), (name, pods))
        .await
}

/// A table of the rollouts, and the memory of many budgets.
fn text(options: &Options, figures: &Figures) -> String {
    let mut text = format!(
        "\n{} pods in place at 25%, on {} simulated nodes{}; writes for each pod:\n\n\
         | rollout | s | CPU s | pods | all but the ledger | ledger |\n|---|--:|--:|--:|--:|--:|\n",
        options.pods,
        options.nodes,
        if figures.optimised {
            ""
        } else {
            ", programs built for debugging"
        }
    );
    for phase in &figures.phases {
        let of = |wanted: &[&str]| -> u64 {
            wanted
                .iter()
                .filter_map(|key| phase.requests.all.get(*key))
                .sum()
        };
        let ledger = of(&["patch podunavailablebudgets/status"]);
        let pods = of(&["patch pods", "patch pods/status"]);
        let per_pod = |count: u64| count as f64 / phase.pods as f64;
        text += &format!(
            "| {} | {:.2} | {:.2} | {:.3} | {:.3} | {:.3} |\n",
            phase.name,
            phase.seconds,
            phase.cpu,
            per_pod(pods),
            per_pod(phase.writes - ledger),
            per_pod(ledger)
        );
    }
    text += "\n| evictions, one by one | p50 ms | p99 ms |\n|---|--:|--:|\n";
    for (name, [p50, p99]) in &figures.evictions {
        text += &format!("| {name} | {p50:.1} | {p99:.1} |\n");
    }
    let more = (figures.with_budgets.saturating_sub(figures.before)) as f64 / 1024.0;
    let pods = options.budgets * options.selected;
    text += &format!(
        "\n{} budgets more, over {pods} pods, take {more:.1} MiB.\n",
        options.budgets
    );
    text
}
