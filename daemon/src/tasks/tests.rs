mod clocks;
mod size;
mod turns;

use std::sync::LazyLock;

use berth_api::v1beta1::nodeimage::{
    ImagePullPhase, ImagePullPolicy, ImageTagPullPolicy, ImageTagSpec, ImageTagStatus,
    NodeImageSpec, NodeImageStatus, SyncStatusPhase,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;

use super::*;

const LIMITS: Limits = Limits { parallel: 2 };

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).unwrap()
}

fn steady(second: i64) -> Instant {
    static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);
    *BEGUN + Duration::from_secs(second.unsigned_abs())
}

fn now(second: i64) -> Now {
    set(second, 0)
}

/// The same with a time of day that is wrong by so many hours.
fn set(second: i64, hours: i64) -> Now {
    Now {
        steady: steady(second),
        time: at(second + hours * 3600),
    }
}

fn entry(tag: &str) -> ImageTagSpec {
    ImageTagSpec {
        tag: tag.into(),
        ..ImageTagSpec::default()
    }
}

fn limited(tag: &str, timeout: i32, backoff: i32, deadline: Option<i64>) -> ImageTagSpec {
    let policy = ImageTagPullPolicy {
        timeout_seconds: Some(timeout),
        backoff_limit: Some(backoff),
        active_deadline_seconds: deadline,
        ttl_seconds_after_finished: None,
    };
    ImageTagSpec {
        pull_policy: Some(policy),
        ..entry(tag)
    }
}

fn spec(entries: &[(&str, ImageTagSpec)]) -> NodeImageSpec {
    let mut spec = NodeImageSpec::default();
    for (image, tag) in entries {
        spec.images
            .entry((*image).to_owned())
            .or_default()
            .tags
            .push(tag.clone());
    }
    spec
}

fn key(image: &str, tag: &str) -> Key {
    Key {
        image: image.into(),
        tag: tag.into(),
    }
}

fn resolved(id: &str) -> Resolved {
    Resolved {
        id: id.into(),
        ids: vec![id.into()],
        bytes: Some(100),
    }
}

/// The tasks of one node, driven by hand.
struct Node {
    tasks: Tasks,
    spec: NodeImageSpec,
    status: NodeImageStatus,
}

impl Node {
    fn new(spec: NodeImageSpec) -> Node {
        Node {
            tasks: Tasks::default(),
            spec,
            status: NodeImageStatus::default(),
        }
    }

    fn step(&mut self, second: i64) -> Plan {
        self.step_at(now(second))
    }

    fn step_at(&mut self, now: Now) -> Plan {
        let plan = self.tasks.step(&self.spec, &self.status, true, LIMITS, now);
        self.status = self.tasks.status();
        plan
    }

    /// Steps, reports that no image is on the node, and steps again.
    fn begin(&mut self, second: i64) -> Plan {
        for key in self.step(second).look {
            self.tasks.looked(&key, None, now(second));
        }
        self.step(second)
    }

    fn tag(&self, image: &str, tag: &str) -> ImageTagStatus {
        self.status.image_statuses[image]
            .tags
            .iter()
            .find(|t| t.tag == tag)
            .cloned()
            .unwrap()
    }
}

