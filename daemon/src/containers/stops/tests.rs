use jiff::Timestamp;
use k8s_cri::v1::{ContainerMetadata, ContainerState};
use proptest::prelude::*;

use super::container::NAME_LABEL;
use super::*;
use crate::containers::pre_stop::{self, Hook};
use crate::runtime::inspect::{POD_NAME_LABEL, POD_NAMESPACE_LABEL, POD_UID_LABEL};

const SECOND: i64 = 1_000_000_000;

fn now(second: i64) -> Now {
    Now {
        steady: *START + Duration::from_secs(second.unsigned_abs()),
        time: Timestamp::from_second(second).unwrap(),
    }
}

static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);

fn stop(request: &str, container: &str, id: &str) -> StopContainer {
    let text = str::to_owned;
    StopContainer {
        request: text(request),
        namespace: text("default"),
        name: text("web"),
        uid: text("u"),
        container: text(container),
        container_id: format!("containerd://{id}"),
        ..StopContainer::default()
    }
}

fn container(name: &str, id: &str, created_at: i64) -> Container {
    let labels = [
        (POD_UID_LABEL, "u"),
        (NAME_LABEL, name),
        (POD_NAME_LABEL, "web"),
        (POD_NAMESPACE_LABEL, "default"),
    ];
    let attempt = u32::try_from(created_at).unwrap();
    Container {
        id: id.into(),
        metadata: Some(ContainerMetadata {
            name: name.into(),
            attempt,
        }),
        state: ContainerState::ContainerRunning as i32,
        created_at: created_at * SECOND,
        labels: labels
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect(),
        ..Container::default()
    }
}

fn see(
    stops: &mut Stops,
    asked: &[StopContainer],
    containers: &[Container],
    at: i64,
) -> Vec<Begin> {
    stops.changed();
    assert!(stops.looks(asked, now(at).steady) || !stops.are_open(asked));
    stops.seen(asked, Ok(containers), |_| false, now(at))
}

fn away() -> CriError {
    CriError::Away {
        socket: "s".into(),
        why: "gone".into(),
    }
}

fn phases(stops: &Stops, asked: &[StopContainer], at: i64) -> Vec<(String, StopPhase)> {
    stops
        .answers(asked, now(at).steady)
        .into_iter()
        .map(|answer| (answer.container, answer.phase))
        .collect()
}

/// Each edit makes it another container than the requested one.
#[test]
fn a_container_that_is_another_in_any_way_is_not_stopped() {
    type Edit = fn(&mut Container);
    let edits: [(&str, Edit); 7] = [
        ("another id", |c| c.id = "b".into()),
        ("it has exited", |c| {
            c.state = ContainerState::ContainerExited as i32
        }),
        ("it has not started", |c| {
            c.state = ContainerState::ContainerCreated as i32
        }),
        ("of another pod", |c| {
            drop(c.labels.insert(POD_UID_LABEL.into(), "other".into()))
        }),
        ("of another name", |c| {
            drop(c.labels.insert(NAME_LABEL.into(), "other".into()))
        }),
        ("of another namespace", |c| {
            drop(c.labels.insert(POD_NAMESPACE_LABEL.into(), "other".into()))
        }),
        ("without labels", |c| c.labels.clear()),
    ];
    let asked = [stop("r", "app", "a")];
    for (what, edit) in edits {
        let mut found = container("app", "a", 1);
        edit(&mut found);
        let mut stops = Stops::default();
        assert_eq!(see(&mut stops, &asked, &[found], 1), [], "{what}");
        assert_eq!(
            phases(&stops, &asked, 1),
            [("app".to_owned(), StopPhase::Gone)],
            "{what}"
        );
    }
    let mut stops = Stops::default();
    let begun = see(&mut stops, &asked, &[container("app", "a", 1)], 1);
    assert_eq!(
        begun
            .iter()
            .map(|begin| begin.id.as_str())
            .collect::<Vec<_>>(),
        ["a"]
    );
}

