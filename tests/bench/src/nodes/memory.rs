//! Resident memory of Berth's processes: the cluster's containers are processes of this machine.

use std::fs;

use anyhow::{Result, ensure};
use serde::Serialize;

/// One process.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Resident {
    pub(crate) program: String,
    pub(crate) moment: String,
    /// `VmRSS`, in KiB.
    pub(crate) kib: u64,
    /// `VmHWM`, its highest value so far, in KiB.
    pub(crate) peak_kib: u64,
}

/// Berth's programs, by the name that `/proc/PID/comm` cuts to 15 characters.
pub(super) const PROGRAMS: [&str; 2] = ["berth-controlle", "berth-daemon"];

/// The memory of every process of Berth on this machine.
pub(crate) fn resident(moment: &str) -> Result<Vec<Resident>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let Ok(comm) = fs::read_to_string(entry.path().join("comm")) else {
            continue;
        };
        if !PROGRAMS.contains(&comm.trim()) {
            continue;
        }
        // A process may end between two reads.
        let Ok(status) = fs::read_to_string(entry.path().join("status")) else {
            continue;
        };
        if let (Some(kib), Some(peak_kib)) = (field(&status, "VmRSS:"), field(&status, "VmHWM:")) {
            found.push(Resident {
                program: comm.trim().to_owned(),
                moment: moment.to_owned(),
                kib,
                peak_kib,
            });
        }
    }
    ensure!(
        !found.is_empty(),
        "no process of Berth runs on this machine"
    );
    found.sort_by(|a, b| a.program.cmp(&b.program).then(b.kib.cmp(&a.kib)));
    Ok(found)
}

fn field(status: &str, name: &str) -> Option<u64> {
    status
        .lines()
        .find_map(|line| line.strip_prefix(name))?
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests;