#[test]
fn a_pull_goes_from_waiting_to_succeeded() {
    let mut node = Node::new(spec(&[("app", entry("1"))]));
    let plan = node.step(0);
    assert_eq!((plan.look, plan.start.len()), (vec![key("app", "1")], 0));
    assert_eq!(node.tag("app", "1").phase, ImagePullPhase::Waiting);
    assert!(node.step(0).look.is_empty(), "an image is looked up once");

    node.tasks.looked(&key("app", "1"), None, now(1));
    let plan = node.step(1);
    assert_eq!(plan.start.len(), 1);
    assert_eq!(
        plan.wake_at,
        Some(steady(601)),
        "the timeout where nothing is said"
    );
    node.tasks.progressed(
        plan.start[0].attempt,
        Bytes {
            done: 30,
            total: 40,
        },
        now(1),
    );
    node.step(2);
    let tag = node.tag("app", "1");
    assert_eq!(
        (tag.phase, tag.progress, tag.bytes_done, tag.bytes_total),
        (ImagePullPhase::Pulling, 75, Some(30), Some(40))
    );

    node.tasks.ended(
        plan.start[0].attempt,
        Outcome::Pulled(resolved("sha256:a")),
        now(5),
    );
    assert_eq!(node.step(5).wake_at, None);
    let tag = node.tag("app", "1");
    assert_eq!(
        (tag.phase, tag.progress, tag.image_id.as_str()),
        (ImagePullPhase::Succeeded, 100, "app@sha256:a")
    );
    assert_eq!(
        (tag.start_time, tag.completion_time),
        (Some(Time(at(1))), Some(Time(at(5))))
    );
    assert_eq!(tag.image_ids, ["sha256:a"]);
    assert_eq!((node.status.desired, node.status.succeeded), (1, 1));
}

#[test]
fn an_image_that_is_here_is_pulled_only_if_always() {
    let always = ImageTagSpec {
        image_pull_policy: Some(ImagePullPolicy::Always),
        ..entry("1")
    };
    for (tag, starts) in [(entry("1"), 0), (always, 1)] {
        let mut node = Node::new(spec(&[("app", tag)]));
        node.step(0);
        node.tasks
            .looked(&key("app", "1"), Some(resolved("sha256:a")), now(0));
        assert_eq!(node.step(0).start.len(), starts);
        assert_eq!(node.status.succeeded == 1, starts == 0);
    }
}

#[test]
fn a_failed_pull_is_tried_again_later_and_later_until_the_limit() {
    let mut node = Node::new(spec(&[("app", limited("1", 60, 2, None))]));
    let mut plan = node.begin(0);
    for (try_number, pause) in [(1, 1), (2, 2)] {
        node.tasks.ended(
            plan.start[0].attempt,
            Outcome::Failed("no such image".into()),
            now(try_number * 100),
        );
        plan = node.step(try_number * 100);
        assert_eq!(
            (plan.start.len(), plan.wake_at),
            (0, Some(steady(try_number * 100 + pause)))
        );
        let tag = node.tag("app", "1");
        assert_eq!(tag.phase, ImagePullPhase::Pulling);
        assert!(
            tag.message.contains(&format!("try {try_number} of 3"))
                && tag.message.contains("no such image"),
            "{tag:?}"
        );
        plan = node.step(try_number * 100 + pause);
        assert_eq!(plan.start.len(), 1);
    }
    node.tasks.ended(
        plan.start[0].attempt,
        Outcome::Failed("no such image".into()),
        now(300),
    );
    let plan = node.step(300);
    assert_eq!((plan.start.len(), plan.wake_at), (0, None));
    let tag = node.tag("app", "1");
    assert_eq!(
        (tag.phase, tag.message.as_str(), tag.completion_time),
        (ImagePullPhase::Failed, "no such image", Some(Time(at(300))))
    );
    assert_eq!(node.status.failed, 1);
}

#[test]
fn held_pull_does_not_count_against_the_limit() {
    let mut node = Node::new(spec(&[("app", limited("1", 60, 0, None))]));
    let mut plan = node.begin(0);
    for n in 1..20 {
        node.tasks.ended(
            plan.start[0].attempt,
            Outcome::Held("the controller is away".into()),
            now(n * 100),
        );
        node.step(n * 100);
        let tag = node.tag("app", "1");
        assert!(
            tag.phase == ImagePullPhase::Pulling && tag.message.contains("the controller is away"),
            "{tag:?}"
        );
        plan = node.step(n * 100 + 30);
        assert_eq!(plan.start.len(), 1, "30 s are the longest pause");
        assert_eq!(
            node.tag("app", "1").message,
            tag.message,
            "no write for every try"
        );
    }
    node.tasks.ended(
        plan.start[0].attempt,
        Outcome::Failed("no".into()),
        now(5000),
    );
    node.step(5000);
    assert_eq!(node.tag("app", "1").phase, ImagePullPhase::Failed);
}

