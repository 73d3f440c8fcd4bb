//! Shows an update in place on a real cluster.

use std::process::ExitCode;

use berth_e2e::demo::{self, Options};
use clap::Parser;

/// Shows what Berth does: an image changed in place in running pods, beside the same by new pods.
/// Makes a cluster of its own, or uses yours when KUBECONFIG is set.
#[derive(Parser)]
#[command(name = "demo", version)]
struct Arguments {
    #[command(flatten)]
    options: Options,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match demo::run(&Arguments::parse().options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
