//! The meaning of the fields of a job's spec.

use berth_api::v1beta1::nodeimage::ImageTagPullPolicy;
use serde_json::json;

use super::{numbers, pod};
use crate::imagepulljob::simulation::World;
use crate::imagepulljob::{needs_pods, validate};

#[test]
fn unreadable_node_image_keeps_the_job_going() {
    let says = "; NodeImage n9 cannot be read: delete it, so that it is made anew";
    for (spec, unreadable, desired) in [
        (json!({}), "n9", 3),
        (json!({"selector": {"names": ["n1", "n9"]}}), "n9", 2),
        (
            json!({"selector": {"matchLabels": {"number": "1"}}}),
            "n9",
            2,
        ),
        (json!({"selector": {"names": ["n1"]}}), "n9", 1),
        (
            json!({"podSelector": {"matchLabels": {"app": "web"}}}),
            "n9",
            0,
        ),
        // The last readable labels stay in force.
        (json!({}), "n1", 2),
    ] {
        let mut world = World::new(2);
        world.unreadable = vec![unreadable.to_owned()];
        world.create("job", &spec);
        world.edit("job", &json!({"parallelism": 9}));
        world.run(10);
        let counts = unreadable == "n9" && desired > 1;
        let status = world.status("job");
        assert_eq!(
            (status.desired, status.completion_time.is_none()),
            (desired, counts),
            "{spec} {unreadable}"
        );
        assert_eq!(
            status.message.contains(says),
            counts,
            "{spec}: {}",
            status.message
        );
        assert!(
            !status.message.contains("there is no NodeImage n"),
            "{}",
            status.message
        );
    }
}

#[test]
fn nodes_are_chosen() {
    let table = [
        (json!({}), 4),
        (json!({"selector": {}}), 4),
        (json!({"selector": {"names": ["n1", "n3"]}}), 2),
        (json!({"selector": {"names": ["n1", "n9"]}}), 1),
        (json!({"selector": {"matchLabels": {"number": "2"}}}), 1),
        (
            json!({"selector": {"matchExpressions": [{"key": "number", "operator": "NotIn", "values": ["2"]}]}}),
            3,
        ),
        (json!({"selector": {"matchLabels": {"number": "7"}}}), 0),
        (json!({"podSelector": {"matchLabels": {"app": "web"}}}), 2),
        (json!({"podSelector": {}}), 3),
    ];
    for (spec, desired) in table {
        let mut world = World::new(4);
        world.pods = vec![
            pod("a", "n0", "web", "Running"),
            pod("b", "n0", "web", "Pending"),
            pod("c", "n1", "web", "Running"),
            pod("d", "n2", "web", "Succeeded"),
            pod("e", "n3", "db", "Running"),
            pod("f", "", "web", "Pending"),
        ];
        world.create("job", &spec);
        assert_eq!(
            needs_pods(&world.job("job")),
            spec["podSelector"].is_object()
        );
        world.run(10);
        assert_eq!(numbers(&world, "job"), [desired, 0, desired, 0], "{spec}");
        assert!(world.status("job").completion_time.is_some(), "{spec}");
    }
}

#[test]
fn message_names_nodes_without_nodeimage() {
    let mut world = World::new(1);
    world.create(
        "job",
        &json!({"selector": {"names": ["n0", "x1", "x2", "x3", "x4"]}}),
    );
    world.run(5);
    let message = world.status("job").message;
    assert_eq!(
        message,
        "1 of 1 nodes have the image; completed; there is no NodeImage x1, x2, x3 and 1 more"
    );
}

#[test]
fn a_job_without_nodes_completes_and_says_so() {
    let names = json!({"selector": {"names": ["x1"]}});
    let pods = json!({"podSelector": {"matchLabels": {"app": "none"}}});
    let table = [
        (
            1,
            json!({"selector": {"matchLabels": {"number": "7"}}}),
            "selector matches no node",
            "",
        ),
        (
            1,
            names,
            "selector matches no node",
            "; there is no NodeImage x1",
        ),
        (1, pods, "podSelector matches no pod on a node", ""),
        (0, json!({}), "there is no NodeImage", ""),
    ];
    for (nodes, spec, why, more) in table {
        let mut world = World::new(nodes);
        world.create("job", &spec);
        world.run(2);
        let status = world.status("job");
        assert!(status.completion_time.is_some(), "{spec}");
        assert_eq!(status.message, format!("{why}; completed{more}"), "{spec}");
        let told = format!(
            "NoNodes: {why}: the job has completed, and no node pulls app:1; create another job"
        );
        assert_eq!(world.events, [told], "{spec}");
    }
    let mut world = World::new(1);
    let never = json!({"selector": {"matchLabels": {"number": "7"}}, "completionPolicy": {"type": "Never"}});
    world.create("job", &never);
    world.run(2);
    assert_eq!(
        world.status("job").message,
        "selector matches no node; nodes that join pull it, too"
    );
    assert!(world.events.is_empty(), "it goes on: {:?}", world.events);
    world.join("n7", json!({"number": "7"}));
    world.run(3);
    assert_eq!(
        world.status("job").message,
        "1 of 1 nodes have the image; nodes that join pull it, too"
    );
}

