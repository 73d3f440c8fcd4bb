//! The cost of the pod webhook for clients that create pods: how long the apiserver waits for its
//! answers, by the apiserver's own histogram, and how often it is called for pods that no
//! SidecarSet or record selects.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_cluster::programs::workspace_binaries;
use berth_e2e::objects::{self, APP, kind};
use clap::Args;
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::DeleteParams;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until};

use crate::phases::{self, NAMESPACE, Place, Ports, Program, Recipe, Stage};

const SET: &str = "db";
/// The app that SidecarSets select.
const SELECTED: &str = "with-sidecars";
/// A scheduler that does not exist.
const NO_SCHEDULER: &str = "none";
const HISTOGRAM: &str = "apiserver_admission_webhook_admission_duration_seconds";
const CONFIGURATION: &str = "admissionregistration.k8s.io/v1/MutatingWebhookConfiguration";
const SETTLED: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(300);
/// Requests at once: so few that one that waits delays no others.
const AT_ONCE: usize = 32;

/// How many pods to create, and how fast.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Pods of a StatefulSet of Kubernetes' own, created twice: the second time each has a record
    /// and is pinned.
    #[arg(long, default_value_t = 1000)]
    pods: usize,
    /// Pods created in a second.
    #[arg(long, default_value_t = 100)]
    rate: u32,
    /// Simulated nodes.
    #[arg(long, default_value_t = 20)]
    nodes: usize,
    /// SidecarSets, of which two select the pods that are created last.
    #[arg(long, default_value_t = 200)]
    sidecar_sets: usize,
    /// How often pods that SidecarSets select are created, in turns with pinned ones. The webhook
    /// answers for these at once, so their delays are those of the apiserver and its machine.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Let all pods run. Otherwise only pods that get a record run: a pod's way to Ready is five
    /// writes and their consequences. If nodes and control plane share few cores, the webhook's
    /// answers wait for these.
    #[arg(long)]
    all_run: bool,
    /// Measure the debug build: quick to try.
    #[arg(long)]
    unoptimised: bool,
    /// The directory of the programs' logs.
    #[arg(long, default_value = "target/bench-logs")]
    logs: PathBuf,
}

/// Runs the measurement.
pub(crate) async fn run(options: &Options) -> Result<()> {
    ensure!(
        options.pods > 0 && options.rate > 0 && options.nodes > 0,
        "--pods, --rate and --nodes are to be 1 or more"
    );
    std::fs::create_dir_all(&options.logs)
        .with_context(|| format!("cannot make {}", options.logs.display()))?;
    let built = workspace_binaries(&["berth-controller", "simnode"], !options.unoptimised)?;
    let [controller, simnode] = built.as_slice() else {
        anyhow::bail!("cargo built {} programs, not 2", built.len())
    };
    let stage = Stage::unaudited(
        simnode,
        options.nodes,
        &phases::own_manifests(),
        &options.logs,
    )
    .await?;
    let mut words = phases::berth(controller);
    words.push("--pod-pinning=webhook".to_owned());
    let recipe = Recipe {
        words,
        log: options.logs.join("admission.log"),
    };
    let measured = measure(options, &stage, &recipe).await;
    measured.with_context(|| format!("what it says is in {}", recipe.log.display()))?;
    tokio::task::spawn_blocking(move || drop(stage)).await?;
    Ok(())
}

/// A webhook configuration, as the chart installs it: the leader writes its entries.
pub(crate) async fn make_configuration(stage: &Stage, kind: &str, name: &str) -> Result<()> {
    let empty = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "webhooks": [],
    });
    objects::create(&stage.client, "", &empty).await.map(drop)
}

/// Makes the configuration of the pod webhook.
pub(crate) async fn make_pod_configuration(stage: &Stage) -> Result<()> {
    make_configuration(
        stage,
        "MutatingWebhookConfiguration",
        "kruise-mutating-webhook-configuration",
    )
    .await
}

/// Is the entry called for pods?
fn is_of_pods(entry: &Value) -> bool {
    entry["name"]
        .as_str()
        .is_some_and(|name| name.ends_with(".pods.kruise.io"))
}

