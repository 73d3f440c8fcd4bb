//! The controller's program.

use anyhow::Context;
use berth_controller::execute;
use berth_controller::settings::flags::{Cli, LogFormat};
use clap::Parser;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

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
    runtime.block_on(execute(cli))
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
