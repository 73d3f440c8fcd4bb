//! Builds Berth's images and pushes them to a registry.

use std::process::ExitCode;

use anyhow::{Result, ensure};
use berth_cluster::Registry;
use berth_e2e::images::{self, TAG};
use clap::Parser;

/// Builds berth-controller and berth-daemon as static binaries and pushes an image of each.
/// Credentials are those that `docker login` or `skopeo login` left.
#[derive(Parser)]
#[command(name = "images", version)]
struct Arguments {
    /// Where to: HOST[:PORT][/PATH].
    #[arg(long, env = "REGISTRY", default_value = "")]
    registry: String,
    /// Speak HTTP to that registry.
    #[arg(long)]
    plain_http: bool,
    /// The images' tag, by default the one that the chart uses by default.
    #[arg(long, default_value = TAG)]
    tag: String,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    ensure!(
        !arguments.registry.is_empty(),
        "no registry is given: say where the images shall go, as in `make images REGISTRY=ghcr.io/you`"
    );
    let registry = Registry::at(&arguments.registry, arguments.plain_http);
    for (name, digest) in images::push(&registry, &arguments.tag, true)? {
        println!("{name}@{digest}");
    }
    println!(
        "Install with: helm install berth charts/berth --namespace kruise-system --create-namespace --set image.registry={}",
        registry.address
    );
    Ok(())
}