#[test]
fn the_hook_is_the_kubelets_and_no_grace_is_no_hook() {
    let mut found = container("app", "a", 1);
    found.annotations.insert(
        pre_stop::HOOK_ANNOTATION.into(),
        r#"{"exec":{"command":["bye"]}}"#.into(),
    );
    for (grace, expected, has_hook) in [
        (None, 30, true),
        (Some(7), 7, true),
        (Some(0), 0, false),
        (Some(-1), 0, false),
    ] {
        let asked = [StopContainer {
            grace_period_seconds: grace,
            ..stop("r", "app", "a")
        }];
        let begun = see(
            &mut Stops::default(),
            &asked,
            std::slice::from_ref(&found),
            1,
        )
        .remove(0);
        assert_eq!(
            (begun.grace, begun.hook != Hook::None),
            (Duration::from_secs(expected), has_hook),
            "{grace:?}"
        );
    }
}

#[test]
fn stop_is_reported_when_slow_and_when_finished() {
    let (asked, containers) = ([stop("r", "app", "a")], [container("app", "a", 1)]);
    let mut stops = Stops::default();
    let begun = see(&mut stops, &asked, &containers, 10).remove(0);
    assert_eq!(see(&mut stops, &asked, &containers, 11), [], "once");
    assert_eq!(phases(&stops, &asked, 11), []);
    assert_eq!(stops.wake(&asked, now(11).steady), Some(now(30).steady));
    assert_eq!(
        phases(&stops, &asked, 30),
        [("app".to_owned(), StopPhase::Stopping)]
    );
    stops.over(&begun, Some("ended with 1"), Ok(()), now(31));
    let answer = stops.answers(&asked, now(31).steady).remove(0);
    assert_eq!(
        (answer.phase, answer.hook_message.as_str()),
        (StopPhase::Stopped, "ended with 1")
    );
    assert!(!stops.are_open(&asked));
    assert_eq!(see(&mut stops, &asked, &containers, 32), [], "nor again");
    assert_eq!(phases(&stops, &[], 32), [], "no request is left");
}

/// A container is being stopped for another request; the daemon reports that to each request for
/// it.
#[test]
fn stop_is_reported_to_all_requests_for_container() {
    let (asked, containers) = ([stop("r", "app", "a")], [container("app", "a", 1)]);
    let other = [
        StopContainer {
            cancelled: true,
            ..asked[0].clone()
        },
        stop("q", "app", "a"),
    ];
    let mut stops = Stops::default();
    let begun = see(&mut stops, &asked, &containers, 10).remove(0);
    assert_eq!(
        see(&mut stops, &other, &containers, 20),
        [],
        "it is at work"
    );
    assert_eq!(
        stops.wake(&other[1..], now(20).steady),
        Some(now(30).steady)
    );
    assert_eq!(
        phases(&stops, &other[1..], 30),
        [("app".to_owned(), StopPhase::Stopping)]
    );
    stops.over(&begun, None, Ok(()), now(40));
    assert_eq!(see(&mut stops, &other, &[], 41), []);
    assert_eq!(
        phases(&stops, &other[1..], 41),
        [("app".to_owned(), StopPhase::Gone)],
        "another stopped it"
    );
    // For example, for a change of the environment.
    let mut stops = Stops::default();
    stops.changed();
    assert!(stops.looks(&asked, now(10).steady));
    assert_eq!(
        stops.seen(&asked, Ok(&containers), |id| id == "a", now(10)),
        []
    );
    assert_eq!(
        phases(&stops, &asked, 30),
        [("app".to_owned(), StopPhase::Stopping)]
    );
    assert_eq!(
        see(&mut stops, &asked, &containers, 31).len(),
        1,
        "it lives on"
    );
}

