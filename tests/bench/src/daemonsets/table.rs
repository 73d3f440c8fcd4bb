//! The tables of the figures.

use std::fmt::Write;

use super::{Figures, Held, Life, Step};
use crate::phases::OWN_STATUSES;

const MIB: f64 = 1024.0;

/// The writes of a step: to pods, to their statuses, of NodeImages, of events, and all others
/// except the statuses that have a count of their own.
fn writes(step: &Step) -> [u64; 5] {
    const WRITES: [&str; 4] = ["create", "delete", "patch", "update"];
    let of = |resource: &str| {
        let counts = |key: &str| {
            WRITES
                .iter()
                .any(|verb| *key == format!("{verb} {resource}"))
        };
        step.phase
            .requests
            .all
            .iter()
            .filter(|(key, _)| counts(key))
            .map(|(_, count)| count)
            .sum::<u64>()
    };
    let [pods, statuses, images, events] = ["pods", "pods/status", "nodeimages", "events"].map(of);
    let own: u64 = OWN_STATUSES.map(of).iter().sum();
    [
        pods,
        statuses,
        images,
        events,
        step.phase
            .writes
            .saturating_sub(pods + statuses + images + events + own),
    ]
}

/// For each controller, tables of its writes, its memory, and its triggered reconciles; then a
/// comparison.
pub(super) fn text(figures: &Figures) -> String {
    let mut text = format!(
        "\n{} simulated nodes, {} processors{}\n",
        figures.nodes,
        figures.processors,
        if figures.optimised {
            ""
        } else {
            ", programs built for debugging"
        }
    );
    for life in &figures.lives {
        steps(life, &mut text);
        memory(&life.held, &mut text);
        let _ = writeln!(
            text,
            "\n| what nodes do | looks of {} at DaemonSets |\n|---|--:|",
            life.subject
        );
        for wake in &life.wakes {
            let _ = writeln!(text, "| {} | {} |", wake.change, wake.reconciles);
        }
    }
    compare(figures, &mut text);
    text
}

/// Writes for each pod, or for each request; `in all` those of the controller and of the nodes'
/// daemons together.
fn steps(life: &Life, text: &mut String) {
    let _ = writeln!(
        text,
        "\n| {}, writes for each pod | pods | s | CPU s | looks | pods | their status | NodeImages | events | others | daemons' | in all \
         | refused | own status | in a second, at most | peak MiB |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
        life.subject
    );
    for step in &life.steps {
        let (counts, phase) = (writes(step), &step.phase);
        let per_pod = |count: u64| format!("{:.2}", count as f64 / phase.pods.max(1) as f64);
        let daemons = phase.requests.daemons;
        let all = counts.iter().sum::<u64>() + daemons;
        let refused = phase.requests.refused.get(&409).copied().unwrap_or(0);
        let counts = counts.map(per_pod).join(" | ");
        let _ = writeln!(
            text,
            "| {} | {} | {:.2} | {:.2} | {} | {counts} | {} | {} | {} | {} | {} | {:.1} |",
            phase.name,
            phase.pods,
            phase.seconds,
            phase.cpu,
            phase.reconciles,
            per_pod(daemons),
            per_pod(all),
            per_pod(refused),
            step.told,
            step.told_in_a_second,
            phase.peak as f64 / MIB,
        );
    }
    let _ = writeln!(text);
    for Step { phase, .. } in &life.steps {
        let asked: Vec<_> = phase
            .requests
            .all
            .iter()
            .map(|(what, count)| format!("{count} {what}"))
            .collect();
        let _ = writeln!(
            text,
            "{}, {}: {}",
            life.subject,
            phase.name,
            asked.join(", ")
        );
    }
}

fn memory(all: &[Held], text: &mut String) {
    let _ = writeln!(
        text,
        "\n| the controller at rest | nodes | pods | resident MiB | of it no file's | more than without nodes | bytes a node | than without \
         pods | bytes a pod |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|"
    );
    let [first, second, ..] = all else { return };
    for held in all {
        let [of_all, of_pods] =
            [first, second].map(|before| held.anonymous.saturating_sub(before.anonymous) as f64);
        let each = |kib: f64, count: usize| {
            if count == 0 {
                0.0
            } else {
                kib * 1024.0 / count as f64
            }
        };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {:.1} | {:.1} | {:.1} | {:.0} | {:.1} | {:.0} |",
            held.moment,
            held.nodes,
            held.pods,
            held.resident as f64 / MIB,
            held.anonymous as f64 / MIB,
            of_all / MIB,
            each(of_all, held.nodes),
            of_pods / MIB,
            each(of_pods, held.pods),
        );
    }
}

/// Compares the first controller with the bare loop, and with the others.
fn compare(figures: &Figures, text: &mut String) {
    let Some((first, others)) = figures.lives.split_first() else {
        return;
    };
    let _ = writeln!(text);
    for life in &figures.lives {
        if let Some(step) = life
            .steps
            .iter()
            .find(|step| step.phase.name == "nodes join")
        {
            let ratio = step.phase.seconds / figures.floor;
            let _ = writeln!(
                text,
                "{}, nodes join: {ratio:.2} × the {:.2} s of the bare loop",
                life.subject, figures.floor
            );
        }
    }
    for (step, life, of_other) in others.iter().flat_map(|life| {
        let of = |step: &Step| {
            life.steps
                .iter()
                .find(|other| other.phase.name == step.phase.name)
        };
        first
            .steps
            .iter()
            .filter_map(move |step| Some((step, life, of(step)?)))
    }) {
        let (one, other) = (&step.phase, &of_other.phase);
        let _ = writeln!(
            text,
            "{}, {}: {:.2} × the time of the {}, {:.2} × its CPU, {:.2} × its writes, {:.2} × its memory at most",
            first.subject,
            one.name,
            one.seconds / other.seconds,
            life.subject,
            one.cpu / other.cpu,
            one.writes as f64 / other.writes as f64,
            one.peak as f64 / other.peak as f64,
        );
    }
}

#[cfg(test)]
mod tests;
