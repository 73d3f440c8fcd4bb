//! On real nodes: the memory of the controller and of a daemon, and the time of an image's change
//! in place, by new pods, and by a bare patch of the pods, which is the kubelet's own restart and
//! so the limit. The rounds alternate, so that a slow moment of the machine affects all alike. Then
//! the time until another replica leads, and the daemon's needs on a full node. Before that, the
//! cost of a call of host-local, compared with the reference.

mod full;
mod memory;
mod plugin;
mod rollout;
mod table;
mod takeover;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use berth_e2e::install;
use berth_e2e::site::Site;
use clap::Args;
use serde::Serialize;

/// The options of the measurement on real nodes.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Rounds of each kind.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Pods of the CloneSet.
    #[arg(long, default_value_t = 6)]
    pods: usize,
    /// Pods of another CloneSet, all on one node; 0 for none.
    #[arg(long, default_value_t = 98)]
    full: usize,
    /// Size of a layer that all images share, beside a small one of their own, in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 0)]
    layer: usize,
    /// No node has an image before it is wanted, but for the first one.
    #[arg(long)]
    cold: bool,
    /// Calls of host-local of each kind, for each number of leases.
    #[arg(long, default_value_t = 300)]
    calls: usize,
    /// Measure host-local only, without a cluster.
    #[arg(long)]
    plugin_only: bool,
    /// Where the figures go as JSON.
    #[arg(long, default_value = "target/bench-nodes.json")]
    json: PathBuf,
}

/// All measurements.
#[derive(Debug, Serialize)]
struct Figures {
    pods: usize,
    nodes: u8,
    /// The size of the layer that all images share.
    layer_mib: usize,
    /// Images were pulled only when they were needed.
    cold: bool,
    memory: Vec<memory::Resident>,
    rollouts: Vec<rollout::Timed>,
    takeovers: Vec<takeover::Taken>,
    plugin: Vec<plugin::Figures>,
}

const NODES: u8 = 3;

/// Runs the measurement.
pub(crate) async fn run(options: &Options) -> Result<()> {
    ensure!(
        options.rounds > 0 && options.pods > 0,
        "--rounds and --pods are to be 1 or more"
    );
    println!("Calling host-local …");
    let calls = options.calls;
    let plugin = tokio::task::spawn_blocking(move || plugin::measure(calls)).await??;
    print!("{}", plugin::text(&plugin));
    if options.plugin_only {
        return Ok(());
    }
    println!("Making a cluster of {NODES} nodes, and installing Berth …");
    let site = Site::make(NODES).await?;
    site.push_berth(true)?;
    install::install(&site, &[])?;
    let idle = memory::resident("idle").context("cannot read the memory of Berth's processes")?;
    let bench = rollout::Bench::prepare(&site, options).await?;
    let mut rollouts = Vec::new();
    for round in 0..options.rounds {
        for way in rollout::WAYS {
            let timed = bench.round(way, round).await?;
            println!(
                "  round {} {:<10} {:.2} s",
                round + 1,
                timed.way,
                timed.seconds
            );
            rollouts.push(timed);
        }
    }
    let after = memory::resident("after the rollouts")?;
    let takeovers = takeover::measure(&site)
        .await
        .context("with a leader that goes")?;
    let full = match options.full {
        0 => Vec::new(),
        pods => full::measure(&site, pods)
            .await
            .context("with a full node")?,
    };
    let memory = [idle, after, full].concat();
    let figures = Figures {
        pods: options.pods,
        nodes: NODES,
        layer_mib: options.layer,
        cold: options.cold,
        memory,
        rollouts,
        takeovers,
        plugin,
    };
    print!("{}", table::text(&figures));
    std::fs::write(&options.json, serde_json::to_string_pretty(&figures)?)
        .with_context(|| format!("cannot write {}", options.json.display()))?;
    println!("The figures are in {}.", options.json.display());
    Ok(())
}