#[test]
fn failed_stop_is_reported_and_lost_stop_is_retried() {
    let (asked, containers) = ([stop("r", "app", "a")], [container("app", "a", 1)]);
    let mut stops = Stops::default();
    let begun = see(&mut stops, &asked, &containers, 1).remove(0);
    stops.over(&begun, None, Err(&away()), now(2));
    // A request that waits has a report as long as the runtime is away.
    assert_eq!(
        phases(&stops, &asked, 2),
        [("app".to_owned(), StopPhase::Stopping)]
    );
    assert_eq!(stops.wake(&asked, now(2).steady), Some(now(3).steady));
    let begun = see(&mut stops, &asked, &containers, 3).remove(0);
    stops.over(&begun, None, Err(&CriError::Refused("busy".into())), now(4));
    let answer = stops.answers(&asked, now(4).steady).remove(0);
    assert_eq!(
        (answer.phase, answer.message.as_str()),
        (StopPhase::Failed, "busy")
    );
}

#[test]
fn requests_stop_their_containers_one_at_a_time() {
    let asked = [
        stop("r", "app", "a"),
        stop("r", "side", "s"),
        stop("q", "x", "x"),
    ];
    let containers = [
        container("app", "a", 1),
        container("side", "s", 1),
        container("x", "x", 1),
    ];
    let mut stops = Stops::default();
    let ids = |begun: &[Begin]| {
        begun
            .iter()
            .map(|begin| begin.id.clone())
            .collect::<Vec<_>>()
    };
    let begun = see(&mut stops, &asked, &containers, 1);
    assert_eq!(ids(&begun), ["a", "x"]);
    stops.over(&begun[0], None, Ok(()), now(2));
    assert_eq!(ids(&see(&mut stops, &asked, &containers[1..], 2)), ["s"]);
}

#[test]
fn cancelled_stop_never_begins_but_begun_is_reported() {
    let asked = [stop("r", "app", "a")];
    let cancelled = [StopContainer {
        cancelled: true,
        ..asked[0].clone()
    }];
    let containers = [container("app", "a", 1)];
    let mut stops = Stops::default();
    assert_eq!(see(&mut stops, &cancelled, &containers, 1), []);
    assert_eq!(
        phases(&stops, &cancelled, 1),
        [("app".to_owned(), StopPhase::Cancelled)]
    );
    let mut stops = Stops::default();
    let begun = see(&mut stops, &asked, &containers, 1).remove(0);
    assert_eq!(see(&mut stops, &cancelled, &containers, 2), []);
    stops.over(&begun, None, Ok(()), now(3));
    assert_eq!(
        phases(&stops, &cancelled, 3),
        [("app".to_owned(), StopPhase::Stopped)]
    );
}

#[test]
fn the_next_container_lasts_by_this_nodes_clock() {
    let asked = [StopContainer {
        min_started_seconds: 5,
        ..stop("r", "app", "a")
    }];
    let mut stops = Stops::default();
    let begun = see(&mut stops, &asked, &[container("app", "a", 1)], 10).remove(0);
    stops.over(&begun, None, Ok(()), now(11));
    let lasting = |stops: &Stops| {
        stops
            .answers(&asked, now(0).steady)
            .remove(0)
            .lasting_container_id
    };
    for (containers, at, expected) in [
        (vec![], 12, ""),
        (vec![container("app", "b", 13)], 14, ""),
        (vec![container("app", "b", 13)], 18, ""),
        (vec![container("app", "b", 13)], 19, "containerd://b"),
        (vec![container("app", "c", 20)], 20, ""),
        // A daemon that has not seen it start believes the creation time if that was long ago.
        (vec![container("app", "d", 21)], 57, "containerd://d"),
    ] {
        see(&mut stops, &asked, &containers, at);
        assert_eq!(lasting(&stops), expected, "{at}");
    }
    assert!(!stops.are_open(&asked));
}

