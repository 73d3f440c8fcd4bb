//! Metrics of the process as Prometheus' clients report them, read from /proc on each scrape.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Linux counts times in `/proc/self/stat` in hundredths of a second, for any tick of the kernel.
const TICKS_PER_SECOND: f64 = 100.0;

/// Memory, CPU time, files and start of the process.
#[derive(Debug)]
pub(super) struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        if let Some(seconds) = cpu_seconds(&stat) {
            let counter = ConstCounter::<f64>::new(seconds);
            let name = "process_cpu_seconds";
            counter.encode(encoder.encode_descriptor(
                name,
                "CPU time used",
                None,
                counter.metric_type(),
            )?)?;
        }
        for (name, help, value) in [
            (
                "process_resident_memory_bytes",
                "Resident memory",
                resident_bytes(),
            ),
            (
                "process_virtual_memory_bytes",
                "Address space",
                virtual_bytes(&stat),
            ),
            (
                "process_start_time_seconds",
                "When the process started, since 1970",
                start_seconds(&stat),
            ),
            (
                "process_open_fds",
                "Open files and connections",
                open_files(),
            ),
            (
                "process_max_fds",
                "Open files and connections at most",
                most_files(),
            ),
        ] {
            let Some(value) = value else { continue };
            let gauge = ConstGauge::<f64>::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        Ok(())
    }
}

fn resident_bytes() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim()
        .strip_suffix("kB")?
        .trim()
        .parse::<f64>()
        .ok()
        .map(|kib| kib * 1024.0)
}

/// A field of `/proc/self/stat`, numbered as in proc(5). The command's name, in brackets, may
/// contain spaces.
fn field(stat: &str, number: usize) -> Option<f64> {
    stat.rsplit_once(')')?
        .1
        .split_ascii_whitespace()
        .nth(number.checked_sub(3)?)?
        .parse()
        .ok()
}

/// User and system time.
fn cpu_seconds(stat: &str) -> Option<f64> {
    Some((field(stat, 14)? + field(stat, 15)?) / TICKS_PER_SECOND)
}

fn virtual_bytes(stat: &str) -> Option<f64> {
    field(stat, 23)
}

fn start_seconds(stat: &str) -> Option<f64> {
    let after_boot = field(stat, 22)? / TICKS_PER_SECOND;
    let system = std::fs::read_to_string("/proc/stat").ok()?;
    let boot: f64 = system
        .lines()
        .find_map(|line| line.strip_prefix("btime "))?
        .trim()
        .parse()
        .ok()?;
    Some(boot + after_boot)
}

fn open_files() -> Option<f64> {
    // The directory itself is open while it is read.
    let open = std::fs::read_dir("/proc/self/fd")
        .ok()?
        .count()
        .saturating_sub(1);
    u32::try_from(open).ok().map(f64::from)
}

fn most_files() -> Option<f64> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests;