#[test]
fn time_limits_hold() {
    // The limit of each try.
    let mut node = Node::new(spec(&[("app", limited("1", 10, 1, None))]));
    let plan = node.begin(0);
    node.tasks
        .progressed(plan.start[0].attempt, Bytes { done: 1, total: 9 }, now(1));
    assert!(node.step(9).cancel.is_empty());
    assert_eq!(node.step(10).cancel, [plan.start[0].attempt]);
    let message = node.tag("app", "1").message;
    assert!(
        message.contains("timeoutSeconds=10") && message.contains("1 of 9 bytes"),
        "{message}"
    );
    node.tasks.ended(
        plan.start[0].attempt,
        Outcome::Pulled(resolved("x")),
        now(10),
    );
    assert_eq!(
        node.step(10).start.len(),
        0,
        "a late answer of a cancelled try changes nothing"
    );
    // The deadline of all tries together, running or not.
    let mut node = Node::new(spec(&[("app", limited("1", 600, 9, Some(30)))]));
    let plan = node.begin(0);
    assert_eq!(plan.wake_at, Some(steady(30)));
    node.tasks.ended(
        plan.start[0].attempt,
        Outcome::Failed("no route".into()),
        now(29),
    );
    assert_eq!(node.step(29).wake_at, Some(steady(30)));
    let plan = node.step(30);
    assert_eq!((plan.start.len(), plan.wake_at), (0, None));
    let tag = node.tag("app", "1");
    assert_eq!(tag.phase, ImagePullPhase::Failed);
    assert!(
        tag.message.contains("activeDeadlineSeconds=30") && tag.message.contains("no route"),
        "{}",
        tag.message
    );
}

#[test]
fn changed_limits_hold_for_a_pull_under_way() {
    let limits = |node: &mut Node, timeout, backoff, deadline| {
        node.spec = spec(&[("app", limited("1", timeout, backoff, deadline))]);
    };
    let table = [
        // The change at second 50, after three failed tries, and when the pull ends.
        (
            "lower backoffLimit between tries",
            (600, 1, None),
            50,
            "3 tries failed, and backoffLimit=1 allows no more; last: no",
        ),
        (
            "backoffLimit that is reached",
            (600, 2, None),
            50,
            "3 tries failed, and backoffLimit=2 allows no more; last: no",
        ),
        (
            "lower timeoutSeconds of the next try",
            (10, 3, None),
            64,
            "not done within timeoutSeconds=10",
        ),
        (
            "shorter deadline",
            (600, 50, Some(55)),
            55,
            "not done within activeDeadlineSeconds=55; last: no",
        ),
        (
            "higher backoffLimit, then a timeout",
            (100, 3, None),
            154,
            "not done within timeoutSeconds=100",
        ),
    ];
    for (what, (timeout, backoff, deadline), end, says) in table {
        let mut node = Node::new(spec(&[("app", limited("1", 600, 50, None))]));
        let mut plan = node.begin(0);
        for second in [10, 30, 50] {
            node.tasks.ended(
                plan.start[0].attempt,
                Outcome::Failed("no".into()),
                now(second),
            );
            node.step(second);
            if second < 50 {
                plan = node.step(second + 5);
            }
        }
        limits(&mut node, timeout, backoff, deadline);
        for second in 50..=end {
            assert_eq!(
                node.tag("app", "1").phase,
                ImagePullPhase::Pulling,
                "{what}: at {second}"
            );
            node.step(second);
        }
        let tag = node.tag("app", "1");
        assert_eq!(
            (tag.phase, tag.message.as_str()),
            (ImagePullPhase::Failed, says),
            "{what}"
        );
    }
}

#[test]
fn raised_limits_extend_a_running_try() {
    let mut node = Node::new(spec(&[("app", limited("1", 10, 0, Some(20)))]));
    node.begin(0);
    node.spec = spec(&[("app", limited("1", 600, 0, Some(700)))]);
    let plan = node.step(9);
    assert_eq!((plan.cancel, plan.wake_at), (vec![], Some(steady(600))));
    assert!(node.step(599).cancel.is_empty());
    assert_eq!(node.step(600).cancel.len(), 1);
    assert_eq!(node.tag("app", "1").phase, ImagePullPhase::Failed);
}

