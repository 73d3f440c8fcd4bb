//! The commands of the program.

use anyhow::Context;
use http::header::{HeaderValue, USER_AGENT};
use tracing::subscriber::NoSubscriber;

use crate::settings::flags::{Cli, Command};
use crate::settings::{gates, timings};
use crate::start::{prepare_return, run};

/// The name of this program in audit logs.
const AGENT: &str = concat!("berth-controller/", env!("CARGO_PKG_VERSION"));

/// Executes the command, or runs the controller until a signal.
///
/// # Errors
/// No cluster is configured, a flag makes no sense, or the command fails.
pub async fn execute(cli: Cli) -> anyhow::Result<()> {
    let mut config = kube::Config::infer()
        .await
        .context("no cluster: set KUBECONFIG, or run in a pod with a service account")?;
    let agent = HeaderValue::from_static(AGENT);
    config.headers.push((USER_AGENT, agent));
    let parse = || gates::parse(&cli.run.feature_gates).map_err(anyhow::Error::msg);
    // The controller's own log reports feature gates without effect.
    let gates = match cli.command {
        None => parse()?,
        Some(_) => tracing::subscriber::with_default(NoSubscriber::default(), parse)?,
    };
    match &cli.command {
        Some(Command::PrepareReturn(flags)) => prepare_return::prepare_return(flags, config).await,
        None => {
            timings::check(&cli.run).map_err(anyhow::Error::msg)?;
            run::run(&cli.run, config, gates).await
        }
    }
}