async fn measure(options: &Options, stage: &Stage, recipe: &Recipe) -> Result<()> {
    make_pod_configuration(stage).await?;
    let program = Program::start_at(Place::Inside, recipe, stage, Ports::inside()?)?;
    let owner = make_set(stage, options.pods).await?;
    objects::until(
        &stage.client,
        "",
        CONFIGURATION,
        "kruise-mutating-webhook-configuration",
        PATIENCE,
        |configuration| {
            configuration["webhooks"]
                .as_array()
                .is_some_and(|entries| entries.iter().any(is_of_pods))
        },
    )
    .await?;
    println!(
        "{:<34} {:>7} {:>9} {:>9} {:>9} {:>9}",
        "", "calls", "mean ms", "<= 5 ms", "<= 25 ms", "pods/s"
    );
    create(
        options,
        stage,
        "pods without a record",
        SET,
        &owner,
        options.all_run,
    )
    .await?;
    delete(stage).await?;
    create(
        options,
        stage,
        "pods without a record, which run",
        SET,
        &owner,
        true,
    )
    .await?;
    let all = |state: &Value| {
        state["status"]["podStates"]
            .as_object()
            .is_some_and(|all| all.len() == options.pods)
    };
    objects::until(
        &stage.client,
        NAMESPACE,
        kind::PERSISTENT_POD_STATE,
        SET,
        PATIENCE,
        all,
    )
    .await?;
    delete(stage).await?;
    create(
        options,
        stage,
        "pods with one, pinned",
        SET,
        &owner,
        options.all_run,
    )
    .await?;
    let pods = objects::list(&stage.client, NAMESPACE, kind::POD, "").await?;
    let pinned = pods
        .iter()
        .filter(|pod| pod["spec"]["nodeSelector"].is_object())
        .count();
    println!("{pinned} of {} pods are pinned.", pods.len());
    delete(stage).await?;
    create(
        options,
        stage,
        "pods without an owner",
        SET,
        &Value::Null,
        options.all_run,
    )
    .await?;
    delete(stage).await?;
    make_sidecar_sets(options.sidecar_sets, stage).await?;
    // The apiserver's work for their creation is over before its waits are measured.
    sleep(SETTLED).await;
    let (mut selected, mut pinned) = (Histogram::default(), Histogram::default());
    for _ in 0..options.rounds {
        selected.add(
            &create(
                options,
                stage,
                "pods that SidecarSets select",
                SELECTED,
                &Value::Null,
                options.all_run,
            )
            .await?,
        );
        let pods = objects::list(&stage.client, NAMESPACE, kind::POD, "").await?;
        let injected = pods.iter().filter(|pod| {
            pod["spec"]["containers"]
                .as_array()
                .is_some_and(|all| all.len() == 3)
        });
        println!(
            "{} of {} pods have two sidecars.",
            injected.count(),
            pods.len()
        );
        delete(stage).await?;
        pinned.add(
            &create(
                options,
                stage,
                "pinned, beside SidecarSets",
                SET,
                &owner,
                options.all_run,
            )
            .await?,
        );
        delete(stage).await?;
    }
    println!("{}", selected.row("pods that SidecarSets select, all"));
    println!("{}", pinned.row("pinned, beside SidecarSets, all"));
    create(
        options,
        stage,
        "pods that none selects",
        SET,
        &Value::Null,
        options.all_run,
    )
    .await?;
    println!(
        "By the apiserver's histogram, which knows 5 ms and 25 ms; {} pods each, {} a second{}.",
        options.pods,
        options.rate,
        if options.all_run {
            ""
        } else {
            "; only those run of which it is said"
        }
    );
    program.stop().await
}

/// The StatefulSet, which no controller runs here; returns its owner reference.
async fn make_set(stage: &Stage, pods: usize) -> Result<Value> {
    let of_clone_set = objects::clone_set(SET, pods, "db:1", &json!({}));
    let set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": SET, "annotations": {
            "kruise.io/auto-generate-persistent-pod-state": "true",
            "kruise.io/required-persistent-topology": "kubernetes.io/hostname",
        }},
        "spec": {
            "replicas": pods, "serviceName": SET, "selector": of_clone_set["spec"]["selector"],
            "template": of_clone_set["spec"]["template"],
        },
    });
    let made = objects::create(&stage.client, NAMESPACE, &set).await?;
    Ok(json!([{
        "apiVersion": "apps/v1", "kind": "StatefulSet", "name": SET, "uid": made["metadata"]["uid"], "controller": true,
    }]))
}

/// Creates SidecarSets, two of which select pods that are created later. When this returns, the
/// apiserver calls the webhook for these pods.
async fn make_sidecar_sets(count: usize, stage: &Stage) -> Result<()> {
    for number in 0..count {
        let app = if number < 2 {
            SELECTED.to_owned()
        } else {
            format!("other-{number}")
        };
        let set = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": format!("sidecars-{number}")},
            "spec": {
                "selector": {"matchLabels": {APP: app}},
                "containers": [{"name": format!("log-{number}"), "image": "log:1"}],
            },
        });
        objects::create(&stage.client, "", &set).await?;
    }
    for number in 0..count {
        let name = format!("sidecars-{number}");
        objects::until(
            &stage.client,
            "",
            kind::SIDECAR_SET,
            &name,
            PATIENCE,
            is_asked,
        )
        .await?;
    }
    Ok(())
}

/// Does the apiserver call the webhook for the pods that the SidecarSet selects?
pub(crate) fn is_asked(set: &Value) -> bool {
    is_true(set, "InjectionReady")
}

