//! The tables of the figures.

use std::fmt::Write;

use super::Figures;
use super::memory;
use super::rollout::{WAYS, Way};
use super::takeover;
use crate::median::median;

/// Two tables: time and memory.
pub(crate) fn text(figures: &Figures) -> String {
    let of = |way: Way| {
        figures
            .rollouts
            .iter()
            .filter(|t| t.way == way.name())
            .map(|t| t.seconds)
            .collect::<Vec<_>>()
    };
    let floor = median(of(Way::Floor));
    let mut text = format!(
        "\nFrom the patch to {} pods ready, {}, maxUnavailable 100%:\n",
        figures.pods,
        images(figures)
    );
    let _ = writeln!(
        text,
        "  {:<12} {:>8} {:>8} {:>8} {:>12}",
        "way", "min s", "median s", "max s", "to the limit"
    );
    for way in WAYS {
        let seconds = of(way);
        let (least, most) = seconds
            .iter()
            .fold((f64::MAX, 0.0_f64), |(l, m), s| (l.min(*s), m.max(*s)));
        let middle = median(seconds);
        let _ = writeln!(
            text,
            "  {:<12} {least:>8.2} {middle:>8.2} {most:>8.2} {:>12.2}",
            way.name(),
            middle / floor
        );
    }
    let _ = writeln!(
        text,
        "\nFrom the end of the leader to a pod that another replica made:"
    );
    for (way, _) in takeover::WAYS {
        let taken = figures
            .takeovers
            .iter()
            .filter(|taken| taken.way == way)
            .map(|taken| taken.seconds);
        let seconds: Vec<_> = taken.collect();
        let most = seconds.iter().copied().fold(0.0, f64::max);
        let _ = writeln!(
            text,
            "  {way:<12} {:>8.2} s, at most {most:.2} s",
            median(seconds)
        );
    }
    let _ = writeln!(
        text,
        "\nResident memory:\n  {:<16} {:<20} {:>8} {:>8}",
        "process", "moment", "MiB", "peak MiB"
    );
    let mib = |kib: u64| kib as f64 / 1024.0;
    for process in &figures.memory {
        let (now, peak) = (mib(process.kib), mib(process.peak_kib));
        let _ = writeln!(
            text,
            "  {:<16} {:<20} {now:>8.1} {peak:>8.1}",
            process.program, process.moment
        );
    }
    for program in memory::PROGRAMS {
        let of = figures
            .memory
            .iter()
            .filter(|process| process.program == program);
        let most = of.map(|process| process.peak_kib).max().unwrap_or(0);
        let _ = writeln!(text, "  {program}: {:.1} MiB at most", mib(most));
    }
    text
}

fn images(figures: &Figures) -> String {
    let size = if figures.layer_mib == 0 {
        String::new()
    } else {
        format!(" of {} MiB", figures.layer_mib)
    };
    format!(
        "images{size} {}",
        if figures.cold {
            "that no node has"
        } else {
            "on the nodes"
        }
    )
}

#[cfg(test)]
mod tests;