#[test]
fn a_new_version_begins_anew_and_a_dropped_entry_is_dropped() {
    let mut node = Node::new(spec(&[("app", entry("1")), ("web", entry("1"))]));
    let plan = node.begin(0);
    let of = |image: &str| {
        plan.start
            .iter()
            .find(|s| s.key.image == image)
            .unwrap()
            .attempt
    };
    node.spec = spec(&[(
        "app",
        ImageTagSpec {
            version: 1,
            ..entry("1")
        },
    )]);
    let next = node.step(1);
    assert_eq!(next.look, [key("app", "1")]);
    let mut cancelled = next.cancel;
    cancelled.sort_unstable();
    let mut both = vec![of("app"), of("web")];
    both.sort_unstable();
    assert_eq!(cancelled, both);
    assert_eq!(node.status.image_statuses.len(), 1);
    let tag = node.tag("app", "1");
    assert_eq!(
        (tag.version, tag.phase, tag.start_time),
        (1, ImagePullPhase::Waiting, None)
    );
}

#[test]
fn restarted_daemon_resumes_from_the_status() {
    let done = |phase, version| ImageTagStatus {
        tag: "1".into(),
        phase,
        version,
        image_id: "app@sha256:a".into(),
        image_ids: vec!["sha256:a".into(), "sha256:b".into()],
        start_time: Some(Time(at(1))),
        completion_time: Some(Time(at(2))),
        message: if phase == ImagePullPhase::Failed {
            "no such image".into()
        } else {
            String::new()
        },
        ..ImageTagStatus::default()
    };
    let versioned = |version| ImageTagSpec {
        version,
        ..entry("1")
    };
    let asked_at = |second| ImageTagSpec {
        created_at: Some(Time(at(second))),
        ..entry("1")
    };
    let table = [
        (
            "over",
            done(ImagePullPhase::Succeeded, 0),
            entry("1"),
            ImagePullPhase::Succeeded,
        ),
        (
            "failed for good",
            done(ImagePullPhase::Failed, 0),
            entry("1"),
            ImagePullPhase::Failed,
        ),
        (
            "an older version",
            done(ImagePullPhase::Failed, 0),
            versioned(1),
            ImagePullPhase::Waiting,
        ),
        (
            "asked for before it ended",
            done(ImagePullPhase::Succeeded, 0),
            asked_at(0),
            ImagePullPhase::Succeeded,
        ),
        (
            "asked for again since",
            done(ImagePullPhase::Succeeded, 0),
            asked_at(3),
            ImagePullPhase::Waiting,
        ),
    ];
    for (what, before, tag, expected) in table {
        let mut node = Node::new(spec(&[("app", tag)]));
        node.status.image_statuses.insert(
            "app".into(),
            berth_api::v1beta1::nodeimage::ImageStatus {
                tags: vec![before.clone()],
            },
        );
        node.step(10);
        let now = node.tag("app", "1");
        assert_eq!(now.phase, expected, "{what}");
        if expected != ImagePullPhase::Waiting {
            assert_eq!(
                (now.image_id, now.completion_time, now.message),
                {
                    let id = if expected == ImagePullPhase::Failed {
                        String::new()
                    } else {
                        before.image_id
                    };
                    (id, before.completion_time, before.message)
                },
                "{what}"
            );
        }
    }
    // A pull that was under way keeps its start, because its deadline counts from there.
    let pulling = ImageTagStatus {
        completion_time: None,
        ..done(ImagePullPhase::Pulling, 0)
    };
    let mut node = Node::new(spec(&[("app", limited("1", 600, 3, Some(20)))]));
    node.status.image_statuses.insert(
        "app".into(),
        berth_api::v1beta1::nodeimage::ImageStatus {
            tags: vec![pulling],
        },
    );
    let plan = node.begin(10);
    assert_eq!((plan.start.len(), plan.wake_at), (1, Some(steady(21))));
}

