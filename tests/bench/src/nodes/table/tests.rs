use super::*;
use crate::nodes::memory::Resident;
use crate::nodes::rollout::Timed;

#[test]
fn medians() {
    assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
    assert_eq!(median(vec![4.0, 1.0]), 2.5);
}

#[test]
fn ways_are_compared_with_the_limit() {
    let timed = |way: Way, seconds| Timed {
        way: way.name(),
        seconds,
    };
    let figures = Figures {
        pods: 6,
        nodes: 3,
        layer_mib: 0,
        cold: false,
        memory: vec![Resident {
            program: "berth-daemon".into(),
            moment: "idle".into(),
            kib: 10240,
            peak_kib: 11264,
        }],
        rollouts: vec![
            timed(Way::InPlace, 1.5),
            timed(Way::Recreate, 3.0),
            timed(Way::Floor, 1.0),
        ],
        takeovers: vec![takeover::Taken {
            way: "killed",
            seconds: 4.5,
        }],
        plugin: vec![],
    };
    let text = text(&figures);
    assert!(
        text.contains("in place         1.50     1.50     1.50         1.50"),
        "{text}"
    );
    assert!(
        text.contains("killed           4.50 s, at most 4.50 s"),
        "{text}"
    );
    assert!(
        text.contains("berth-daemon     idle                     10.0     11.0"),
        "{text}"
    );
    assert!(text.contains("berth-daemon: 11.0 MiB at most"), "{text}");
}
