use std::process::Command;

use nix::sched::{CloneFlags, unshare};

use super::*;

/// Needs root and iproute2, as the cluster that the other tests make.
#[test]
fn an_address_that_is_handed_out_is_forgotten_and_no_other() {
    let neighbours = std::thread::spawn(|| {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        let ip = |arguments: &str| {
            let output = Command::new("ip")
                .args(arguments.split(' '))
                .output()
                .unwrap();
            assert!(
                output.status.success(),
                "ip {arguments}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            String::from_utf8(output.stdout).unwrap()
        };
        ip("link add name old type bridge");
        ip("link set old up");
        for address in ["10.9.0.5", "10.9.0.6", "fd00::5", "fd00::6"] {
            ip(&format!(
                "neigh add {address} lladdr 02:00:00:00:00:01 dev old nud reachable"
            ));
        }
        forget(&[
            "10.9.0.5".parse().unwrap(),
            "fd00::5".parse().unwrap(),
            "10.9.0.7".parse().unwrap(),
        ]);
        ip("neigh show nud reachable")
    });
    let left = neighbours.join().unwrap();
    let mut left: Vec<_> = left
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    left.sort_unstable();
    assert_eq!(left, ["10.9.0.6", "fd00::6"]);
}
