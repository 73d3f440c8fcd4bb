//! The node's daemon: flags and wiring.

use std::sync::Arc;

use anyhow::Context;
use berth_daemon::flags::{Flags, LogFormat};
use berth_daemon::metrics::Metrics;
use berth_daemon::runtime::cni;
use berth_daemon::{agent, http};
use clap::Parser;
use hyper::header::{HeaderValue, USER_AGENT};
use kube::{Api, Client};
use tokio::signal::unix::{SignalKind, signal};
use tracing::info;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// The name of this program in audit logs.
const AGENT: &str = concat!("berth-daemon/", env!("CARGO_PKG_VERSION"));

fn main() -> anyhow::Result<()> {
    let flags = Flags::parse();
    log_to_stderr(&flags)?;
    end_at_a_panic();
    // One thread: the daemon waits most of the time, and threads cost memory on every node.
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(run(flags))
}

fn log_to_stderr(flags: &Flags) -> anyhow::Result<()> {
    // Not the filter with spans and patterns: its regular expressions would take a tenth of the
    // process's memory.
    let filter: Targets = flags
        .log_level
        .parse()
        .with_context(|| format!("--log-level={}", flags.log_level))?;
    let log = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let registry = tracing_subscriber::registry().with(filter);
    match flags.log_format {
        LogFormat::Json => registry.with(log.json().flatten_event(true)).init(),
        LogFormat::Text => registry.with(log).init(),
    }
    Ok(())
}

async fn client() -> anyhow::Result<Client> {
    let mut config = kube::Config::infer().await?;
    let agent = HeaderValue::from_static(AGENT);
    config.headers.push((USER_AGENT, agent));
    Ok(Client::try_from(config)?)
}

async fn run(flags: Flags) -> anyhow::Result<()> {
    let client = client().await.context("no way to the apiserver")?;
    let listener = berth_http::bind(flags.http_address)
        .await
        .with_context(|| {
            format!(
                "--http-address={} cannot be listened on",
                flags.http_address
            )
        })?;
    let metrics = Arc::new(Metrics::default());
    info!(
        node = flags.node_name,
        version = env!("CARGO_PKG_VERSION"),
        "the daemon begins"
    );
    let mut server = tokio::spawn(http::serve(listener, metrics.clone()));
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let end = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    let settings = flags.settings();
    let leases = flags
        .leases()
        .map(|leases| tokio::spawn(cni::reclaim(leases, settings.socket.clone())));
    let plugins = flags.plugins().map(|plugins| {
        (
            plugins,
            cni::Sign::watch(client.clone(), &flags.pod_namespace),
        )
    });
    let ended = tokio::select! {
        ended = agent::run(settings, Api::all(client), metrics, end) => ended.map_err(anyhow::Error::from),
        _ = &mut server => Err(anyhow::anyhow!("the server of probes and metrics ended by itself: the process ends")),
    };
    if let Some(leases) = leases {
        leases.abort();
    }
    if let Some((plugins, sign)) = plugins {
        sign.restore_if_gone(&plugins).await;
    }
    server.abort();
    ended
}

/// A task that panics leaves the others waiting for it, in a process that seems healthy: so the
/// first panic ends the process.
fn end_at_a_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        tracing::error!(%panic, "a task panicked: the process ends");
        std::process::exit(1);
    }));
}
