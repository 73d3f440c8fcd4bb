//! Berth's own images, built without Docker from static binaries.

use anyhow::{Context, Result, bail};
use berth_cluster::programs::workspace_binaries;
use berth_cluster::{Image, Registry};

/// The tag that the chart uses by default.
pub const TAG: &str = env!("CARGO_PKG_VERSION");
/// The programs with images; package, binary and image have the same name.
const PROGRAMS: [&str; 2] = ["berth-controller", "berth-daemon"];
/// The plugin that the daemon's image brings to the nodes.
const PLUGIN: &str = "host-local";

/// Builds the programs and pushes their images; returns the pushed names with their digests.
///
/// # Errors
/// When a program cannot be built or the registry refuses an image.
pub fn push(registry: &Registry, tag: &str, release: bool) -> Result<Vec<(String, String)>> {
    let [controller, daemon] = PROGRAMS;
    let binaries = workspace_binaries(&[controller, daemon, PLUGIN], release)?;
    let [.., plugin] = binaries.as_slice() else {
        bail!("no program was built")
    };
    let pushed = PROGRAMS.iter().zip(&binaries).map(|(program, binary)| {
        let mut image = Image::scratch()
            .file(program, binary)?
            .entrypoint([format!("/{program}")]);
        if *program == daemon {
            image = image.file(PLUGIN, plugin)?;
        }
        let name = format!("{program}:{tag}");
        let digest = registry
            .push(&image, &name)
            .with_context(|| format!("cannot push {name}"))?;
        anyhow::Ok((format!("{}/{name}", registry.address), digest))
    });
    pushed.collect()
}