/// Is this condition of the object True?
pub(crate) fn is_true(object: &Value, type_: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.is_some_and(|all| {
        all.iter()
            .any(|one| one["type"] == type_ && one["status"] == "True")
    })
}

/// Creates the pods at the given rate; prints and returns the webhook's times.
async fn create(
    options: &Options,
    stage: &Stage,
    what: &str,
    app: &str,
    owner: &Value,
    run: bool,
) -> Result<Histogram> {
    let before = Histogram::read(stage).await?;
    let template = &objects::clone_set(SET, 1, "db:1", &json!({}))["spec"]["template"];
    let (begun, pause) = (Instant::now(), Duration::from_secs(1) / options.rate);
    stream::iter(0..u32::try_from(options.pods)?)
        .map(|number| {
            let mut pod = template.clone();
            (pod["apiVersion"], pod["kind"]) = (json!("v1"), json!("Pod"));
            if !run {
                pod["spec"]["schedulerName"] = json!(NO_SCHEDULER);
            }
            pod["metadata"] = json!({
                "name": format!("{SET}-{number}"), "labels": {APP: app}, "ownerReferences": owner,
            });
            async move {
                sleep_until(begun + pause * number).await;
                objects::create(&stage.client, NAMESPACE, &pod)
                    .await
                    .map(drop)
            }
        })
        .buffer_unordered(AT_ONCE)
        .try_collect::<()>()
        .await?;
    let rate = options.pods as f64 / begun.elapsed().as_secs_f64();
    let took = Histogram::read(stage).await?.since(&before);
    println!("{} {rate:>9.0}", took.row(what));
    Ok(took)
}

/// Deletes all pods, and waits for their end.
pub(crate) async fn delete(stage: &Stage) -> Result<()> {
    let pods =
        kube::Api::<k8s_openapi::api::core::v1::Pod>::namespaced(stage.client.clone(), NAMESPACE);
    let at_once = DeleteParams {
        grace_period_seconds: Some(0),
        ..DeleteParams::default()
    };
    pods.delete_collection(&at_once, &kube::api::ListParams::default())
        .await?;
    let deadline = Instant::now() + PATIENCE;
    while stage.pods().await? > 0 {
        ensure!(Instant::now() < deadline, "pods do not end");
        sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}

/// How long the apiserver has waited for mutating webhooks of creations.
#[derive(Debug, Default)]
struct Histogram {
    calls: f64,
    seconds: f64,
    /// The number of calls up to each upper bound, in the bound's written form.
    buckets: BTreeMap<String, f64>,
}

impl Histogram {
    async fn read(stage: &Stage) -> Result<Self> {
        let request = http::Request::get("/metrics").body(Vec::new())?;
        Ok(Self::parse(&stage.client.request_text(request).await?))
    }

    fn parse(text: &str) -> Self {
        let mut all = Self::default();
        for line in text.lines().filter(|line| line.starts_with(HISTOGRAM)) {
            let is_asked = ["operation=\"CREATE\"", "type=\"admit\""]
                .iter()
                .all(|label| line.contains(label));
            let value = line
                .rsplit_once(' ')
                .and_then(|(_, value)| value.parse::<f64>().ok());
            let (true, Some(value)) = (is_asked, value) else {
                continue;
            };
            let rest = &line[HISTOGRAM.len()..];
            if rest.starts_with("_count") {
                all.calls += value;
            } else if rest.starts_with("_sum") {
                all.seconds += value;
            } else if let Some((_, bound)) = rest.split_once("le=\"") {
                let bound = bound.split('"').next().unwrap_or_default();
                *all.buckets.entry(bound.to_owned()).or_default() += value;
            }
        }
        all
    }

    fn within(&self, bound: &str) -> f64 {
        self.buckets.get(bound).copied().unwrap_or_default()
    }

    /// The number of calls, their mean in ms, and how many took at most 5 ms and 25 ms.
    fn row(&self, what: &str) -> String {
        let of_calls = |value: f64, unit: &str| {
            if self.calls > 0.0 {
                format!("{:.2}{unit}", value / self.calls)
            } else {
                "-".to_owned()
            }
        };
        let share = |bound: &str| of_calls(100.0 * self.within(bound), " %");
        let (mean, soon, late) = (
            of_calls(1000.0 * self.seconds, ""),
            share("0.005"),
            share("0.025"),
        );
        format!("{what:<34} {:>7} {mean:>9} {soon:>9} {late:>9}", self.calls)
    }

    fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.seconds += other.seconds;
        for (bound, count) in &other.buckets {
            *self.buckets.entry(bound.clone()).or_default() += count;
        }
    }

    fn since(&self, before: &Self) -> Self {
        let buckets = self
            .buckets
            .iter()
            .map(|(bound, count)| (bound.clone(), count - before.within(bound)))
            .collect();
        Self {
            calls: self.calls - before.calls,
            seconds: self.seconds - before.seconds,
            buckets,
        }
    }
}

#[cfg(test)]
mod tests;