#[test]
fn restarted_daemon_keeps_answers_and_repeats_stops() {
    let asked = [stop("r", "app", "a"), stop("q", "app", "b")];
    let answer = |stop: &StopContainer, phase| StoppedContainer {
        request: stop.request.clone(),
        container: stop.container.clone(),
        container_id: stop.container_id.clone(),
        phase,
        ..StoppedContainer::default()
    };
    let mut stops = Stops::default();
    stops.take_over(
        &[
            answer(&asked[0], StopPhase::Stopped),
            answer(&asked[1], StopPhase::Stopping),
        ],
        now(1),
    );
    let begun = see(
        &mut stops,
        &asked,
        &[container("app", "a", 1), container("app", "b", 1)],
        1,
    );
    assert_eq!(
        begun
            .iter()
            .map(|begin| begin.id.as_str())
            .collect::<Vec<_>>(),
        ["b"]
    );
}

/// The daemon stops its own container: it ends with the stop, so that the next daemon finds nothing
/// to stop. It reports the container as stopped by the request only if the stop was reported
/// before.
#[test]
fn daemon_reports_its_own_stop_after_restart() {
    let asked = [stop("r", "daemon", "a")];
    let mut first = Stops::default();
    assert_eq!(
        see(&mut first, &asked, &[container("daemon", "a", 1)], 1).len(),
        1
    );
    for (at, expected) in [(1, StopPhase::Gone), (30, StopPhase::Stopped)] {
        let mut second = Stops::default();
        second.take_over(&first.answers(&asked, now(at).steady), now(41));
        let mut ended = container("daemon", "a", 1);
        ended.state = ContainerState::ContainerExited as i32;
        assert_eq!(
            see(
                &mut second,
                &asked,
                &[ended, container("daemon", "b", 40)],
                41
            ),
            [],
            "{at}"
        );
        assert_eq!(
            phases(&second, &asked, 41),
            [("daemon".to_owned(), expected)],
            "{at}"
        );
        assert!(!second.are_open(&asked));
    }
}

/// Half of it is done: the hook was run, or the container got the signal to end.
#[test]
fn interrupted_stop_is_finished_although_cancelled() {
    let asked = [StopContainer {
        grace_period_seconds: Some(90),
        ..stop("r", "app", "a")
    }];
    let cancelled = [StopContainer {
        cancelled: true,
        ..asked[0].clone()
    }];
    let mut found = container("app", "a", 1);
    found.annotations.insert(
        pre_stop::HOOK_ANNOTATION.into(),
        r#"{"exec":{"command":["bye"]}}"#.into(),
    );
    let stopping = [("app".to_owned(), StopPhase::Stopping)];
    // Does the runtime go away, or the daemon? What was the hook's result? Does the hook run again?
    for (runtime, hook, again) in [
        (true, None, false),
        (true, Some("no answer"), true),
        (false, None, true),
    ] {
        let mut stops = Stops::default();
        let begun = see(&mut stops, &asked, std::slice::from_ref(&found), 10).remove(0);
        assert_eq!(
            (begun.grace, begun.hook != Hook::None),
            (Duration::from_secs(90), true)
        );
        if runtime {
            stops.over(&begun, hook, Err(&away()), now(40));
        } else {
            let written = stops.answers(&asked, now(40).steady);
            stops = Stops::default();
            stops.take_over(&written, now(40));
        }
        for asked in [&asked, &cancelled] {
            stops.drop_others(asked);
            assert_eq!(phases(&stops, asked, 40), stopping, "{runtime}");
        }
        let begun = see(&mut stops, &cancelled, std::slice::from_ref(&found), 50).remove(0);
        assert_eq!(
            (&*begun.id, begun.grace, begun.hook != Hook::None),
            ("a", Duration::from_secs(50), again)
        );
        assert_eq!(
            see(&mut stops, &cancelled, std::slice::from_ref(&found), 51),
            [],
            "once at a time"
        );
        assert_eq!(phases(&stops, &cancelled, 51), stopping, "{runtime}");
        stops.over(&begun, None, Ok(()), now(60));
        assert_eq!(
            phases(&stops, &cancelled, 60),
            [("app".to_owned(), StopPhase::Stopped)],
            "{runtime}"
        );
        assert_eq!(
            see(&mut stops, &cancelled, std::slice::from_ref(&found), 61),
            [],
            "nor again"
        );
    }
}