#[test]
fn pulls_share_the_slots_and_tags_of_one_image_take_turns() {
    let old = |tag: &str, second| ImageTagSpec {
        created_at: Some(Time(at(second))),
        ..entry(tag)
    };
    let mut node = Node::new(spec(&[
        ("app", old("1", 5)),
        ("app", old("2", 1)),
        ("db", old("1", 9)),
        ("web", old("1", 7)),
    ]));
    let plan = node.begin(10);
    let started: Vec<&Key> = plan.start.iter().map(|s| &s.key).collect();
    assert_eq!(
        started,
        [&key("app", "2"), &key("web", "1")],
        "the oldest first, one of an image, two at once"
    );
    assert_eq!((node.status.pulling, node.status.waiting), (2, 2));
    node.tasks.ended(
        plan.start[0].attempt,
        Outcome::Pulled(resolved("x")),
        now(11),
    );
    assert_eq!(node.step(11).start[0].key, key("app", "1"));
}

#[test]
fn failed_look_is_retried_after_a_pause() {
    let mut node = Node::new(spec(&[("app", entry("1"))]));
    assert_eq!(node.step(0).look.len(), 1);
    node.tasks.not_looked(&key("app", "1"), now(0));
    let plan = node.step(0);
    assert_eq!((plan.look.len(), plan.wake_at), (0, Some(steady(1))));
    assert_eq!(node.step(1).look.len(), 1);
}

#[test]
fn nothing_begins_without_a_runtime() {
    let mut node = Node::new(spec(&[("app", entry("1"))]));
    let plan = node
        .tasks
        .step(&node.spec, &node.status, false, LIMITS, now(0));
    assert_eq!(plan, Plan::default());
    assert_eq!(node.begin(1).start.len(), 1);
}

#[test]
fn first_sync_is_reported_once() {
    let mut node = Node::new(spec(&[
        ("app", limited("1", 60, 0, None)),
        ("web", entry("1")),
    ]));
    let plan = node.begin(0);
    node.tasks
        .ended(plan.start[0].attempt, Outcome::Failed("no".into()), now(1));
    node.step(1);
    assert_eq!(node.status.first_sync_status, None);
    node.tasks.ended(
        plan.start[1].attempt,
        Outcome::Pulled(resolved("x")),
        now(2),
    );
    node.step(2);
    assert_eq!(node.status.first_sync_status, None, "more may be asked for");
    node.spec.first_pulls_listed = true;
    node.step(3);
    let first = node.status.first_sync_status.clone().unwrap();
    assert_eq!(
        (first.status, first.sync_at.clone()),
        (Some(SyncStatusPhase::Failed), Some(Time(at(3))))
    );
    assert!(
        first.message.contains("app:1") && !first.message.contains("web:1"),
        "{}",
        first.message
    );
    // Neither later pulls nor a new daemon change it.
    node.spec = NodeImageSpec {
        first_pulls_listed: true,
        ..spec(&[("web", entry("2"))])
    };
    node.tasks = Tasks::default();
    let plan = node.begin(4);
    node.tasks.ended(
        plan.start[0].attempt,
        Outcome::Pulled(resolved("y")),
        now(5),
    );
    node.step(5);
    assert_eq!(node.status.first_sync_status, Some(first));
}

#[test]
fn a_node_that_has_nothing_to_pull_is_done_when_that_is_known() {
    let mut node = Node::new(NodeImageSpec::default());
    node.step(0);
    assert_eq!(node.status.first_sync_status, None);
    node.spec.first_pulls_listed = true;
    node.step(1);
    let first = node.status.first_sync_status.unwrap();
    assert_eq!(
        (first.status, first.message.as_str()),
        (Some(SyncStatusPhase::Succeeded), "")
    );
}

