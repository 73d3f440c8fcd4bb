//! Measures the cost of Berth: `make bench`. Figures are reported, never asserted.

mod admission;
mod budgets;
mod daemonsets;
mod decide;
mod gates;
mod median;
mod nodes;
mod phases;
mod plot;
mod policies;
mod sidecars;
mod soak;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Measures Berth on clusters of its own.
#[derive(Debug, Parser)]
struct Command {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// With many pods on simulated nodes: time, CPU, memory and writes of each phase of a
    /// CloneSet's life.
    Phases(phases::Options),
    /// With a few pods on real nodes: how much longer a change of image takes than the kubelet
    /// itself.
    Nodes(nodes::Options),
    /// With pods on real nodes that are patched by hand: when may a gate be opened whose pod
    /// changes its image?
    Gates(gates::Options),
    /// With nothing running: what a decision about one CloneSet of many pods costs, at each point
    /// of a rollout in place.
    Decide(decide::Options),
    /// With pods created on simulated nodes: how long the apiserver waits for the pod webhook, and
    /// for whom it is called.
    Admission(admission::Options),
    /// With sidecars that get new images on simulated nodes: the writes for each pod, the time of
    /// one pod after the other beside bare patches, and the memory of a replica that does not lead.
    Sidecars(sidecars::Options),
    /// With a DaemonSet on many simulated nodes: the writes for each pod and of the status, memory
    /// for each node and pod, and which changes of nodes wake whom.
    Daemonsets(daemonsets::Options),
    /// With a rollout in place on simulated nodes: the writes of a budget that it draws from, and
    /// the memory of many budgets.
    Budgets(budgets::Options),
    /// With statuses of pods that others write: CPU of the apiserver for each, with and without the
    /// chart's admission policies.
    Policies(policies::Options),
    /// A day of churn over many CloneSets, compressed: memory and numbers of objects at the end of
    /// each hour.
    Soak(soak::Options),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    match Command::parse().what {
        What::Phases(options) => phases::run(&options).await,
        What::Nodes(options) => nodes::run(&options).await,
        What::Gates(options) => gates::run(&options).await,
        What::Decide(options) => decide::run(&options),
        What::Admission(options) => admission::run(&options).await,
        What::Sidecars(options) => sidecars::run(&options).await,
        What::Daemonsets(options) => daemonsets::run(&options).await,
        What::Budgets(options) => budgets::run(&options).await,
        What::Policies(options) => policies::run(&options).await,
        What::Soak(options) => soak::run(&options).await,
    }
}
