use super::*;
use crate::record::ContainerView;
use crate::record::tests::pod;

fn line(pod: &str, answer: &str, state: &'static str) -> Line {
    Line {
        pod: pod.into(),
        node: "node-1".into(),
        answer: answer.into(),
        state,
    }
}

#[test]
fn a_pod_in_words() {
    let view = ContainerView {
        container_id: "c1".into(),
        ..ContainerView::default()
    };
    let with = |pod: PodView| PodView {
        containers: [("main".to_owned(), view.clone())].into(),
        ..pod
    };
    let state = |pod: PodView| Line::of(&pod, "main", None).state;
    assert_eq!(state(with(pod("a", "r", true))), "in service");
    assert_eq!(state(with(pod("a", "r", false))), "not ready");
    assert_eq!(
        state(PodView {
            gates: false,
            ..with(pod("a", "r", true))
        }),
        "out of service, being updated"
    );
    assert_eq!(
        state(PodView {
            terminating: true,
            ..with(pod("a", "r", true))
        }),
        "leaving"
    );
    let new = PodView {
        containers: [("main".to_owned(), ContainerView::default())].into(),
        ..pod("a", "r", false)
    };
    assert_eq!(state(new), "starting");
    let says = |answer| Line::of(&pod("a", "r", true), "main", answer).answer;
    assert_eq!(
        (says(Some(&Ok("v1".into()))), says(Some(&Err("x".into())))),
        ("v1".into(), "-".into())
    );
}

#[test]
fn without_a_terminal_only_changes_are_said_and_plainly() {
    let mut screen = Screen {
        terminal: false,
        height: 0,
        said: BTreeMap::new(),
    };
    let at = Duration::from_millis(1500);
    let first = screen.changes(
        at,
        &[line("a", "v1", "in service"), line("b", "v1", "in service")],
    );
    assert_eq!(first.lines().count(), 2);
    assert_eq!(
        screen.changes(
            at,
            &[line("a", "v1", "in service"), line("b", "v1", "in service")]
        ),
        ""
    );
    let changed = screen.changes(at, &[line("a", "v2", "in service")]);
    assert_eq!(
        changed,
        "   1.50 s  a on node-1: answers v2, in service\n   1.50 s  b is gone\n"
    );
}

#[test]
fn a_terminal_sees_one_table_in_one_place() {
    let mut screen = Screen {
        terminal: true,
        height: 0,
        said: BTreeMap::new(),
    };
    let first = screen.redraw(
        Duration::ZERO,
        &[line("a", "v1", "x"), line("b", "v1", "y")],
    );
    assert!(
        !first.contains("\x1b[3A") && first.starts_with("POD"),
        "{first:?}"
    );
    let second = screen.redraw(Duration::ZERO, &[line("a", "v1", "x")]);
    assert!(
        second.starts_with("\x1b[3A") && second.ends_with("\x1b[J"),
        "{second:?}"
    );
    assert!(screen.redraw(Duration::ZERO, &[]).starts_with("\x1b[2A"));
}