#[test]
fn ids_follow_the_node() {
    let mut node = Node::new(spec(&[("app", entry("1"))]));
    node.step(0);
    node.tasks
        .looked(&key("app", "1"), Some(resolved("sha256:a")), now(0));
    assert!(node.step(0).look.is_empty());
    node.tasks.images_changed(now(0));
    let plan = node.step(0);
    assert_eq!(
        (plan.look.len(), plan.wake_at),
        (0, Some(steady(1))),
        "such news come in bursts"
    );
    node.tasks.images_changed(now(1));
    assert_eq!(
        node.step(1).look,
        [key("app", "1")],
        "more of them do not put it off"
    );
    node.tasks.looked(
        &key("app", "1"),
        Some(Resolved {
            bytes: None,
            ..resolved("sha256:b")
        }),
        now(1),
    );
    node.step(1);
    let tag = node.tag("app", "1");
    assert_eq!(
        (tag.image_ids, tag.bytes_total),
        (vec!["sha256:b".to_owned()], Some(100))
    );
    node.tasks.images_changed(now(2));
    assert_eq!(node.step(3).look.len(), 1);
    node.tasks.looked(&key("app", "1"), None, now(3));
    node.step(3);
    let tag = node.tag("app", "1");
    assert_eq!(
        (tag.phase, tag.image_ids.len()),
        (ImagePullPhase::Succeeded, 0),
        "pulled, and removed since"
    );
}

#[test]
fn long_messages_are_cut_at_a_character() {
    let cut = shortened("ä".repeat(MESSAGE_MAX), MESSAGE_MAX);
    assert!(cut.len() <= MESSAGE_MAX + '…'.len_utf8() && cut.ends_with('…'));
    assert_eq!(shortened("short".into(), MESSAGE_MAX), "short");
}

const NAMESPACES: [&str; 3] = ["a", "b", "c"];

/// An event on a node.
#[derive(Debug, Clone)]
enum Happening {
    Wait(i64),
    /// By how many hours the time of day is wrong from now on.
    Set(i64),
    Spec(Vec<(u8, u8, i64)>),
    Looked(bool),
    NotLooked,
    ImagesChanged,
    Progressed(usize, u64),
    Ended(usize, u8),
    Runtime(bool),
    Restart,
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        3 => (0i64..700).prop_map(Happening::Wait),
        1 => (-30i64..30).prop_map(Happening::Set),
        1 => proptest::collection::vec((0u8..3, 0u8..3, 0i64..2), 0..6).prop_map(Happening::Spec),
        4 => any::<bool>().prop_map(Happening::Looked),
        1 => Just(Happening::NotLooked),
        1 => Just(Happening::ImagesChanged),
        2 => (any::<usize>(), 0u64..9).prop_map(|(which, done)| Happening::Progressed(which, done)),
        4 => (any::<usize>(), 0u8..3).prop_map(|(which, how)| Happening::Ended(which, how)),
        1 => any::<bool>().prop_map(Happening::Runtime),
        1 => Just(Happening::Restart),
    ]
}

