//! The crates of decisions have nothing to do I/O with.

// The test must use types that decisions must not use.
#![allow(clippy::disallowed_types)]

use std::process::Command;

#[test]
fn decisions_depend_on_nothing_that_does_io() {
    let tree = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--offline",
            "--package",
            "berth-kinds",
            "--edges",
            "normal",
            "--prefix",
            "none",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let tree = String::from_utf8(tree.stdout).unwrap();
    let crates: Vec<_> = tree
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(
        crates.contains(&"berth-kinds") && crates.contains(&"berth-workload"),
        "cargo tree was read: {tree}"
    );
    for forbidden in [
        "kube-client",
        "kube-runtime",
        "tokio",
        "hyper",
        "mio",
        "reqwest",
        "tonic",
        "nix",
        "rand",
    ] {
        assert!(
            !crates.contains(&forbidden),
            "{forbidden} has come in: {tree}"
        );
    }
}