/// Another container of the same request comes after it.
#[test]
fn interrupted_stop_resumes_first_for_same_container() {
    let asked = [stop("r", "app", "a"), stop("r", "side", "s")];
    let cut_short = || {
        let mut stops = Stops::default();
        let begun = see(&mut stops, &asked[1..], &[container("side", "s", 1)], 10).remove(0);
        stops.over(&begun, None, Err(&away()), now(100));
        stops
    };
    let ids = |begun: &[Begin]| {
        begun
            .iter()
            .map(|begin| begin.id.clone())
            .collect::<Vec<_>>()
    };
    let both = [container("app", "a", 1), container("side", "s", 1)];
    let mut stops = cut_short();
    let begun = see(&mut stops, &asked, &both, 101);
    assert_eq!(
        (ids(&begun), begun[0].grace),
        (vec!["s".to_owned()], Duration::from_secs(2)),
        "what is left at least"
    );
    stops.not_begun(&begun[0]);
    assert_eq!(ids(&see(&mut stops, &asked, &both, 102)), ["s"]);
    // The kubelet has started the next one.
    let mut stops = cut_short();
    let next = [container("app", "a", 1), container("side", "t", 99)];
    assert_eq!(see(&mut stops, &asked, &next, 101), []);
    assert_eq!(
        phases(&stops, &asked[1..], 101),
        [("side".to_owned(), StopPhase::Stopped)]
    );
    assert!(
        stops.looks(&asked, now(101).steady),
        "the other goes on at once"
    );
    assert_eq!(
        ids(&stops.seen(&asked, Ok(&next), |_| false, now(101))),
        ["a"]
    );
    // The stop is not requested any more, and a later request begins anew.
    let mut stops = cut_short();
    stops.drop_others(&asked[..1]);
    let cancelled = [StopContainer {
        cancelled: true,
        ..asked[1].clone()
    }];
    assert_eq!(see(&mut stops, &cancelled, &both, 101), []);
    assert_eq!(
        phases(&stops, &cancelled, 101),
        [("side".to_owned(), StopPhase::Cancelled)]
    );
}

/// Another request for the same container, in either order, must not give it the hook and the whole
/// grace period once more.
#[test]
fn interrupted_stop_is_not_repeated_by_other_request() {
    let asked = [stop("p", "app", "a"), stop("r", "app", "a")];
    let containers = [container("app", "a", 1)];
    for (request, is_daemon) in [(0, false), (0, true), (1, false), (1, true)] {
        let own = &asked[request..=request];
        let mut stops = Stops::default();
        let begun = see(&mut stops, own, &containers, 10).remove(0);
        if is_daemon {
            let written = stops.answers(own, now(30).steady);
            stops = Stops::default();
            stops.take_over(&written, now(31));
        } else {
            stops.over(&begun, None, Err(&away()), now(31));
        }
        let begun = see(&mut stops, &asked, &containers, 32);
        assert_eq!(
            begun.iter().map(|begin| &begin.stop).collect::<Vec<_>>(),
            [&asked[request]],
            "{is_daemon}"
        );
        assert!(
            begun[0].grace < pre_stop::grace(&containers[0]),
            "what is left of it"
        );
        stops.over(&begun[0], None, Ok(()), now(33));
        assert_eq!(see(&mut stops, &asked, &[], 34), []);
        let answers = stops.answers(&asked, now(34).steady);
        let stopped = answers
            .iter()
            .find(|answer| answer.phase == StopPhase::Stopped);
        assert_eq!(
            stopped.map(|answer| &answer.request),
            Some(&asked[request].request),
            "{is_daemon}"
        );
        assert!(
            answers.iter().any(|answer| answer.phase == StopPhase::Gone),
            "the other's: {answers:?}"
        );
    }
}