proptest! {
    /// For any events in any order: bounds hold, counts add up, a finished task stays finished, and
    /// each unfinished task has an event or a time that continues it.
    #[test]
    fn invariants_hold(happenings in proptest::collection::vec(happening(), 1..60)) {
        let mut node = Node::new(NodeImageSpec::default());
        let (mut second, mut hours, mut ready) = (0, 0, true);
        let mut running: Vec<Start> = Vec::new();
        let mut looks: Vec<Key> = Vec::new();
        for happening in happenings {
            match happening {
                Happening::Wait(seconds) => second += seconds,
                Happening::Set(wrong) => hours = wrong,
                Happening::Spec(entries) => {
                    let entries: Vec<(String, ImageTagSpec)> = entries.iter()
                        .map(|(image, tag, version)| (image.to_string(), ImageTagSpec { version: *version, ..turns::owned(&[NAMESPACES[usize::from(image + tag) % 3]], limited(&tag.to_string(), 300, 1, Some(900))) }))
                        .collect();
                    let entries: Vec<(&str, ImageTagSpec)> = entries.iter().map(|(i, t)| (i.as_str(), t.clone())).collect();
                    node.spec = spec(&entries);
                }
                Happening::Looked(here) => for key in looks.drain(..) {
                    node.tasks.looked(&key, here.then(|| resolved("sha256:x")), set(second, hours));
                },
                Happening::NotLooked => for key in looks.drain(..) {
                    node.tasks.not_looked(&key, set(second, hours));
                },
                Happening::ImagesChanged => node.tasks.images_changed(set(second, hours)),
                Happening::Ended(which, how) if !running.is_empty() => {
                    let start = running.remove(which % running.len());
                    node.tasks.ended(start.attempt, match how {
                        0 => Outcome::Pulled(resolved("sha256:y")),
                        1 => Outcome::Failed("failed".into()),
                        _ => Outcome::Held("held".into()),
                    }, set(second, hours));
                }
                Happening::Progressed(which, done) if !running.is_empty() => {
                    let attempt = running[which % running.len()].attempt;
                    node.tasks.progressed(attempt, Bytes { done, total: done.min(1) * 9 }, set(second, hours));
                }
                Happening::Ended(..) | Happening::Progressed(..) => {}
                Happening::Runtime(now) => ready = now,
                Happening::Restart => {
                    node.tasks = Tasks::default();
                    running.clear();
                    looks.clear();
                }
            }
            let over = |status: &NodeImageStatus| -> Vec<(String, ImageTagStatus)> {
                status.image_statuses.iter()
                    .flat_map(|(image, of)| of.tags.iter().map(move |t| (image.clone(), t.clone())))
                    .filter(|(_, t)| t.completion_time.is_some()).collect()
            };
            let before = node.status.clone();
            let plan = node.tasks.step(&node.spec, &before, ready, LIMITS, set(second, hours));
            let status = node.tasks.status();
            running.retain(|start| !plan.cancel.contains(&start.attempt));
            running.extend(plan.start.iter().cloned());
            looks.extend(plan.look.iter().cloned());

            prop_assert!(running.len() <= LIMITS.parallel);
            prop_assert_eq!(running.len(), node.tasks.under_way());
            let mut images: Vec<&String> = running.iter().map(|s| &s.key.image).collect();
            images.sort();
            images.dedup();
            prop_assert_eq!(images.len(), running.len(), "one pull of an image at once");
            prop_assert!(ready || (plan.start.is_empty() && plan.look.is_empty()));
            if ready {
                let share = |wanted: &str| node.tasks.tasks.values().filter(|task| matches!(&task.state, State::Running(r) if r.namespace == wanted)).count();
                for (key, task) in &node.tasks.tasks {
                    let due = matches!(&task.state, State::Absent { not_before } if not_before.is_none_or(|at| at.steady <= steady(second)));
                    for other in node.tasks.tasks.values().filter(|_| due && !images.contains(&&key.image)) {
                        let State::Running(other) = &other.state else { continue };
                        let least = task.namespaces.iter().map(|namespace| share(namespace)).min().unwrap_or_default();
                        let turn = other.since + Duration::from_secs(60) > steady(second);
                        prop_assert!(turn || share(&other.namespace) < least + 2, "{key:?} waits for {other:?}");
                    }
                }
            }
            let entries = super::step::entries(&node.spec);
            prop_assert_eq!(status.desired as usize, entries.len());
            prop_assert_eq!(status.desired, status.succeeded + status.failed + status.pulling + status.waiting);
            if let Some(wake) = plan.wake_at {
                prop_assert!(wake > steady(second), "a wake in the past would spin");
            }
            for (image, tag) in over(&before) {
                let same = entries.get(&Key { image: image.clone(), tag: tag.tag.clone() }).is_some_and(|e| e.version == tag.version);
                let now = status.image_statuses.get(&image).and_then(|of| of.tags.iter().find(|t| t.tag == tag.tag));
                prop_assert!(!same || now.is_some_and(|n| n.phase == tag.phase && n.completion_time == tag.completion_time), "{tag:?} became {now:?}");
            }
            let open = status.pulling + status.waiting;
            let goes_on = !running.is_empty() || !looks.is_empty() || plan.wake_at.is_some();
            prop_assert!(open == 0 || !ready || goes_on, "{open} pulls are stuck");
            node.status = status;
        }
    }
}
