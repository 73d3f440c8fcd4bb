//! Berth's own images, built without Docker from static binaries.

use anyhow::{Context, Result};
use berth_cluster::programs::workspace_binaries;
use berth_cluster::{Image, Registry};

/// The tag that the chart uses when it is told none.
pub const TAG: &str = env!("CARGO_PKG_VERSION");
/// The programs that have images; package, binary and image are named alike.
const PROGRAMS: [&str; 2] = ["berth-controller", "berth-daemon"];

/// Builds the programs and pushes their images; gives the pushed names with their digests.
///
/// # Errors
/// When a program cannot be built or the registry refuses an image.
pub fn push(registry: &Registry, tag: &str, release: bool) -> Result<Vec<(String, String)>> {
    let binaries = workspace_binaries(&PROGRAMS, release)?;
    let pushed = PROGRAMS.iter().zip(&binaries).map(|(program, binary)| {
        let image = Image::scratch().file(program, binary)?.entrypoint([format!("/{program}")]);
        let name = format!("{program}:{tag}");
        let digest = registry.push(&image, &name).with_context(|| format!("cannot push {name}"))?;
        anyhow::Ok((format!("{}/{name}", registry.address), digest))
    });
    pushed.collect()
}
