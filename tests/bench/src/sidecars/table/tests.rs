use super::super::one_by_one::Timed;
use super::*;
use crate::phases::{Phase, Requests};

#[test]
fn table_shows_writes_per_pod_by_resource() {
    let all = [
        ("patch pods", 20),
        ("patch pods/status", 10),
        ("patch sidecarsets/status", 7),
        ("create events", 5),
    ];
    let all = all.map(|(what, count)| (what.to_owned(), count)).into();
    let phase = Phase {
        subject: "hot".to_owned(),
        round: 1,
        name: "first",
        pods: 10,
        began: 0.0,
        seconds: 1.5,
        cpu: 0.25,
        resident: 12 * 1024,
        peak: 13 * 1024,
        apiserver_cpu: 0.0,
        etcd_cpu: 0.0,
        simnode_cpu: 0.0,
        reconciles: 3,
        requests: Requests {
            all,
            refused: [(404, 3), (409, 1)].into(),
            ..Requests::default()
        },
        writes: 42,
        each: Vec::new(),
    };
    let timed = Timed {
        pods: 10,
        start_delay: 1.0,
        sidecar_set: vec![12.0, 13.0, 11.0],
        bare: vec![10.0],
    };
    let text = text(&Figures {
        pods: 10,
        nodes: 2,
        processors: 2,
        optimised: true,
        updates: vec![Update {
            way: "hot",
            phase,
            follower: 11 * 1024,
        }],
        one_by_one: vec![timed],
        follower_idle: 10 * 1024,
        follower_peak: 12 * 1024,
    });
    assert!(
        text.contains("| hot, first | 1.50 | 0.25 | 2.00 | 1.00 | 0.50 | 0.10 | 7 | 12.0 | 11.0 |"),
        "{text}"
    );
    assert!(
        text.contains("12.00 s by the SidecarSet, 10.00 s by hand, 1.20 ×"),
        "{text}"
    );
    assert!(
        text.contains("held 10.0 MiB before there were pods, and 12.0 MiB at most"),
        "{text}"
    );
}
