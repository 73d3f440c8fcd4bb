//! The replicas of the controller: are they the same processes as before, and what was their peak
//! of memory meanwhile?

use std::fs;

use anyhow::{Context, Result, ensure};
use berth_cluster::Place;
use berth_e2e::install;
use berth_e2e::objects::{self, kind};
use serde_json::Value;

use crate::world::Case;

const SELECTOR: &str = "app.kubernetes.io/component=controller";
const DEPLOYMENT: [&str; 3] = [
    "deployment/kruise-controller-manager",
    "-n",
    install::NAMESPACE,
];
/// How much more memory than at rest a replica may take in an attack, in KiB.
const MORE_MEMORY: u64 = 64 << 10;

/// A replica's process.
pub(super) struct Replica {
    pub(super) pod: String,
    pub(super) ip: String,
    pub(super) place: Place,
    container: String,
    /// Its id on the host. Clusters have no process ids of their own.
    pub(super) process: u32,
    /// Resident memory at rest, in KiB.
    resident: u64,
}

/// All replicas at one moment.
pub(super) struct Replicas(pub(super) Vec<Replica>);

impl Replicas {
    /// The present replicas. Their peaks of memory count from here on.
    pub(super) async fn now(case: &Case) -> Result<Replicas> {
        let mut replicas = Vec::new();
        // After a change of the chart's values, replicas of before may still be ending.
        for pod in pods(case)
            .await?
            .into_iter()
            .filter(|pod| pod["metadata"]["deletionTimestamp"].is_null())
        {
            let text = |value: &Value| {
                value
                    .as_str()
                    .map(str::to_owned)
                    .context("a replica is not whole")
            };
            let container = text(&pod["status"]["containerStatuses"][0]["containerID"])?;
            let place = text(&pod["spec"]["nodeName"])?.parse()?;
            let process = process(case, place, &container).await?;
            // This write resets the kernel's peak to the present resident size.
            fs::write(format!("/proc/{process}/clear_refs"), "5")
                .context("a replica's peak cannot be set back")?;
            replicas.push(Replica {
                pod: text(&pod["metadata"]["name"])?,
                ip: text(&pod["status"]["podIP"])?,
                place,
                container,
                process,
                resident: kibibytes(process, "VmRSS")?,
            });
        }
        ensure!(
            replicas.len() == 2,
            "there are {} replicas of the controller",
            replicas.len()
        );
        Ok(Replicas(replicas))
    }

    /// Each replica is the same process as before, and never took much more memory than at first.
    pub(super) async fn unharmed(&self, case: &Case) -> Result<()> {
        let pods = pods(case).await?;
        let mut harm = Vec::new();
        for Replica {
            pod,
            container,
            process,
            resident,
            ..
        } in &self.0
        {
            let now = pods
                .iter()
                .find(|now| now["metadata"]["name"] == pod.as_str());
            let status = now.map_or(&Value::Null, |now| &now["status"]["containerStatuses"][0]);
            if status["containerID"] != container.as_str() {
                harm.push(format!("{pod} was restarted: {}", status["lastState"]));
            } else if let Ok(peak) = kibibytes(*process, "VmHWM") {
                println!("{pod}: {resident} KiB at rest, {peak} KiB at most");
                if peak > resident + MORE_MEMORY {
                    harm.push(format!("{pod} took {peak} KiB, {resident} KiB at rest"));
                }
            } else {
                harm.push(format!("{pod} has ended"));
            }
        }
        ensure!(harm.is_empty(), "{}", harm.join("; "));
        Ok(())
    }

    pub(super) fn ips(&self) -> Vec<String> {
        self.0.iter().map(|replica| replica.ip.clone()).collect()
    }
}

/// Replaces the replicas if one is not ready or was restarted, so that each attack begins with
/// healthy ones, and none in a back-off.
pub(super) async fn restart_if_ill(case: &Case) -> Result<()> {
    let pods = pods(case).await?;
    let well = |pod: &Value| {
        let status = &pod["status"]["containerStatuses"][0];
        status["ready"] == true && status["restartCount"] == 0
    };
    if pods.len() != 2 || !pods.iter().all(well) {
        case.kubectl(&[&["rollout", "restart"], &DEPLOYMENT[..]].concat())
            .await?;
        case.kubectl(&[&["rollout", "status"], &DEPLOYMENT[..], &["--timeout=180s"]].concat())
            .await?;
    }
    // Terminating pods are no replicas any more.
    while self::pods(case).await?.len() != 2 {
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    Ok(())
}

async fn pods(case: &Case) -> Result<Vec<Value>> {
    objects::list(case.client(), install::NAMESPACE, kind::POD, SELECTOR).await
}

/// The process of a container.
async fn process(case: &Case, place: Place, container: &str) -> Result<u32> {
    let id = container.rsplit('/').next().unwrap_or_default().to_owned();
    let cluster = case.cluster()?;
    let tasks = case
        .blocking(move |_| cluster.exec(place, &["ctr", "-n", "k8s.io", "tasks", "ls"]))
        .await?;
    let task = tasks
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .find(|task| task.first() == Some(&&*id));
    task.and_then(|task| task.get(1)?.parse().ok())
        .with_context(|| format!("{container} has no process on {place}"))
}

/// A size that the kernel gives for a process.
fn kibibytes(process: u32, name: &str) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok())
        .with_context(|| format!("no {name}: {status}"))
}
