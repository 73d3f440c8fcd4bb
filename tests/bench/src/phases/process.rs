//! The usage of a process of this machine, from `/proc`.

use std::fs;

use anyhow::{Context, Result};
use serde::Serialize;

/// The memory and the usage of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(crate) struct Used {
    /// CPU seconds since its start, in user space and in the kernel.
    pub(crate) cpu: f64,
    /// Resident memory, KiB.
    pub(crate) resident: u64,
    /// Its memory that is no file's: heap and stacks, KiB.
    pub(crate) anonymous: u64,
    /// Its peak since the last [`forget_peak`], KiB.
    pub(crate) peak: u64,
}

/// Linux counts CPU time for user space in hundredths of a second, on every architecture that
/// Kubernetes runs on.
const TICKS: f64 = 100.0;

/// Reads the usage of a process.
pub(crate) fn used(pid: u32) -> Result<Used> {
    let read = |file: &str| {
        fs::read_to_string(format!("/proc/{pid}/{file}"))
            .with_context(|| format!("process {pid} has ended"))
    };
    let (stat, status) = (read("stat")?, read("status")?);
    let field = |name| field(&status, name).with_context(|| format!("process {pid} has ended"));
    Ok(Used {
        cpu: cpu(&stat).unwrap_or_default(),
        resident: field("VmRSS:")?,
        anonymous: field("RssAnon:")?,
        peak: field("VmHWM:")?,
    })
}

/// Resets the peak of a process.
pub(crate) fn forget_peak(pid: u32) {
    // If that is not allowed, the peak counts from the process's start, as the table's head says.
    let _ = fs::write(format!("/proc/{pid}/clear_refs"), "5");
}

fn cpu(stat: &str) -> Option<f64> {
    // The name, in brackets, may contain any characters.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let ticks = fields.next()?.parse::<f64>().ok()? + fields.next()?.parse::<f64>().ok()?;
    Some(ticks / TICKS)
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