#[test]
fn invalid_spec_is_refused_once_with_field() {
    let digest = json!({"image": "app@sha256:1"});
    for (spec, says) in [
        (digest, "spec.image: \"app@sha256:1\" is no image reference"),
        (
            json!({"parallelism": -1}),
            "spec.parallelism: -1 is negative",
        ),
        (
            json!({"parallelism": "many"}),
            "spec.parallelism: \"many\" is not a percentage",
        ),
        (
            json!({"selector": {}, "podSelector": {}}),
            "spec.podSelector: is set and so is selector",
        ),
        (
            json!({"selector": {"names": ["a"], "matchLabels": {"a": "b"}}}),
            "spec.selector: has names and labels",
        ),
        (
            json!({"selector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}),
            "spec.selector: operator",
        ),
        (
            json!({"podSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}),
            "spec.podSelector: the",
        ),
        (
            json!({"completionPolicy": {"type": "Never", "activeDeadlineSeconds": 9}}),
            "spec.completionPolicy: has",
        ),
        (
            json!({"completionPolicy": {"activeDeadlineSeconds": 0}}),
            "activeDeadlineSeconds: is 0",
        ),
        (
            json!({"completionPolicy": {"ttlSecondsAfterFinished": -1}}),
            "ttlSecondsAfterFinished: is -1",
        ),
        (
            json!({"pullPolicy": {"timeoutSeconds": 0}}),
            "spec.pullPolicy.timeoutSeconds: is 0",
        ),
        (
            json!({"pullPolicy": {"backoffLimit": -1}}),
            "spec.pullPolicy.backoffLimit: is -1",
        ),
        (
            json!({"completionPolicy": {"activeDeadlineSeconds": 9}, "pullPolicy": {"timeoutSeconds": 10}}),
            "activeDeadlineSeconds: is 9, less than pullPolicy.timeoutSeconds 10",
        ),
    ] {
        let mut world = World::new(2);
        world.create("job", &spec);
        let refusal = world.step("job").refusal.unwrap();
        assert!(
            refusal
                .message
                .starts_with("ImagePullJob default/job: spec."),
            "{}",
            refusal.message
        );
        assert!(
            refusal.message.contains(says),
            "{spec}: {}",
            refusal.message
        );
        assert_eq!(world.status("job").message, refusal.message);
        assert_eq!(validate(&world.job("job")), Err(refusal));
        world.step("job");
        assert_eq!(world.events.len(), 1, "{spec}");
        assert_eq!(world.entries(), Vec::<String>::new());
    }
}

#[test]
fn entry_has_all_fields_for_the_daemon() {
    let mut world = World::new(1);
    world.create(
        "job",
        &json!({
            "image": "docker.io/library/app:1", "pullSecrets": ["a", "b"], "imagePullPolicy": "Always",
            "sandboxConfig": {"labels": {"l": "1"}, "annotations": {"a": "1"}},
            "pullPolicy": {"timeoutSeconds": 20, "backoffLimit": 7},
            "completionPolicy": {"activeDeadlineSeconds": 90, "ttlSecondsAfterFinished": 1000},
        }),
    );
    let plan = world.step("job");
    let names: Vec<_> = plan
        .stages
        .iter()
        .map(|stage| (stage.name, stage.required))
        .collect();
    assert_eq!(
        names,
        [("protect", true), ("pull", false)],
        "no entry before the finalizer"
    );
    let mut spec = json!(world.node("n0").spec);
    let ttl = spec["images"]["app"]["tags"][0]["pullPolicy"]["ttlSecondsAfterFinished"].take();
    assert!((1300..1600).contains(&ttl.as_i64().unwrap()), "{ttl}");
    let expected = json!({"images": {"app": {
        "pullSecrets": [{"namespace": "default", "name": "a"}, {"namespace": "default", "name": "b"}],
        "tags": [{
            "sandboxConfig": {"labels": {"l": "1"}, "annotations": {"a": "1"}},
            "tag": "1", "createdAt": "1970-01-12T13:46:40Z", "imagePullPolicy": "Always",
            "ownerReferences": [{
                "apiVersion": "apps.kruise.io/v1beta1", "kind": "ImagePullJob", "namespace": "default", "name": "job",
                "uid": "job-1",
            }],
            "pullPolicy": {
                "timeoutSeconds": 20, "backoffLimit": 7, "activeDeadlineSeconds": 90, "ttlSecondsAfterFinished": null,
            },
        }],
    }}});
    assert_eq!(spec, expected);
}

#[test]
fn job_with_too_high_limits_has_the_maximum() {
    let mut world = World::new(1);
    let (most, long) = (json!(i32::MAX), json!(i64::MAX));
    world.create(
        "job",
        &json!({
            "pullPolicy": {"timeoutSeconds": most, "backoffLimit": most},
            "completionPolicy": {"activeDeadlineSeconds": long, "ttlSecondsAfterFinished": most},
        }),
    );
    world.step("job");
    let limits = world.node("n0").spec.images["app"].tags[0]
        .pull_policy
        .clone()
        .unwrap();
    let expected = ImageTagPullPolicy {
        timeout_seconds: Some(3600),
        backoff_limit: Some(100),
        active_deadline_seconds: Some(i32::MAX.into()),
        ttl_seconds_after_finished: Some(i32::MAX),
    };
    assert_eq!(limits, expected);
}

#[test]
fn too_large_sandbox_config_is_refused() {
    for (letters, refused) in [(16_380, false), (16_381, true)] {
        let mut world = World::new(1);
        let sandbox =
            json!({"labels": {"a": "b"}, "annotations": {"c": "d".repeat(letters), "": "e"}});
        world.create("job", &json!({"sandboxConfig": sandbox}));
        let refusal = world.step("job").refusal;
        assert_eq!(refusal.is_some(), refused, "{letters}");
        if let Some(refusal) = refusal {
            let says = "spec.sandboxConfig: has labels and annotations of 16385 bytes, but can have 16384 in all";
            assert!(refusal.message.contains(says), "{}", refusal.message);
            assert!(world.entries().is_empty());
        }
    }
}

#[test]
fn limits_follow_the_completion_policy() {
    let table = [
        (json!({}), 1800 + 300, None),
        (
            json!({"completionPolicy": {"activeDeadlineSeconds": 700}}),
            700 + 300,
            Some(700),
        ),
        (
            json!({"completionPolicy": {"ttlSecondsAfterFinished": 5}}),
            5 + 300,
            None,
        ),
        (
            json!({"completionPolicy": {"type": "Never"}}),
            24 * 3600 - 150,
            Some(1800),
        ),
        (
            json!({"completionPolicy": {"type": "Never"}, "pullPolicy": {"timeoutSeconds": 3000}}),
            86250,
            Some(3000),
        ),
        (
            json!({"pullPolicy": {"timeoutSeconds": 3600, "backoffLimit": 100}}),
            360_000 + 300,
            None,
        ),
    ];
    for (spec, ttl, deadline) in table {
        let mut world = World::new(1);
        world.create("job", &spec);
        world.step("job");
        let limits = world.node("n0").spec.images["app"].tags[0]
            .pull_policy
            .clone()
            .unwrap();
        let at_least = limits.ttl_seconds_after_finished.unwrap() - ttl;
        assert!((0..300).contains(&at_least), "{spec}: {limits:?}");
        assert_eq!(limits.active_deadline_seconds, deadline, "{spec}");
    }
    let mut world = World::new(9);
    world.create("job", &json!({"parallelism": 9}));
    world.step("job");
    let ttl = |node: &String| {
        world.node(node).spec.images["app"].tags[0]
            .pull_policy
            .clone()
    };
    let ttls: std::collections::BTreeSet<_> = world
        .names()
        .iter()
        .map(|node| ttl(node).unwrap().ttl_seconds_after_finished)
        .collect();
    assert!(ttls.len() > 1, "the entries do not go all at once");
}
