//! Tests of decisions about jobs, in a small world.

mod asking;
mod spec;

use std::sync::Arc;

use berth_api::v1beta1::nodeimage::MAX_IMAGES;
use berth_workload::objects::pod::Pod;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::simulation::{Daemon, World};
use super::{MAX_FAILED_NODES, concerns, concerns_pod};

fn pod(name: &str, node: &str, app: &str, phase: &str) -> Arc<Pod> {
    let pod = json!({
        "metadata": {"namespace": "default", "name": name, "uid": name, "labels": {"app": app}},
        "spec": {"nodeName": node}, "status": {"phase": phase},
    });
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn numbers(world: &World, job: &str) -> [i32; 4] {
    let status = world.status(job);
    [
        status.desired,
        status.active,
        status.succeeded,
        status.failed,
    ]
}

#[test]
fn parallelism_limits_nodes_that_pull() {
    for (parallelism, at_once) in [
        (json!(null), 1),
        (json!(2), 2),
        (json!(9), 5),
        (json!("40%"), 2),
        (json!("41%"), 3),
        (json!("1%"), 1),
        (json!("100%"), 5),
        (json!(0), 0),
        (json!("0%"), 0),
    ] {
        let mut world = World::new(5);
        world.create("job", &json!({"parallelism": parallelism}));
        world.step("job");
        assert_eq!(world.active("job"), at_once, "{parallelism}");
        assert_eq!(
            numbers(&world, "job"),
            [5, i32::try_from(at_once).unwrap(), 0, 0],
            "counted in the same round"
        );
        world.step("job");
        assert_eq!(
            world.active("job"),
            at_once,
            "{parallelism}: nothing more before one is done"
        );
        world.run(20);
        let status = world.status("job");
        assert_eq!(
            status.completion_time.is_some(),
            at_once > 0,
            "{parallelism}"
        );
        let says = if at_once > 0 {
            "5 of 5 nodes have the image; completed"
        } else {
            "paused by parallelism 0"
        };
        assert!(status.message.contains(says), "{}", status.message);
    }
}

/// The clock of the controller that began the job was ahead.
#[test]
fn longest_deadline_from_future_start_does_not_panic() {
    let mut world = World::new(1);
    world.create(
        "job",
        &json!({"completionPolicy": {"type": "Always", "activeDeadlineSeconds": i64::MAX}}),
    );
    world.step("job");
    let mut snapshot = world.snapshot("job");
    let job = Arc::make_mut(&mut snapshot.job);
    job.status.get_or_insert_default().start_time = Some(Time(Timestamp::MAX));
    assert!(
        super::decide(&snapshot, Timestamp::UNIX_EPOCH)
            .look_again
            .is_some_and(|wait| wait.is_positive())
    );
}

#[test]
fn failed_nodes_are_named_with_one_event_each() {
    let mut world = World::new(5);
    for node in ["n3", "n1"] {
        world.daemons.insert(node.to_owned(), Daemon::Fails);
    }
    world.create("job", &json!({"parallelism": 5}));
    world.run(10);
    let status = world.status("job");
    assert_eq!(numbers(&world, "job"), [5, 0, 3, 2]);
    assert_eq!(status.failed_nodes, ["n1", "n3"]);
    assert!(status.completion_time.is_some());
    assert_eq!(
        world.events,
        [
            "PullImageFailed: node n1 failed to pull image app, tag 1: no such image",
            "PullImageFailed: node n3 failed to pull image app, tag 1: no such image",
            "Completed: 3 of 5 nodes have app:1",
        ]
    );
}

#[test]
fn many_failures_send_five_events_at_most() {
    let mut world = World::new(8);
    world
        .daemons
        .values_mut()
        .for_each(|daemon| *daemon = Daemon::Fails);
    world.create("job", &json!({"parallelism": 8}));
    world.run(10);
    assert_eq!(world.events.len(), 5, "{:?}", world.events);
    assert!(
        world.events[3].contains("5 more nodes failed"),
        "{:?}",
        world.events
    );
}

#[test]
fn the_list_of_failed_nodes_is_bounded() {
    let nodes = MAX_FAILED_NODES + 10;
    let mut world = World::new(nodes);
    world
        .daemons
        .values_mut()
        .for_each(|daemon| *daemon = Daemon::Fails);
    world.create("job", &json!({"parallelism": "100%"}));
    for _ in 0..4 {
        world.step("job");
        world.run_daemons();
    }
    let status = world.status("job");
    assert_eq!(status.failed_nodes.len(), MAX_FAILED_NODES);
    assert_eq!(usize::try_from(status.failed).unwrap(), nodes);
    assert!(status.failed_nodes.is_sorted());
}

#[test]
fn a_deadline_ends_the_job_and_its_pulls() {
    let mut world = World::new(4);
    for node in ["n1", "n2"] {
        world.daemons.insert(node.to_owned(), Daemon::Silent);
    }
    world.create(
        "job",
        &json!({"parallelism": 1, "completionPolicy": {"activeDeadlineSeconds": 30}}),
    );
    world.step("job");
    let plan = world.plan("job");
    assert_eq!(plan.look_again.unwrap().as_secs(), 30);
    world.run(40);
    let status = world.status("job");
    assert_eq!(numbers(&world, "job"), [4, 0, 2, 2], "{}", status.message);
    assert_eq!(
        status.failed_nodes,
        ["n1", "n2"],
        "the one that was asked, and the one that was not"
    );
    assert!(
        status.message.contains("ended by activeDeadlineSeconds"),
        "{}",
        status.message
    );
    assert!(
        world
            .events
            .iter()
            .any(|event| event.starts_with("DeadlineExceeded")),
        "{:?}",
        world.events
    );
    assert_eq!(
        world.entries(),
        ["n0 app:1 0", "n3 app:1 0"],
        "what is over stays to be looked at, the rest is gone"
    );
    assert_eq!(
        world.job("job").metadata.finalizers.as_deref(),
        Some(&[][..]),
        "nothing is left to clean up"
    );
}

#[test]
fn finished_job_is_deleted_after_its_ttl() {
    let mut world = World::new(1);
    world.create(
        "job",
        &json!({"completionPolicy": {"ttlSecondsAfterFinished": 60}}),
    );
    world.run(10);
    let plan = world.step("job");
    let left = plan.look_again.unwrap().as_secs();
    assert!((50..60).contains(&left), "{left}");
    world.pass(left);
    world.step("job");
    assert!(!world.exists("job"));
    world.tend_nodes();
    assert_eq!(world.entries(), Vec::<String>::new());
}

#[test]
fn entries_stay_until_their_job_has_ended() {
    let mut world = World::new(2);
    world.daemons.insert("n1".to_owned(), Daemon::Silent);
    world.create(
        "job",
        &json!({"parallelism": 1, "completionPolicy": {"ttlSecondsAfterFinished": 100000}}),
    );
    world.run(5);
    world.pass(300_000);
    world.tend_nodes();
    assert_eq!(world.entries().len(), 2, "the job still counts what n0 has");
    world.run(5);
    assert_eq!(
        numbers(&world, "job"),
        [2, 0, 1, 1],
        "n1 has been silent for too long"
    );
    assert_eq!(world.entries(), Vec::<String>::new());
}

#[test]
fn endless_job_serves_new_nodes_and_pulls_daily() {
    let mut world = World::new(2);
    world.create("job", &json!({"completionPolicy": {"type": "Never"}}));
    world.run(10);
    assert_eq!(numbers(&world, "job"), [2, 0, 2, 0]);
    let status = world.status("job");
    assert_eq!(status.completion_time, None);
    assert!(
        status.message.contains("nodes that join"),
        "{}",
        status.message
    );
    world.join("n2", json!({}));
    world.run(5);
    assert_eq!(numbers(&world, "job"), [3, 0, 3, 0]);
    let before = world.node("n0");
    world.pass(25 * 3600);
    world.run(20);
    assert_eq!(numbers(&world, "job"), [3, 0, 3, 0]);
    let created = |node: &berth_workload::objects::node::image::NodeImage| {
        node.spec.images["app"].tags[0].created_at.clone()
    };
    assert!(
        created(&world.node("n0")) > created(&before),
        "pulled again"
    );
}

#[test]
fn second_job_pulls_image_again() {
    let mut world = World::new(1);
    world.create("first", &json!({}));
    world.run(5);
    assert_eq!(world.entries(), ["n0 app:1 0"]);
    world.create("second", &json!({}));
    world.step("second");
    assert_eq!(world.entries(), ["n0 app:1 1"], "another round");
    assert_eq!(
        numbers(&world, "second"),
        [1, 1, 0, 0],
        "the status of the first round says nothing about it"
    );
    world.create("third", &json!({"pullPolicy": {"timeoutSeconds": 3500}}));
    world.step("third");
    assert_eq!(
        world.entries(),
        ["n0 app:1 1"],
        "the pull under way serves the third, too"
    );
    let node = world.node("n0");
    let entry = &node.spec.images["app"].tags[0];
    assert_eq!(entry.owner_references.len(), 3);
    assert_eq!(
        entry.pull_policy.as_ref().unwrap().timeout_seconds,
        Some(3500),
        "the entry has the longest timeout of its jobs"
    );
    world.create("fourth", &json!({"imagePullPolicy": "Always"}));
    world.step("fourth");
    assert_eq!(
        world.entries(),
        ["n0 app:1 2"],
        "the registry is to be asked again"
    );
    world.run(5);
    for job in ["second", "third", "fourth"] {
        assert_eq!(numbers(&world, job), [1, 0, 1, 0], "{job}");
    }
}

#[test]
fn pull_limits_follow_the_jobs_that_are_there() {
    let mut world = World::new(2);
    world
        .daemons
        .values_mut()
        .for_each(|daemon| *daemon = Daemon::Silent);
    let limits =
        |timeout: i32, backoff: i32| json!({"timeoutSeconds": timeout, "backoffLimit": backoff});
    let of_nodes = |world: &mut World| {
        world.tend_nodes();
        let before = world
            .names()
            .iter()
            .map(|node| world.node(node))
            .collect::<Vec<_>>();
        world.tend_nodes();
        let after = world
            .names()
            .iter()
            .map(|node| world.node(node))
            .collect::<Vec<_>>();
        assert_eq!(before, after, "one write is enough");
        let limits = after
            .iter()
            .map(|node| node.spec.images["app"].tags[0].pull_policy.clone().unwrap());
        let limits = limits.map(|limits| {
            (
                limits.timeout_seconds,
                limits.backoff_limit,
                limits.active_deadline_seconds,
            )
        });
        let [one, other] = limits.collect::<Vec<_>>()[..] else {
            panic!("two nodes")
        };
        assert_eq!(one, other);
        (one.0.unwrap(), one.1.unwrap(), one.2)
    };
    world.create(
        "j",
        &json!({"parallelism": 2, "pullPolicy": limits(600, 50)}),
    );
    world.create(
        "j2",
        &json!({"parallelism": 2, "pullPolicy": limits(10, 1)}),
    );
    world.step("j");
    world.step("j2");
    assert_eq!(of_nodes(&mut world), (600, 50, None));
    world.delete("j");
    world.step("j");
    assert_eq!(of_nodes(&mut world), (10, 1, None));
    world.edit(
        "j2",
        &json!({"pullPolicy": limits(20, 7), "completionPolicy": {"activeDeadlineSeconds": 500}}),
    );
    assert_eq!(of_nodes(&mut world), (20, 7, Some(500)));
    world.edit(
        "j2",
        &json!({"pullPolicy": limits(5, 0), "completionPolicy": {"activeDeadlineSeconds": null}}),
    );
    assert_eq!(of_nodes(&mut world), (5, 0, None));
}

#[test]
fn report_of_earlier_version_does_not_count() {
    let mut world = World::new(1);
    world.create("job", &json!({}));
    world.run(5);
    world.delete("job");
    world.tend_nodes();
    assert_eq!(world.entries(), Vec::<String>::new());
    world.create("job", &json!({}));
    world.step("job");
    assert_eq!(
        world.entries(),
        ["n0 app:1 1"],
        "the daemon still says that version 0 succeeded"
    );
    assert_eq!(numbers(&world, "job"), [1, 1, 0, 0]);
}

#[test]
fn deleted_job_removes_only_its_own_entries() {
    let mut world = World::new(2);
    let mine = json!({"images": {"own": {"tags": [{"tag": "1"}]}, "app": {
        "pullSecrets": [{"namespace": "mine", "name": "s"}], "tags": [{"tag": "1"}, {"tag": "2"}],
    }}});
    world.edit_node("n0", |node| node["spec"] = mine.clone());
    world.create("job", &json!({"parallelism": 2, "pullSecrets": ["a"]}));
    world.create(
        "other",
        &json!({"parallelism": 2, "pullSecrets": ["b"], "image": "app:3"}),
    );
    world.step("job");
    world.step("other");
    assert!(world.job("job").metadata.finalizers.is_some());
    world.delete("job");
    assert!(world.exists("job"), "the finalizer holds it");
    world.step("job");
    assert!(!world.exists("job"));
    let expected = [
        "n0 app:1 0",
        "n0 app:2 0",
        "n0 app:3 0",
        "n0 own:1 0",
        "n1 app:3 0",
    ];
    assert_eq!(
        world.entries(),
        expected,
        "what was put in by hand stays, and what another job wants"
    );
    world.delete("other");
    world.step("other");
    assert_eq!(world.entries(), ["n0 app:1 0", "n0 app:2 0", "n0 own:1 0"]);
    let secrets = &world.node("n0").spec.images["app"].pull_secrets;
    assert_eq!(
        secrets.len(),
        1,
        "secrets go with those who brought them: {secrets:?}"
    );
    assert_eq!(secrets[0].namespace, "mine");
    world.tend_nodes();
    assert_eq!(world.entries().len(), 3);
}

#[test]
fn entries_of_deleted_jobs_leave_in_one_write() {
    let mut world = World::new(1);
    for name in ["a", "b", "c", "stays"] {
        world.create(name, &json!({"image": format!("{name}:1")}));
        world.step(name);
    }
    for name in ["a", "b", "c"] {
        world.delete(name);
    }
    world.step("b");
    assert_eq!(world.entries(), ["n0 stays:1 0"]);
    let patches = |plan: &berth_workload::plan::Plan| {
        plan.stages
            .iter()
            .filter(|stage| stage.name == "drop entries")
            .count()
    };
    for name in ["a", "c"] {
        assert!(world.exists(name), "its finalizer is its own to take off");
        assert_eq!(
            patches(&world.step(name)),
            0,
            "{name} has nothing left to drop"
        );
        assert!(!world.exists(name));
    }
}

#[test]
fn conflict_is_retried_for_the_changed_node() {
    let mut world = World::new(2);
    world.create("job", &json!({"parallelism": 2}));
    let old = world.snapshot("job");
    world.run_daemon("n1");
    world.act(&old);
    assert_eq!(world.active("job"), 1, "n1 has changed since");
    assert_eq!(numbers(&world, "job"), [2, 1, 0, 0]);
    world.run(10);
    assert_eq!(numbers(&world, "job"), [2, 0, 2, 0]);
}

#[test]
fn a_job_stays_until_every_entry_is_gone() {
    let mut world = World::new(2);
    world.create("job", &json!({"parallelism": 2}));
    world.step("job");
    world.delete("job");
    let old = world.snapshot("job");
    world.run_daemon("n1");
    world.act(&old);
    assert_eq!(world.entries(), ["n1 app:1 0"], "n1 has changed since");
    assert!(world.exists("job"));
    world.step("job");
    assert_eq!(world.entries(), Vec::<String>::new());
    assert!(!world.exists("job"));
}

#[test]
fn job_without_finalizer_requests_no_pull() {
    let mut world = World::new(2);
    world.create("job", &json!({"parallelism": 2}));
    let old = world.snapshot("job");
    world.edit("job", &json!({"parallelism": 1}));
    world.act(&old);
    assert_eq!(world.active("job"), 0);
    assert_eq!(numbers(&world, "job"), [2, 0, 0, 0]);
}

#[test]
fn another_image_or_other_nodes_leave_no_old_entries() {
    let mut world = World::new(3);
    world.create("job", &json!({"parallelism": 1}));
    world.run(3);
    world.edit("job", &json!({"image": "app:2"}));
    world.step("job");
    assert_eq!(
        world.entries(),
        Vec::<String>::new(),
        "the next node gets its entry when the old entries are gone"
    );
    world.step("job");
    assert_eq!(world.active("job"), 1);
    world.run(15);
    assert_eq!(world.entries(), ["n0 app:2 0", "n1 app:2 0", "n2 app:2 0"]);
    assert_eq!(numbers(&world, "job"), [3, 0, 3, 0]);

    let mut world = World::new(3);
    world.create("job", &json!({"parallelism": 9}));
    world.step("job");
    world.edit("job", &json!({"image": "app:2"}));
    world.step("job");
    assert_eq!(world.active("job"), 0, "one patch per node and round");
    world.edit("job", &json!({"image": "app:1"}));
    world.step("job");
    world.edit("job", &json!({"selector": {"names": ["n1"]}}));
    world.step("job");
    assert_eq!(world.entries(), ["n1 app:1 0"]);
}

#[test]
fn silent_daemon_comes_last_and_fails() {
    let mut world = World::new(3);
    world.daemons.insert("n0".to_owned(), Daemon::Silent);
    world.run_daemons();
    world.create("job", &json!({}));
    world.run(10);
    assert_eq!(
        numbers(&world, "job"),
        [3, 1, 2, 0],
        "those whose daemons speak come first"
    );
    let left = world.plan("job").look_again.unwrap().as_secs();
    assert!((500..600).contains(&left), "{left}");
    world.pass(left);
    world.run(2);
    assert_eq!(numbers(&world, "job"), [3, 0, 2, 1]);
    assert!(
        world
            .events
            .iter()
            .any(|event| event.contains("is it running there?")),
        "{:?}",
        world.events
    );
    assert!(
        world.entries().iter().all(|entry| !entry.starts_with("n0")),
        "the node of the silent daemon has no entry left"
    );
}

#[test]
fn job_waits_for_full_nodeimage_and_names_it() {
    let mut world = World::new(2);
    let images: serde_json::Map<String, Value> = (0..MAX_IMAGES)
        .map(|n| (format!("i{n}"), json!({"tags": [{"tag": "1"}]})))
        .collect();
    world.edit_node("n0", |node| node["spec"]["images"] = Value::Object(images));
    world.create("job", &json!({}));
    world.run(5);
    assert_eq!(numbers(&world, "job"), [2, 0, 1, 0]);
    let message = world.status("job").message;
    assert!(
        message.contains("no more images fit into NodeImage n0"),
        "{message}"
    );
    let before = world.node("n0");
    world.edit_node("n0", |node| {
        drop(node["spec"]["images"].as_object_mut().unwrap().remove("i0"))
    });
    assert!(concerns(
        &world.job("job"),
        Some(&before),
        Some(&world.node("n0"))
    ));
    world.run(5);
    assert_eq!(numbers(&world, "job"), [2, 0, 2, 0]);
}

#[test]
fn namespace_with_its_share_of_nodeimage_is_named() {
    let mut world = World::new(1);
    let owner = json!([{"kind": "ImagePullJob", "namespace": "default", "uid": "other"}]);
    let images: serde_json::Map<String, Value> = (0..128)
        .map(|n| {
            (
                format!("i{n}"),
                json!({"tags": [{"tag": "1", "ownerReferences": owner}]}),
            )
        })
        .collect();
    world.edit_node("n0", |node| node["spec"]["images"] = Value::Object(images));
    world.create("job", &json!({}));
    world.run(5);
    assert_eq!(numbers(&world, "job"), [1, 0, 0, 0]);
    let (message, says) = (
        world.status("job").message,
        "namespace default has its share of the images of NodeImage n0",
    );
    assert!(message.contains(says), "{message}");
    assert!(
        world
            .plan("job")
            .waiting
            .iter()
            .any(|waiting| waiting.reason.contains(says))
    );
    let before = world.node("n0");
    world.edit_node("n0", |node| {
        drop(node["spec"]["images"].as_object_mut().unwrap().remove("i0"))
    });
    assert!(concerns(
        &world.job("job"),
        Some(&before),
        Some(&world.node("n0"))
    ));
    world.run(5);
    assert_eq!(numbers(&world, "job"), [1, 0, 1, 0]);
}

#[test]
fn only_phase_version_and_labels_wake_a_job() {
    let mut world = World::new(1);
    world.create("job", &json!({}));
    world.step("job");
    let changes: [(&str, bool); 6] = [
        ("/status/imageStatuses/app/tags/0/progress", false),
        ("/status/imageStatuses/app/tags/0/phase", true),
        ("/status/imageStatuses/app/tags/0/version", true),
        ("/spec/images/app/tags/0/version", true),
        ("/metadata/labels/number", true),
        ("/spec/images/other", false),
    ];
    world.run_daemon("n0");
    let job = world.job("job");
    for (path, wakes) in changes {
        let before = world.node("n0");
        world.edit_node("n0", |node| {
            let (parent, field) = path.rsplit_once('/').unwrap();
            node.pointer_mut(parent).unwrap()[field] = match field {
                "other" => json!({"tags": []}),
                "number" => json!("x"),
                "phase" => json!("Failed"),
                _ => json!(7),
            };
        });
        assert_eq!(
            concerns(&job, Some(&before), Some(&world.node("n0"))),
            wakes,
            "{path}"
        );
    }
    let node = world.node("n0");
    assert!(concerns(&job, None, Some(&node)) && concerns(&job, Some(&node), None));
    world.edit(
        "job",
        &json!({"podSelector": {"matchLabels": {"app": "web"}}}),
    );
    let job = world.job("job");
    let (a, b) = (
        pod("a", "n0", "web", "Running"),
        pod("a", "n0", "web", "Failed"),
    );
    let (pending, other) = (
        pod("a", "", "web", "Pending"),
        pod("a", "n0", "db", "Running"),
    );
    for (old, new, wakes) in [
        (&a, &a, false),
        (&a, &b, true),
        (&pending, &a, true),
        (&a, &other, true),
    ] {
        assert_eq!(
            concerns_pod(&job, Some(old), Some(new)),
            wakes,
            "{old:?} -> {new:?}"
        );
    }
    assert!(concerns_pod(&job, Some(&a), None) && !concerns_pod(&job, None, Some(&other)));
    world.edit("job", &json!({"podSelector": null}));
    world.run(10);
    assert!(
        !concerns(&world.job("job"), None, Some(&node)),
        "it has ended"
    );
}
