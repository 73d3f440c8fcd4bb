//! The tables of the figures.

use std::fmt::Write;

use super::{Figures, Update};
use crate::median::median;

const MIB: f64 = 1024.0;

/// The writes of an update: to pods, to their statuses, to the SidecarSet's status, and all others.
fn writes(update: &Update) -> [u64; 4] {
    let of = |resource: &str| {
        let counts = |key: &str| {
            ["patch", "update"]
                .iter()
                .any(|verb| *key == format!("{verb} {resource}"))
        };
        update
            .phase
            .requests
            .all
            .iter()
            .filter(|(key, _)| counts(key))
            .map(|(_, count)| count)
            .sum()
    };
    let [pods, statuses, own] = ["pods", "pods/status", "sidecarsets/status"].map(of);
    [
        pods,
        statuses,
        own,
        update.phase.writes - pods - statuses - own,
    ]
}

/// A table of the updates, the requests in each, and the other figures.
pub(super) fn text(figures: &Figures) -> String {
    let mut text = format!(
        "\n{} pods on {} simulated nodes, {} processors{}; writes for each pod, but for those of the SidecarSet's status:\n\n\
         | update | s | CPU s | pods | their status | others | refused | SidecarSet's status | leader MiB | follower MiB |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
        figures.pods,
        figures.nodes,
        figures.processors,
        if figures.optimised {
            ""
        } else {
            ", programs built for debugging"
        }
    );
    for update in &figures.updates {
        let ([pods, statuses, own, others], phase) = (writes(update), &update.phase);
        // Another writer, mostly the kubelet, changed the pod since the controller saw it. These
        // requests are among the writes above.
        let conflicts = phase.requests.refused.get(&409).copied().unwrap_or(0);
        let per_pod = |count: u64| count as f64 / phase.pods as f64;
        let _ = writeln!(
            text,
            "| {}, {} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {own} | {:.1} | {:.1} |",
            update.way,
            phase.name,
            phase.seconds,
            phase.cpu,
            per_pod(pods),
            per_pod(statuses),
            per_pod(others),
            per_pod(conflicts),
            phase.resident as f64 / MIB,
            update.follower as f64 / MIB,
        );
    }
    let _ = writeln!(text);
    for Update { way, phase, .. } in &figures.updates {
        let asked: Vec<_> = phase
            .requests
            .all
            .iter()
            .map(|(what, count)| format!("{count} {what}"))
            .collect();
        let _ = writeln!(text, "{way}, {}: {}", phase.name, asked.join(", "));
    }
    let _ = writeln!(text);
    for timed in &figures.one_by_one {
        let (ours, bare) = (
            median(timed.sidecar_set.clone()),
            median(timed.bare.clone()),
        );
        let _ = writeln!(
            text,
            "{} pods one by one, containers that take {} s to start: {ours:.2} s by the SidecarSet, {bare:.2} s by hand, {:.2} × (medians \
             of {})",
            timed.pods,
            timed.start_delay,
            ours / bare,
            timed.bare.len()
        );
    }
    let _ = writeln!(
        text,
        "A replica that does not lead, and answers the webhooks, held {:.1} MiB before there were pods, and {:.1} MiB at most",
        figures.follower_idle as f64 / MIB,
        figures.follower_peak as f64 / MIB
    );
    text
}

#[cfg(test)]
mod tests;
