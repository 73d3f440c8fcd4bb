//! The controller: flags and wiring.

mod acting;
mod change;
mod clusters;
mod configuration;
mod controller;
mod controllers;
mod custom_resources;
mod custom_workloads;
mod ended;
mod expected_pods;
mod explain;
mod injection;
mod kinds;
mod overlapping;
#[cfg(test)]
mod ownership_tests;
mod paced;
mod pod_asks;
mod pod_budgets;
mod pod_pinning;
mod pod_states;
mod podset;
mod prepare_return;
#[cfg(test)]
mod random_sidecars;
mod read;
mod reads;
#[cfg(test)]
mod real_apiserver;
mod recent;
mod refused;
mod resize;
mod run;
mod status_metric;
mod switched_off;
mod told;
mod unreadable;
mod watched;

use std::sync::Arc;

use anyhow::Context;
use berth_controller::flags::{Cli, Command, LogFormat};
use berth_controller::{gates, timings};
use clap::Parser;
use tracing::subscriber::NoSubscriber;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::pod_pinning::PodPinning;

#[global_allocator]
static HEAP: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    log(cli.log_format)?;
    // Two threads for everything: feeds, decisions of every kind, and webhooks take turns.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let config = kube::Config::infer()
            .await
            .context("no cluster: set KUBECONFIG, or run in a pod with a service account")?;
        let parse = || gates::parse(&cli.run.feature_gates).map_err(anyhow::Error::msg);
        // Of a gate without effect the controller's own log tells.
        let gates = match cli.command {
            None => parse()?,
            Some(_) => tracing::subscriber::with_default(NoSubscriber::default(), parse)?,
        };
        match &cli.command {
            Some(Command::Explain(explain)) => {
                let run = &cli.run;
                let protected =
                    injection::protected_namespaces(&run.namespace, &run.protected_namespaces);
                let pinning = PodPinning::new(
                    run.pod_pinning,
                    run.pod_pinning_fail_closed,
                    protected,
                    Arc::default(),
                    None,
                );
                explain::explain(explain, config, gates, (&cli.run, &pinning)).await
            }
            Some(Command::PrepareReturn(flags)) => {
                prepare_return::prepare_return(flags, config).await
            }
            None => {
                timings::check(&cli.run).map_err(anyhow::Error::msg)?;
                run::run(&cli.run, config, gates).await
            }
        }
    })
}

fn log(format: LogFormat) -> anyhow::Result<()> {
    let filter: Targets = match std::env::var("RUST_LOG") {
        Ok(words) => words
            .parse()
            .with_context(|| format!("RUST_LOG={words:?} is no list of TARGET=LEVEL"))?,
        Err(_) => Targets::new().with_default(LevelFilter::INFO),
    };
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let registry = tracing_subscriber::registry().with(filter);
    match format {
        LogFormat::Json => registry.with(lines.json().flatten_event(true)).init(),
        LogFormat::Text => registry.with(lines).init(),
    }
    Ok(())
}
