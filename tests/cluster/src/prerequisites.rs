//! The Debian packages that the cluster and the build need.

use anyhow::{Context, Result, bail};
use std::{path::Path, process::Command};

/// A package, and a file that shows that it, or a replacement, is installed.
const PACKAGES: [(&str, &[&str]); 11] = [
    (
        "busybox-static",
        &["/var/lib/dpkg/info/busybox-static.list"],
    ),
    ("conntrack", &["/usr/sbin/conntrack"]),
    ("containerd", &["/usr/bin/containerd"]),
    ("containernetworking-plugins", &["/usr/lib/cni/bridge"]),
    ("docker-registry", &["/usr/bin/docker-registry"]),
    ("gcc", &["/usr/bin/cc"]),
    ("iproute2", &["/usr/sbin/ip", "/sbin/ip", "/usr/bin/ip"]),
    ("iptables", &["/usr/sbin/iptables"]),
    (
        "protobuf-compiler",
        &["/usr/bin/protoc", "/usr/local/bin/protoc"],
    ),
    ("runc", &["/usr/sbin/runc", "/usr/bin/runc"]),
    ("skopeo", &["/usr/bin/skopeo"]),
];

/// The package that only tests need, for the page of the dashboard.
const BROWSER: (&str, &[&str]) = ("chromium", &["/usr/bin/chromium"]);

/// The packages that are missing for a cluster, or for a cluster and all tests.
#[must_use]
pub fn missing(for_tests: bool) -> Vec<&'static str> {
    let present = |files: &[&str]| files.iter().any(|file| Path::new(file).exists());
    PACKAGES
        .iter()
        .chain(for_tests.then_some(&BROWSER))
        .filter(|(_, files)| !present(files))
        .map(|(package, _)| *package)
        .collect()
}

/// Installs missing packages with apt-get, and returns them.
///
/// # Errors
/// When apt-get is missing or fails.
pub fn install(for_tests: bool) -> Result<Vec<&'static str>> {
    let missing = missing(for_tests);
    if !missing.is_empty() {
        apt_get(&["update", "--quiet"])?;
        let mut arguments = vec!["install", "--quiet", "--yes", "--no-install-recommends"];
        arguments.extend(&missing);
        apt_get(&arguments)?;
    }
    Ok(missing)
}

fn apt_get(arguments: &[&str]) -> Result<()> {
    let mut command = Command::new("apt-get");
    command
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive");
    let status = command
        .status()
        .context("cannot run apt-get; on another system, install the packages by hand")?;
    if !status.success() {
        bail!("apt-get {} ended with {status}", arguments.join(" "));
    }
    Ok(())
}
