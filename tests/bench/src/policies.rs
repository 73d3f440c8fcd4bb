//! The cost of the chart's admission policies for the apiserver at each status that another program
//! writes: CPU for each write, without policies, with the policies that match no status of pods,
//! and with all of them, in turns.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_cluster::programs::workspace_binaries;
use berth_e2e::objects;
use clap::Args;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::sleep;

use crate::median::median;
use crate::phases::{self, NAMESPACE, SYSTEM, Stage};

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../charts/berth");
/// The apiserver reads its policies once a second.
const IN_FORCE: Duration = Duration::from_secs(5);
const CONTAINERS: [&str; 3] = ["db", "log", "mesh"];
const VARIABLES: usize = 20;
/// Requests at once.
const AT_ONCE: usize = 8;

/// How many statuses to write, and how often.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Pods whose statuses are written.
    #[arg(long, default_value_t = 50)]
    pods: usize,
    /// Writes of each turn, for each set of policies.
    #[arg(long, default_value_t = 2000)]
    writes: usize,
    /// Turns.
    #[arg(long, default_value_t = 5)]
    turns: usize,
    /// Simulate nodes with the debug build: quick to try.
    #[arg(long)]
    unoptimised: bool,
    /// The directory of the programs' logs.
    #[arg(long, default_value = "target/bench-logs")]
    logs: PathBuf,
}

/// Runs the measurement.
pub(crate) async fn run(options: &Options) -> Result<()> {
    ensure!(
        options.pods > 0 && options.writes > 0 && options.turns > 0,
        "--pods, --writes and --turns are to be 1 or more"
    );
    std::fs::create_dir_all(&options.logs)
        .with_context(|| format!("cannot make {}", options.logs.display()))?;
    let built = workspace_binaries(&["simnode"], !options.unoptimised)?;
    let simnode = built.first().context("cargo built no simnode")?;
    let stage = Stage::unaudited(simnode, 1, &phases::own_manifests(), &options.logs).await?;
    for number in 0..options.pods {
        objects::create(&stage.client, NAMESPACE, &pod(number)).await?;
    }
    let directory = TempDir::new()?;
    let mut sets = Vec::new();
    for (what, value) in [
        ("all but that of statuses", "policies.podStatus=false"),
        ("all", "policies.podStatus=true"),
    ] {
        let file = directory.path().join(value);
        std::fs::write(&file, policies(&stage, value)?)?;
        sets.push((what, file.display().to_string(), Vec::new()));
    }
    let mut without = Vec::new();
    written(options, &stage).await?;
    for _ in 0..options.turns {
        without.push(written(options, &stage).await?);
        for (_, file, took) in &mut sets {
            stage.cluster.kubectl(&["apply", "-f", file])?;
            sleep(IN_FORCE).await;
            took.push(written(options, &stage).await?);
            stage.cluster.kubectl(&["delete", "-f", file])?;
            sleep(IN_FORCE).await;
        }
    }
    let without = median(without);
    println!(
        "{:<28} {:>12} {:>8}",
        "policies of the chart", "ms of CPU", "times"
    );
    println!("{:<28} {without:>12.2} {:>8.2}", "none", 1.0);
    for (what, _, took) in sets {
        let took = median(took);
        println!("{what:<28} {took:>12.2} {:>8.2}", took / without);
    }
    println!(
        "Of the apiserver, for each status of a pod that an administrator writes; medians of {} turns of {} writes.",
        options.turns, options.writes
    );
    tokio::task::spawn_blocking(move || drop(stage)).await?;
    Ok(())
}

/// A typical pod that no node runs: some containers, with variables and probes.
fn pod(number: usize) -> Value {
    let variable = |at: usize| json!({"name": format!("VARIABLE_{at}"), "value": format!("the value of variable {at}")});
    let variables: Vec<_> = (0..VARIABLES).map(variable).collect();
    let resources =
        json!({"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}});
    let container = |name: &&str| {
        json!({"name": name, "image": format!("{name}:1"), "env": variables, "resources": resources,
               "readinessProbe": {"tcpSocket": {"port": 8080}}, "livenessProbe": {"tcpSocket": {"port": 8080}}})
    };
    let containers: Vec<_> = CONTAINERS.iter().map(container).collect();
    let labels = json!({"app": "db", "tier": "data"});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("db-{number}"), "labels": labels},
           "spec": {"schedulerName": "none", "containers": containers}})
}

/// A kubelet's status of such a pod, with this message.
fn status(message: &str) -> Value {
    let condition = |type_: &&str| json!({"type": type_, "status": "False", "reason": "Waits", "message": message});
    let conditions: Vec<_> = ["Initialized", "Ready", "ContainersReady", "PodScheduled"]
        .iter()
        .map(condition)
        .collect();
    let container = |name: &&str| {
        json!({"name": name, "image": format!("{name}:1"), "imageID": format!("{name}@sha256:1"), "ready": false,
               "restartCount": 0, "state": {"waiting": {"reason": "ContainerCreating"}}, "lastState": {}})
    };
    let containers: Vec<_> = CONTAINERS.iter().map(container).collect();
    json!({"status": {"conditions": conditions, "containerStatuses": containers}})
}

/// The admission policies of the chart with this value, and their bindings.
fn policies(stage: &Stage, value: &str) -> Result<String> {
    let mut helm = Command::new(stage.cluster.programs().path("helm"));
    helm.args([
        "template",
        "berth",
        CHART,
        "--namespace",
        SYSTEM,
        "--kube-version",
        "1.34",
    ]);
    let output = helm
        .args([
            "--set",
            "image.registry=registry.test/berth",
            "--set",
            value,
        ])
        .output()?;
    ensure!(
        output.status.success(),
        "helm: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout)?;
    let of_policies: Vec<_> = text
        .split("\n---\n")
        .filter(|text| text.contains("\nkind: ValidatingAdmissionPolicy"))
        .collect();
    ensure!(!of_policies.is_empty(), "the chart has no policies");
    Ok(of_policies.join("\n---\n"))
}

/// Milliseconds of the apiserver's CPU for each written status.
async fn written(options: &Options, stage: &Stage) -> Result<f64> {
    let pods: Api<Pod> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let before = stage.look(None)?.apiserver;
    let from = fastrand::u32(..);
    stream::iter(0..options.writes)
        .map(|number| {
            let (pods, name) = (&pods, format!("db-{}", number % options.pods));
            // Each status differs, otherwise the apiserver would write nothing.
            let status = Patch::Strategic(status(&format!("{from} {number}")));
            async move {
                pods.patch_status(&name, &PatchParams::default(), &status)
                    .await
                    .map(drop)
            }
        })
        .buffer_unordered(AT_ONCE)
        .try_collect::<()>()
        .await?;
    let seconds = stage.look(None)?.apiserver - before;
    Ok(seconds * 1000.0 / options.writes as f64)
}
