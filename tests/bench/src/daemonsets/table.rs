//! The figures for people.

use std::fmt::Write;

use super::{Figures, Step};

const MIB: f64 = 1024.0;

/// The writes of a step: to pods, to their statuses, to the DaemonSet's, of events, and all others.
fn writes(step: &Step) -> [u64; 5] {
    const WRITES: [&str; 4] = ["create", "delete", "patch", "update"];
    let of = |resource: &str| {
        let counts = |key: &str| WRITES.iter().any(|verb| *key == format!("{verb} {resource}"));
        step.phase.requests.all.iter().filter(|(key, _)| counts(key)).map(|(_, count)| count).sum()
    };
    let [pods, statuses, own, events] = ["pods", "pods/status", "daemonsets/status", "events"].map(of);
    [pods, statuses, own, events, step.phase.writes - pods - statuses - own - events]
}

/// Tables of what was written, what the controller held, and who was woken.
pub(super) fn text(figures: &Figures) -> String {
    let mut text = format!(
        "\n{} simulated nodes, {} processors{}; writes for each pod, but for those of the DaemonSet's status:\n\n\
         | step | pods | s | CPU s | looks | pods | their status | events | others | refused | own status | in a second, at most | peak MiB |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
        figures.nodes,
        figures.processors,
        if figures.optimised { "" } else { ", programs built for debugging" }
    );
    for step in &figures.steps {
        let ([pods, statuses, _, events, others], phase) = (writes(step), &step.phase);
        let per_pod = |count: u64| count as f64 / phase.pods.max(1) as f64;
        let _ = writeln!(
            text,
            "| {} | {} | {:.2} | {:.2} | {} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {} | {} | {:.1} |",
            phase.name,
            phase.pods,
            phase.seconds,
            phase.cpu,
            phase.reconciles,
            per_pod(pods),
            per_pod(statuses),
            per_pod(events),
            per_pod(others),
            per_pod(phase.requests.refused.get(&409).copied().unwrap_or(0)),
            step.told,
            step.told_in_a_second,
            phase.peak as f64 / MIB,
        );
    }
    let _ = writeln!(text);
    for Step { phase, .. } in &figures.steps {
        let asked: Vec<_> = phase.requests.all.iter().map(|(what, count)| format!("{count} {what}")).collect();
        let _ = writeln!(text, "{}: {}", phase.name, asked.join(", "));
    }
    memory(figures, &mut text);
    let _ = writeln!(text, "\n| what nodes do | looks at DaemonSets |\n|---|--:|");
    for wake in &figures.wakes {
        let _ = writeln!(text, "| {} | {} |", wake.change, wake.reconciles);
    }
    text
}

fn memory(figures: &Figures, text: &mut String) {
    let _ = writeln!(
        text,
        "\n| the controller at rest | nodes | pods | resident MiB | of it no file's | more than without nodes | bytes a node | than without \
         pods | bytes a pod |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|"
    );
    let [first, second, ..] = figures.held.as_slice() else { return };
    for held in &figures.held {
        let [of_all, of_pods] = [first, second].map(|before| held.anonymous.saturating_sub(before.anonymous) as f64);
        let each = |kib: f64, count: usize| if count == 0 { 0.0 } else { kib * 1024.0 / count as f64 };
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

#[cfg(test)]
mod tests {
    use super::super::{Held, Wake};
    use super::*;
    use crate::phases::{Phase, Requests};

    #[test]
    fn figures_are_told_for_each_pod_and_each_node() {
        let all =
            [("create pods", 10), ("patch pods/status", 10), ("patch daemonsets/status", 3), ("create events", 5)];
        let all = all.map(|(what, count)| (what.to_owned(), count)).into();
        let phase = Phase {
            subject: "log".to_owned(),
            round: 1,
            name: "create",
            pods: 10,
            began: 0.0,
            seconds: 1.5,
            cpu: 0.25,
            resident: 12 * 1024,
            peak: 13 * 1024,
            apiserver_cpu: 0.0,
            etcd_cpu: 0.0,
            simnode_cpu: 0.0,
            reconciles: 7,
            requests: Requests { all, refused: [(409, 1)].into(), ..Requests::default() },
            writes: 29,
            each: Vec::new(),
        };
        let held = |moment, nodes, pods, mib: u64| Held {
            moment,
            nodes,
            pods,
            resident: (mib + 8) * 1024,
            anonymous: mib * 1024,
        };
        let text = text(&Figures {
            nodes: 10,
            processors: 2,
            optimised: true,
            held: vec![held("without nodes", 0, 0, 4), held("without pods", 1024, 0, 5), held("created", 1024, 512, 6)],
            steps: vec![Step { phase, told: 3, told_in_a_second: 2 }],
            wakes: vec![Wake { change: "a label".to_owned(), reconciles: 1 }],
        });
        for line in [
            "| create | 10 | 1.50 | 0.25 | 7 | 1.00 | 1.00 | 0.50 | 0.10 | 0.10 | 3 | 2 | 13.0 |",
            "| without pods | 1024 | 0 | 13.0 | 5.0 | 1.0 | 1024 | 0.0 | 0 |",
            "| created | 1024 | 512 | 14.0 | 6.0 | 2.0 | 2048 | 1.0 | 2048 |",
            "| a label | 1 |",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }
}
