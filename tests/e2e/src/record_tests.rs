use serde_json::json;

use super::*;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) fn pod(uid: &str, revision: &str, serves: bool) -> PodView {
    PodView {
        uid: uid.into(),
        name: format!("pod-{uid}"),
        node: "node-1".into(),
        pinned: String::new(),
        ip: "10.0.0.1".into(),
        labels: [(REVISION_LABEL.to_owned(), revision.to_owned())].into(),
        annotations: BTreeMap::new(),
        revision: revision.into(),
        terminating: false,
        ready: serves,
        is_seen: true,
        gates: true,
        containers: BTreeMap::new(),
    }
}

fn record(entries: impl IntoIterator<Item = (u64, Change)>) -> Record {
    let mut record = Record::default();
    entries
        .into_iter()
        .for_each(|(at, change)| record.push(ms(at), change));
    record
}

#[test]
fn a_view_reads_what_a_server_sends() {
    let sent = json!({
        "metadata": {"name": "web-x", "uid": "u1", "labels": {"controller-revision-hash": "web-5f", "app": "web"}},
        "spec": {
            "nodeName": "node-2",
            "readinessGates": [{"conditionType": "InPlaceUpdateReady"}],
            "containers": [{"name": "main", "image": "hello:2"}, {"name": "side", "image": "side:1"}],
        },
        "status": {
            "podIP": "10.1.2.3",
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "InPlaceUpdateReady", "status": "False"}],
            "containerStatuses": [{
                "name": "main", "image": "hello:1", "imageID": "hello@sha256:1", "containerID": "containerd://c1",
                "ready": true, "restartCount": 3,
            }],
        },
    });
    let view = PodView::of(&serde_json::from_value(sent).unwrap());
    assert_eq!(
        (view.uid.as_str(), view.name.as_str(), view.node.as_str()),
        ("u1", "web-x", "node-2")
    );
    assert_eq!(
        (view.ip.as_str(), view.revision.as_str()),
        ("10.1.2.3", "web-5f")
    );
    assert_eq!((view.label("app"), view.label("other")), ("web", ""));
    assert!(view.ready && !view.gates && !view.terminating && !view.serves());
    assert_eq!(view.restarts(), 3);
    let main = &view.containers["main"];
    assert_eq!(
        (main.wanted.as_str(), main.image_id.as_str()),
        ("hello:2", "hello@sha256:1")
    );
    assert_eq!(main.container_id, "containerd://c1");
    assert_eq!(
        view.containers["side"],
        ContainerView {
            wanted: "side:1".into(),
            ..ContainerView::default()
        }
    );
}

#[test]
fn a_gate_whose_condition_is_missing_holds_a_pod_back() {
    let sent = json!({
        "metadata": {"name": "a", "uid": "a"},
        "spec": {"containers": [], "readinessGates": [{"conditionType": "KruisePodReady"}]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    });
    assert!(!PodView::of(&serde_json::from_value(sent).unwrap()).serves());
}

#[test]
fn a_terminating_pod_does_not_serve() {
    let leaving = PodView {
        terminating: true,
        ..pod("a", "r", true)
    };
    assert!(pod("a", "r", true).serves() && !leaving.serves());
}

#[test]
fn every_moment_shows_all_pods() {
    let record = record([
        (0, Change::Is(pod("a", "old", true))),
        (0, Change::Is(pod("b", "old", true))),
        (10, Change::Is(pod("a", "new", false))),
        (
            20,
            Change::Is(PodView {
                terminating: true,
                ..pod("b", "old", true)
            }),
        ),
        (30, Change::Gone("b".into())),
        (40, Change::Is(pod("a", "new", true))),
    ]);
    let seen: Vec<_> = record
        .moments()
        .map(|m| {
            (
                m.pods.len(),
                m.active(),
                m.available(Duration::ZERO),
                m.of_revision("new"),
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            (0, 0, 0, 0),
            (1, 1, 1, 0),
            (2, 2, 2, 0),
            (2, 2, 1, 1),
            (2, 1, 0, 1),
            (1, 1, 0, 1),
            (1, 1, 1, 1)
        ]
    );
}

#[test]
fn available_needs_the_time_without_a_break() {
    let record = record([
        (0, Change::Is(pod("a", "r", true))),
        (900, Change::Is(pod("b", "r", true))),
        (
            1000,
            Change::Is(PodView {
                ip: "changed".into(),
                ..pod("a", "r", true)
            }),
        ),
        (1100, Change::Is(pod("a", "r", false))),
        (1200, Change::Is(pod("a", "r", true))),
        (2200, Change::Is(pod("a", "r", true))),
    ]);
    let seen: Vec<_> = record.moments().map(|m| m.available(ms(1000))).collect();
    assert_eq!(seen, [0, 0, 0, 1, 0, 0, 2]);
}

#[test]
fn a_later_part_begins_with_what_was_true() {
    let whole = record([
        (0, Change::Is(pod("a", "r", true))),
        (5, Change::Is(pod("b", "r", false))),
        (6, Change::Is(pod("c", "r", true))),
        (7, Change::Gone("c".into())),
        (50, Change::Is(pod("b", "r", true))),
    ]);
    let part = whole.since(ms(10));
    let seen = |min_ready| {
        part.moments()
            .map(|m| (m.pods.len(), m.available(min_ready)))
            .collect::<Vec<_>>()
    };
    assert_eq!(seen(Duration::ZERO), [(2, 1), (2, 2)]);
    assert_eq!(
        seen(ms(45)),
        [(2, 0), (2, 1)],
        "a has served since 0, not since the cut"
    );
    assert_eq!(
        part.out_of_service("b", ms(0), ms(100)),
        ms(40),
        "b was down when the part began"
    );
}

#[test]
fn out_of_service_is_the_sum_of_the_gaps() {
    let record = record([
        (0, Change::Is(pod("a", "r", true))),
        (100, Change::Is(pod("a", "r", false))),
        (
            150,
            Change::Is(PodView {
                ip: "x".into(),
                ..pod("a", "r", false)
            }),
        ),
        (400, Change::Is(pod("a", "r", true))),
        (500, Change::Is(pod("b", "r", false))),
        (600, Change::Is(pod("a", "r", false))),
        (700, Change::Gone("a".into())),
    ]);
    assert_eq!(record.out_of_service("a", ms(0), ms(1000)), ms(400));
    assert_eq!(record.out_of_service("a", ms(200), ms(650)), ms(250));
    assert_eq!(record.out_of_service("b", ms(0), ms(1000)), ms(500));
    assert_eq!(
        record.out_of_service("none", ms(0), ms(1000)),
        Duration::ZERO
    );
}

#[test]
fn a_list_is_one_moment() {
    let mut record = Record::starting_with([pod("a", "r", true), pod("b", "r", false)]);
    assert_eq!(
        record
            .moments()
            .map(|m| (m.active(), m.available(Duration::ZERO)))
            .collect::<Vec<_>>(),
        [(2, 1)]
    );
    record.push(ms(10), Change::Gone("a".into()));
    assert_eq!((record.last().active(), record.last().at), (1, ms(10)));
    assert_eq!(record.out_of_service("b", ms(0), ms(30)), ms(30));
}