/// The next daemon would take a cancelled stop for one that has not begun, and the stop reported
/// for another request for its own.
#[test]
fn cancelled_running_stop_is_reported_at_once() {
    let (asked, other) = ([stop("r", "app", "a")], [stop("q", "app", "a")]);
    let cancel = |asked: &[StopContainer; 1]| {
        [StopContainer {
            cancelled: true,
            ..asked[0].clone()
        }]
    };
    let containers = [container("app", "a", 1)];
    let mut stops = Stops::default();
    assert_eq!(see(&mut stops, &asked, &containers, 10).len(), 1);
    assert_eq!(phases(&stops, &asked, 12), []);
    let told = stops.answers(&cancel(&asked), now(12).steady);
    assert_eq!(
        told.iter()
            .map(|answer| answer.begun_at.as_ref().map(|at| at.0))
            .collect::<Vec<_>>(),
        [Some(now(10).time)]
    );
    assert_eq!(phases(&stops, &cancel(&other), 12), []);
    let told = stops.answers(&other, now(30).steady);
    assert_eq!(
        told.iter()
            .map(|answer| answer.begun_at.clone())
            .collect::<Vec<_>>(),
        [None]
    );
    let mut second = Stops::default();
    second.take_over(&told, now(40));
    assert_eq!(see(&mut second, &cancel(&other), &containers, 40), []);
    assert_eq!(
        phases(&second, &cancel(&other), 40),
        [("app".to_owned(), StopPhase::Cancelled)]
    );
}

proptest! {
    /// For any order of requests, cancellations, ends of stops, and deaths of daemons and runtimes:
    /// only containers named by id are stopped, no stop with a result begins again, and a cancelled
    /// stop goes on only if it had begun.
    #[test]
    fn only_the_named_id_is_stopped_and_never_twice(steps in proptest::collection::vec((0..3_usize, 0..6_u8), 1..40)) {
        let mut asked: Vec<_> = [("r", "app", "a"), ("r", "side", "s"), ("q", "app", "a")].map(|(r, c, id)| stop(r, c, id)).into();
        let mut running = vec![container("app", "a", 1), container("side", "s", 1), container("app", "other", 1)];
        let (mut stops, mut at_work, mut ended, mut written) = (Stops::default(), Vec::<Begin>::new(), Vec::new(), Vec::new());
        let mut begun = Vec::<StopKey>::new();
        for (at, (which, what)) in (1..).zip(steps) {
            match what {
                0 => {
                    for begin in see(&mut stops, &asked, &running, at) {
                        prop_assert!(asked.iter().any(|stop| id(&stop.container_id) == begin.id));
                        prop_assert!(!ended.contains(&begin.id), "{} is stopped twice", begin.id);
                        prop_assert!(!at_work.iter().any(|other| other.id == begin.id), "{} twice at once", begin.id);
                        let key = request_key(&begin.stop);
                        prop_assert!(!begin.stop.cancelled || begun.contains(&key), "{} begins although it is cancelled", begin.id);
                        begun.push(key);
                        at_work.push(begin);
                    }
                }
                1 if which < at_work.len() => {
                    let begin = at_work.remove(which);
                    running.retain(|container| container.id != begin.id);
                    ended.push(begin.id.clone());
                    stops.over(&begin, None, Ok(()), now(at));
                }
                2 => written = stops.answers(&asked, now(at).steady),
                3 => {
                    // The daemon dies; the runtime ends only the containers that it was called to
                    // end.
                    stops = Stops::default();
                    at_work.clear();
                    stops.take_over(&written, now(at));
                }
                4 => asked[which].cancelled = true,
                5 if which < at_work.len() => {
                    // The runtime dies, and the container lives on.
                    let begin = at_work.remove(which);
                    stops.over(&begin, None, Err(&away()), now(at));
                    prop_assert!(stops.answers(&asked, now(at).steady).iter().any(|answer| begin.stop.is_answered_by(answer)));
                }
                _ => {}
            }
            prop_assert!(running.iter().any(|container| container.id == "other"));
        }
    }
}
