//! The tables of the figures.

use std::fmt::Write;

use super::Figures;
use super::measure::Phase;
use crate::median::median;

/// The measurements of one subject's phase, in all rounds.
pub(crate) struct Of<'a>(Vec<&'a Phase>);

impl<'a> Of<'a> {
    pub(crate) fn new(figures: &'a Figures, subject: &str, name: &str) -> Self {
        Self(
            figures
                .phases
                .iter()
                .filter(|phase| phase.subject == subject && phase.name == name)
                .collect(),
        )
    }

    pub(crate) fn median(&self, value: impl Fn(&Phase) -> f64) -> f64 {
        median(self.0.iter().map(|phase| value(phase)).collect())
    }
}

/// In the order in which they were first seen.
pub(crate) fn distinct<'a>(values: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    values.for_each(|value| {
        if !seen.contains(&value) {
            seen.push(value);
        }
    });
    seen
}

const MIB: f64 = 1024.0;

/// For each subject a table and its requests, then a comparison.
pub(crate) fn text(figures: &Figures) -> String {
    let mut text = format!(
        "\n{} pods on {} simulated nodes, {} processors{}:\n",
        figures.pods,
        figures.nodes,
        figures.processors,
        if figures.optimised {
            ""
        } else {
            ", programs built for debugging"
        }
    );
    for subject in distinct(figures.phases.iter().map(|phase| phase.subject.as_str())) {
        subject_table(figures, subject, &mut text);
    }
    compare(figures, &mut text);
    text
}

fn subject_table(figures: &Figures, subject: &str, text: &mut String) {
    let _ = writeln!(
        text,
        "\n| {subject} | s | CPU s | resident MiB | peak MiB | writes | per pod | refused | apiserver CPU s | etcd CPU s | reconciles |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
    );
    let phases = figures
        .phases
        .iter()
        .filter(|phase| phase.subject == subject);
    for name in distinct(phases.map(|phase| phase.name)) {
        let of = Of::new(figures, subject, name);
        let per_pod = of.median(|phase| phase.writes as f64 / phase.pods as f64);
        let per_pod = if per_pod.is_finite() {
            format!("{per_pod:.2}")
        } else {
            String::new()
        };
        let refused = of.median(|phase| phase.requests.refused.values().sum::<u64>() as f64);
        let _ = writeln!(
            text,
            "| {name} | {:.2} | {:.2} | {:.1} | {:.1} | {:.0} | {per_pod} | {refused:.0} | {:.2} | {:.2} | {:.0} |",
            of.median(|phase| phase.seconds),
            of.median(|phase| phase.cpu),
            of.median(|phase| phase.resident as f64 / MIB),
            of.median(|phase| phase.peak as f64 / MIB),
            of.median(|phase| phase.writes as f64),
            of.median(|phase| phase.apiserver_cpu),
            of.median(|phase| phase.etcd_cpu),
            of.median(|phase| phase.reconciles as f64),
        );
    }
    let _ = writeln!(text);
    for name in ["create", "in place", "recreate", "pull"] {
        if let Some(phase) = Of::new(figures, subject, name).0.first() {
            let asked: Vec<_> = phase
                .requests
                .all
                .iter()
                .map(|(what, count)| format!("{count} {what}"))
                .collect();
            let _ = writeln!(text, "{subject}, {name}: {}", asked.join(", "));
        }
    }
}

/// Compares Berth with the others.
fn compare(figures: &Figures, text: &mut String) {
    let seconds = |subject, name| Of::new(figures, subject, name).median(|phase| phase.seconds);
    let cpu = |subject, name| Of::new(figures, subject, name).median(|phase| phase.cpu);
    let _ = writeln!(text);
    for other in ["floor", "peer"] {
        for name in ["create", "in place", "again", "scale down"] {
            let (time, work) = (
                seconds("berth", name) / seconds(other, name),
                cpu("berth", name) / cpu(other, name),
            );
            if time.is_finite() {
                let work = if work.is_finite() {
                    format!(", {work:.2} × its CPU")
                } else {
                    String::new()
                };
                let _ = writeln!(
                    text,
                    "berth, {name}: {time:.2} × the time of the {other}{work}"
                );
            }
        }
    }
    for phase in figures.phases.iter().filter(|phase| !phase.each.is_empty()) {
        let mean = phase.each.iter().sum::<f64>() / phase.each.len() as f64;
        let slowest = phase.each.iter().copied().fold(0.0, f64::max) / mean;
        let (subject, name, sets) = (&phase.subject, phase.name, phase.each.len());
        if name.starts_with("small") {
            let (median, most) = (
                median(phase.each.clone()) * 1000.0,
                phase.each.iter().copied().fold(0.0, f64::max) * 1000.0,
            );
            let over = phase.each.iter().filter(|seconds| **seconds > 0.1).count();
            let _ = writeln!(
                text,
                "{subject}, {name}: of {sets} changes the median was acted on after {median:.0} ms, the last after {most:.0} ms, \
                 {over} after more than 100 ms"
            );
            continue;
        }
        let _ = writeln!(
            text,
            "{subject}, {name}: the slowest of {sets} took {slowest:.2} × the mean of {mean:.2} s"
        );
    }
    let resident = |name| Of::new(figures, "berth", name).median(|phase| phase.resident as f64);
    let per_pod = (resident("held") - resident("idle")) / figures.pods as f64;
    let _ = writeln!(
        text,
        "berth: {per_pod:.1} KiB of memory for each pod, after two rollouts"
    );
}

#[cfg(test)]
mod tests;
