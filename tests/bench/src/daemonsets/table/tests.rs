use super::super::Wake;
use super::*;
use crate::phases::{Phase, Requests};

fn step(name: &'static str, seconds: f64) -> Step {
    let all = [
        ("create pods", 10),
        ("patch pods/status", 10),
        ("patch nodeimages", 2),
        ("patch daemonsets/status", 3),
        ("create events", 5),
    ];
    let all = all.map(|(what, count)| (what.to_owned(), count)).into();
    let phase = Phase {
        subject: "berth".to_owned(),
        round: 1,
        name,
        pods: 10,
        began: 0.0,
        seconds,
        cpu: 0.25,
        resident: 12 * 1024,
        peak: 13 * 1024,
        apiserver_cpu: 0.0,
        etcd_cpu: 0.0,
        simnode_cpu: 0.0,
        reconciles: 7,
        requests: Requests {
            all,
            refused: [(409, 1)].into(),
            daemons: 4,
            ..Requests::default()
        },
        writes: 31,
        each: Vec::new(),
    };
    Step {
        phase,
        told: 3,
        told_in_a_second: 2,
    }
}

#[test]
fn table_shows_figures_per_pod_node_and_openkruise() {
    let held = |moment, nodes, pods, mib: u64| Held {
        moment,
        nodes,
        pods,
        resident: (mib + 8) * 1024,
        anonymous: mib * 1024,
    };
    let life = |subject, seconds| Life {
        subject,
        held: vec![
            held("without nodes", 0, 0, 4),
            held("without pods", 1024, 0, 5),
            held("created", 1024, 512, 6),
        ],
        steps: vec![step("create", seconds), step("nodes join", seconds)],
        wakes: vec![Wake {
            change: "a label".to_owned(),
            reconciles: 1,
        }],
    };
    let lives = vec![life("berth", 1.5), life("peer", 6.0)];
    let text = text(&Figures {
        nodes: 10,
        processors: 2,
        optimised: true,
        floor: 1.0,
        lives,
    });
    for line in [
        "| create | 10 | 1.50 | 0.25 | 7 | 1.00 | 1.00 | 0.20 | 0.50 | 0.10 | 0.40 | 3.20 | 0.10 | 3 | 2 | 13.0 |",
        "| without pods | 1024 | 0 | 13.0 | 5.0 | 1.0 | 1024 | 0.0 | 0 |",
        "| created | 1024 | 512 | 14.0 | 6.0 | 2.0 | 2048 | 1.0 | 2048 |",
        "| a label | 1 |",
        "berth, nodes join: 1.50 × the 1.00 s of the bare loop",
        "berth, create: 0.25 × the time of the peer, 1.00 × its CPU, 1.00 × its writes, 1.00 × its memory at most",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}
