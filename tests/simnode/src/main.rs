//! The command `simnode`.

use std::time::Duration;

use anyhow::{Context, Result};
use berth_runtime::metrics::Metrics;
use berth_runtime::{CancellationToken, client};
use berth_simnode::{Options, kubelet::Habits, pod};
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};

/// Simulates the kubelets of many nodes, on the apiserver of the kubeconfig.
#[derive(Debug, Parser)]
#[command(name = "simnode", version)]
struct Flags {
    /// How many nodes there are.
    #[arg(long, default_value_t = 10)]
    nodes: usize,
    /// How many more there are, that no pod comes to.
    #[arg(long, default_value_t = 0)]
    idle_nodes: usize,
    /// How long a container takes to start, such as 500ms.
    #[arg(long, default_value = "0s", value_parser = delay)]
    start_delay: Duration,
    /// How long a pod takes to end.
    #[arg(long, default_value = "0s", value_parser = delay)]
    stop_delay: Duration,
    /// So many of the nodes, the first, are slow.
    #[arg(long, default_value_t = 0)]
    slow_nodes: usize,
    /// How long a container takes to start on a slow node.
    #[arg(long, default_value = "5s", value_parser = delay)]
    slow_start_delay: Duration,
    /// Images that no registry has.
    #[arg(long, value_delimiter = ',')]
    missing_images: Vec<String>,
    /// Images whose containers crash again and again.
    #[arg(long, value_delimiter = ',')]
    crashing_images: Vec<String>,
    /// Answer NodeImages, as the nodes' daemons do.
    #[arg(long)]
    node_images: bool,
    /// How often each node renews its lease; never without it.
    #[arg(long, value_parser = delay)]
    heartbeat: Option<Duration>,
    /// Writes at once.
    #[arg(long, default_value_t = 32)]
    parallel: usize,
}

fn delay(text: &str) -> Result<Duration, String> {
    pod::delay(text).ok_or_else(|| format!("{text:?} is not a time such as 500ms, 2s or 1m30s"))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let flags = Flags::parse();
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_max_level(tracing_subscriber::filter::LevelFilter::WARN)
        .init();
    let stop = CancellationToken::new();
    let (mut terminate, mut interrupt) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );
    let asked = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        asked.cancel();
    });
    let config = kube::Config::infer()
        .await
        .context("no apiserver: set KUBECONFIG")?;
    let client = client::connect(config, Metrics::new(|_| {}))?;
    let (missing_images, crashing_images) = (flags.missing_images, flags.crashing_images);
    let habits = Habits {
        start_delay: flags.start_delay,
        stop_delay: flags.stop_delay,
        missing_images,
        crashing_images,
    };
    let options = Options {
        nodes: flags.nodes,
        idle_nodes: flags.idle_nodes,
        habits,
        slow_nodes: flags.slow_nodes,
        slow_start_delay: flags.slow_start_delay,
        node_images: flags.node_images,
        heartbeat: flags.heartbeat,
        parallel: flags.parallel,
    };
    berth_simnode::run(client, options, stop).await
}
