//! The time without decisions after the leader ends: until another replica has created a pod.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use berth_e2e::install;
use berth_e2e::objects::{self, APP, kind};
use berth_e2e::site::Site;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::process::Command;

use super::memory::PROGRAMS;

const NAMESPACE: &str = "berth-bench";
const NAME: &str = "taken-over";
const LEASE: &str = "coordination.k8s.io/v1/Lease";
const LEASE_NAME: &str = "kruise-manager";
const PATIENCE: Duration = Duration::from_secs(120);
/// The kubelet waits longer with each restart of a container.
const ROUNDS: usize = 2;

/// One end of a leader, and the takeover.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Taken {
    /// How it ended.
    pub(crate) way: &'static str,
    /// Seconds until the next leader has created a pod.
    pub(crate) seconds: f64,
}

/// How leaders end, with the signal.
pub(crate) const WAYS: [(&str, &str); 3] = [
    ("asked to end", "-TERM"),
    ("killed", "-KILL"),
    ("silent", "-STOP"),
];
/// How long both replicas must have been ready, because one that ends serves webhooks for some
/// seconds more.
const STEADY: Duration = Duration::from_secs(10);

/// Ends the leader a few times.
pub(crate) async fn measure(site: &Site) -> Result<Vec<Taken>> {
    let client = site.client();
    let set = objects::clone_set(NAME, 1, &site.image("hello:start"), &json!({}));
    objects::create(client, NAMESPACE, &set).await?;
    let mut taken = Vec::new();
    let mut replicas = 1;
    for _ in 0..ROUNDS {
        for (way, signal) in WAYS {
            objects::until(
                client,
                NAMESPACE,
                kind::CLONE_SET,
                NAME,
                PATIENCE,
                objects::is_done,
            )
            .await?;
            both_ready(site).await?;
            replicas += 1;
            let leader = leader(site).await?.to_string();
            send(signal, &leader).await?;
            let begun = Instant::now();
            let patch = json!({"spec": {"replicas": replicas}});
            objects::patch(client, NAMESPACE, kind::CLONE_SET, NAME, &patch).await?;
            until_pods(site, replicas).await?;
            let one = Taken {
                way,
                seconds: begun.elapsed().as_secs_f64(),
            };
            if signal == "-STOP" {
                send("-CONT", &leader).await?;
            }
            println!("  leader {:<12} {:.2} s", one.way, one.seconds);
            taken.push(one);
        }
    }
    Ok(taken)
}

async fn send(signal: &str, process: &str) -> Result<()> {
    let sent = Command::new("kill")
        .args([signal, process])
        .status()
        .await?;
    ensure!(sent.success(), "cannot send {signal} to process {process}");
    Ok(())
}

/// Waits until both replicas are ready, and stay so.
async fn both_ready(site: &Site) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    let mut since = Instant::now();
    loop {
        let selector = "app.kubernetes.io/component=controller";
        let pods = objects::list(site.client(), install::NAMESPACE, kind::POD, selector).await?;
        let ready = |pod: &&Value| {
            let conditions = pod["status"]["conditions"].as_array();
            conditions.is_some_and(|all| {
                all.iter()
                    .any(|c| c["type"] == "Ready" && c["status"] == "True")
            })
        };
        if pods.iter().filter(ready).count() != 2 {
            since = Instant::now();
        } else if since.elapsed() >= STEADY {
            return Ok(());
        }
        ensure!(
            Instant::now() < deadline,
            "there are never two ready replicas of the controller"
        );
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// The process of the leader: the cluster's containers are processes of this machine.
async fn leader(site: &Site) -> Result<u32> {
    let lease = objects::get(site.client(), install::NAMESPACE, LEASE, LEASE_NAME).await?;
    let holder = lease["spec"]["holderIdentity"]
        .as_str()
        .context("the Lease has no holder")?;
    let pod = holder.split('_').next().unwrap_or_default();
    let variable = format!("POD_NAME={pod}");
    for entry in fs::read_dir("/proc")?.flatten() {
        let read = |file: &str| fs::read_to_string(entry.path().join(file)).unwrap_or_default();
        let is_it = read("comm").trim() == PROGRAMS[0]
            && read("environ").split('\0').any(|has| has == variable);
        if let Some(id) = entry
            .file_name()
            .to_str()
            .filter(|_| is_it)
            .and_then(|name| name.parse().ok())
        {
            return Ok(id);
        }
    }
    anyhow::bail!("{holder} leads, and no process of this machine is it")
}

async fn until_pods(site: &Site, wanted: usize) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while objects::list(
        site.client(),
        NAMESPACE,
        kind::POD,
        &format!("{APP}={NAME}"),
    )
    .await?
    .len()
        != wanted
    {
        ensure!(Instant::now() < deadline, "there are never {wanted} pods");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}
