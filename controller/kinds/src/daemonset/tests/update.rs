//! How a new template reaches the pods.

use std::sync::Arc;

use berth_api::names::annotation::{
    DAEMONSET_IGNORE_NOT_READY, DAEMONSET_TEMPLATE_GENERATION, PREPULL_ON_JOIN, UPDATE_TOPOLOGY_KEY,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::super::simulation::World;
use crate::model::apiserver::set_condition;
use crate::model::resizing;

pub(super) fn rolling(fields: Value) -> Value {
    json!({"updateStrategy": {"rollingUpdate": fields}})
}

/// The images after each round, until nothing changes any more.
pub(super) fn history(world: &mut World) -> Vec<String> {
    let mut all = Vec::new();
    for _ in 0..60 {
        world.step();
        world.run_kubelets();
        world.pass(1);
        let images = world.images().join(", ");
        if all.last() != Some(&images) {
            all.push(images);
        }
    }
    all
}

#[test]
fn standard_update_replaces_one_pod_from_last_node() {
    let mut world = World::settled(3, json!({}));
    world.set_image("log:1");
    let all = history(&mut world);
    assert_eq!(
        all[..3],
        ["n0 0, n1 0, n2 0", "n0 0, n1 0, n2", "n0 0, n1 0, n2 1"]
    );
    assert_eq!(all.last().unwrap(), "n0 1, n1 1, n2 1");
    assert!(
        all.iter()
            .all(|images| images.split(", ").filter(|one| one.len() == 2).count() <= 1),
        "{all:?}"
    );
}

#[test]
fn replaced_pod_sends_successful_delete_event() {
    let mut world = World::settled(1, json!({}));
    world.set_image("log:1");
    world.step();
    let plan = world.step();
    let told: Vec<_> = plan
        .stages
        .iter()
        .flat_map(|stage| &stage.steps)
        .filter_map(|step| step.done.as_ref())
        .collect();
    assert_eq!(
        told.iter().map(|event| event.reason).collect::<Vec<_>>(),
        ["SuccessfulDelete"]
    );
}

#[test]
fn in_place_keeps_pods_and_replaces_gateless_ones() {
    let mut world = World::settled(
        3,
        rolling(json!({"rollingUpdateType": "InPlaceIfPossible"})),
    );
    let before: Vec<_> = world.pods.keys().cloned().collect();
    world.set_image("log:1");
    world.settle();
    assert_eq!(world.images(), ["n0 1", "n1 1", "n2 1"]);
    assert_eq!(world.pods.keys().cloned().collect::<Vec<_>>(), before);
    let old = world.pod_of("n1");
    world.pods.get_mut(&old).unwrap()["spec"]["readinessGates"] = json!([]);
    world.set_image("log:2");
    world.settle();
    assert_eq!(world.images(), ["n0 2", "n1 2", "n2 2"]);
    let now: Vec<_> = world.pods.keys().cloned().collect();
    assert_eq!(before.iter().filter(|name| now.contains(name)).count(), 2);
    assert!(!now.contains(&old));
}

#[test]
fn partition_excludes_first_nodes_and_reverts_none() {
    for type_ in ["Standard", "InPlaceIfPossible"] {
        let mut world = World::settled(
            3,
            rolling(json!({"partition": 2, "rollingUpdateType": type_})),
        );
        world.set_image("log:1");
        world.settle();
        assert_eq!(world.images(), ["n0 0", "n1 0", "n2 1"]);
        world.merge(&rolling(json!({"partition": 3})));
        world.settle();
        assert_eq!(world.images(), ["n0 0", "n1 0", "n2 1"]);
        world.merge(&rolling(json!({"partition": "50%"})));
        world.settle();
        assert_eq!(world.images(), ["n0 0", "n1 1", "n2 1"], "rounded down");
    }
}

#[test]
fn a_selector_limits_the_update_to_its_nodes() {
    let mut world = World::settled(3, json!({}));
    world.change_node("n0", &json!({"metadata": {"labels": {"canary": "yes"}}}));
    world.merge(&rolling(
        json!({"selector": {"matchLabels": {"canary": "yes"}}}),
    ));
    world.set_image("log:1");
    world.settle();
    assert_eq!(world.images(), ["n0 1", "n1 0", "n2 0"]);
}

#[test]
fn paused_and_on_delete_update_only_deleted_pods() {
    for strategy in [
        json!({"type": "OnDelete"}),
        json!({"rollingUpdate": {"paused": true}}),
    ] {
        let mut world = World::settled(2, json!({"updateStrategy": strategy}));
        world.set_image("log:1");
        world.settle();
        assert_eq!(world.images(), ["n0 0", "n1 0"]);
        world.delete(&world.pod_of("n0"));
        world.settle();
        assert_eq!(world.images(), ["n0 1", "n1 0"]);
    }
}

/// OpenKruise deletes every pod here, one round after the other (#1323).
#[test]
fn quick_updates_keep_one_pod_unavailable_at_most() {
    let mut world = World::settled(3, json!({"minReadySeconds": 10}));
    world.pass(20);
    world.settle();
    let mut least = 3;
    for image in ["log:1", "log:2", "log:3"] {
        world.set_image(image);
        for _ in 0..4 {
            world.step();
            world.run_kubelets();
            world.pass(1);
            let ready = world.status().number_ready;
            least = least.min(ready);
        }
    }
    assert!(least >= 2, "{least}");
    world.settle();
    assert_eq!(world.images(), ["n0 3", "n1 3", "n2 3"]);
}

#[test]
fn broken_pods_come_first_and_bad_revision_stops() {
    let mut world = World::settled(4, json!({}));
    let (a, b) = (world.pod_of("n0"), world.pod_of("n1"));
    world.break_pod(&a);
    world.break_pod(&b);
    world.set_image("log:1");
    world.step();
    world.step();
    assert_eq!(world.images()[..2], ["n0 (0)", "n1 (0)"]);
    world.settle();
    assert_eq!(world.images(), ["n0 1", "n1 1", "n2 1", "n3 1"]);
    world.set_image("bad:1");
    for _ in 0..30 {
        world.step();
        world.run_kubelets();
        world.pass(1);
    }
    assert_eq!(world.available(), 3, "{:?}", world.images());
}

/// n0's pod is out of service by its own readiness gate, and uses maxUnavailable up: its own update
/// needs no budget.
#[test]
fn unready_pod_delays_no_rollout() {
    for type_ in ["Standard", "InPlaceIfPossible"] {
        let mut fields = rolling(json!({"rollingUpdateType": type_}));
        fields["template"] =
            json!({"spec": {"readinessGates": [{"conditionType": "example.com/open"}]}});
        let mut world = World::new(3, fields);
        history(&mut world);
        for node in ["n1", "n2"] {
            let (pod, now) = (world.pod_of(node), world.now());
            let open =
                json!({"type": "example.com/open", "status": "True", "lastTransitionTime": now});
            set_condition(world.pods.get_mut(&pod).unwrap(), open);
        }
        world.run_kubelets();
        assert_eq!(world.available(), 2, "{type_}");
        world.merge(&json!({"template": {"spec": {"readinessGates": null}}}));
        world.set_image("log:1");
        let all = history(&mut world);
        assert_eq!(all[..2], ["n0 0, n1 0, n2 0", "n0, n1 0, n2 0"], "{type_}");
        assert_eq!(all.last().unwrap(), "n0 1, n1 1, n2 1", "{type_}");
    }
}

/// n4 has the update, and fails by itself. Broken pods are repaired before other pods are updated,
/// and at most maxUnavailable nodes get a revision that may be broken.
#[test]
fn bad_revision_stays_within_max_unavailable() {
    let table = [
        (1, vec!["n0"], ["n0 0", "n1 0", "n2 0", "n3 0", "n4 1"]),
        (2, vec!["n0"], ["n0 (0)", "n1 0", "n2 0", "n3 0", "n4 1"]),
        (
            2,
            vec!["n0", "n1"],
            ["n0 0", "n1 (0)", "n2 0", "n3 0", "n4 1"],
        ),
        (3, vec!["n0"], ["n0 (0)", "n1 0", "n2 0", "n3 (0)", "n4 1"]),
        (
            3,
            vec!["n0", "n1"],
            ["n0 (0)", "n1 (0)", "n2 0", "n3 0", "n4 1"],
        ),
    ];
    for (max_unavailable, broken, expected) in table {
        let mut world = World::settled(
            5,
            rolling(json!({"maxUnavailable": max_unavailable, "partition": 4})),
        );
        world.set_image("log:1");
        world.settle();
        for node in broken.iter().chain(&["n4"]) {
            let pod = world.pod_of(node);
            world.break_pod(&pod);
        }
        world.merge(&rolling(json!({"partition": 0})));
        // A pod that is being deleted counts, no matter how long its end takes.
        for _ in 0..3 {
            world.step();
        }
        assert_eq!(
            world.images(),
            expected,
            "maxUnavailable {max_unavailable}, {broken:?} are broken"
        );
    }
}

#[test]
fn new_pod_on_unready_node_delays_no_repair() {
    let mut world = World::settled(3, rolling(json!({"partition": 2})));
    world.set_image("log:1");
    world.settle();
    world.set_ready("n2", false);
    let broken = world.pod_of("n0");
    world.break_pod(&broken);
    world.merge(&rolling(json!({"partition": 0})));
    world.step();
    world.step();
    assert_eq!(world.images(), ["n0 (0)", "n1 0", "n2 1"]);
}

#[test]
fn unready_node_uses_budget_and_blocked_names_it() {
    let mut world = World::settled(
        3,
        rolling(json!({"rollingUpdateType": "InPlaceIfPossible"})),
    );
    world.set_ready("n1", false);
    world.set_image("log:1");
    for _ in 0..10 {
        world.step();
        world.run_kubelets();
        world.pass(1);
    }
    assert_eq!(world.images(), ["n0 0", "n1 0", "n2 0"]);
    let blocked = world.status().conditions;
    assert!(
        blocked[0].message.contains("n1;")
            && blocked[0].message.contains(DAEMONSET_IGNORE_NOT_READY),
        "{blocked:?}"
    );
    world.annotate(DAEMONSET_IGNORE_NOT_READY, "true");
    for _ in 0..20 {
        world.step();
        world.run_kubelets();
        world.pass(1);
    }
    assert_eq!(world.images(), ["n0 1", "n1 0", "n2 1"]);
    world.set_ready("n1", true);
    world.settle();
    assert_eq!(world.images(), ["n0 1", "n1 1", "n2 1"]);
}

#[test]
fn impossible_prepull_is_reported_and_delays_nothing() {
    let mut world = World::settled(2, rolling(json!({})));
    world.annotate(PREPULL_ON_JOIN, "true");
    world.set_image("log:1");
    world.settle();
    assert_eq!(world.images(), ["n0 1", "n1 1"]);
    let told = world.status().conditions;
    assert_eq!(
        told.iter().map(|c| &*c.reason).collect::<Vec<_>>(),
        ["NotPrepulled"]
    );
    assert!(
        told[0].message.contains("set ImagePullJobGate=true"),
        "{}",
        told[0].message
    );
    world.annotate(PREPULL_ON_JOIN, "false");
    world.step();
    assert!(world.status().conditions.is_empty());
    world.annotate(PREPULL_ON_JOIN, "yes");
    world.step();
    assert!(
        world.status().conditions[0]
            .message
            .contains("\"yes\" is neither"),
        "{:?}",
        world.status().conditions
    );
}

#[test]
fn next_zone_begins_when_the_first_is_complete() {
    for fields in [json!({"maxUnavailable": 4}), json!({"maxSurge": 4})] {
        let mut world = World::settled(4, rolling(fields));
        for (node, zone) in [("n0", "b"), ("n1", "a"), ("n2", "b"), ("n3", "a")] {
            world.change_node(node, &json!({"metadata": {"labels": {"zone": zone}}}));
        }
        world.annotate(UPDATE_TOPOLOGY_KEY, "zone");
        world.set_image("log:1");
        for images in history(&mut world) {
            let is_touched = |nodes: [&str; 2], how: fn(&str) -> bool| {
                images
                    .split(", ")
                    .filter(|one| nodes.contains(&&one[..2]))
                    .any(how)
            };
            let second_began = is_touched(["n0", "n2"], |one| &one[2..] != " 0");
            let first_is_open = is_touched(["n1", "n3"], |one| {
                &one[2..] != " 1" && !one.ends_with("(0)") && one.len() < 5
            });
            assert!(!(second_began && first_is_open), "{images}");
        }
        assert_eq!(world.images(), ["n0 1", "n1 1", "n2 1", "n3 1"]);
    }
}

#[test]
fn unready_node_delays_next_zone_unless_ignored() {
    let strategy = json!({"rollingUpdateType": "InPlaceIfPossible", "maxUnavailable": 3});
    let mut world = World::settled(4, rolling(strategy));
    for (node, zone) in [("n0", "b"), ("n1", "a"), ("n2", "b"), ("n3", "a")] {
        world.change_node(node, &json!({"metadata": {"labels": {"zone": zone}}}));
    }
    world.annotate(UPDATE_TOPOLOGY_KEY, "zone");
    world.set_ready("n1", false);
    world.set_image("log:1");
    assert_eq!(
        history(&mut world).last().unwrap(),
        "n0 0, n1 0, n2 0, n3 1"
    );
    let told = world.status().conditions;
    let words =
        "pods wait for the turn of their zone, which nodes that are not Ready hold up: n1; ";
    assert!(
        told[0].reason == "NodesNotReady" && told[0].message.contains(words),
        "{told:?}"
    );
    world.annotate(DAEMONSET_IGNORE_NOT_READY, "true");
    assert_eq!(
        history(&mut world).last().unwrap(),
        "n0 1, n1 0, n2 1, n3 1"
    );
    assert!(
        world
            .status()
            .conditions
            .iter()
            .all(|told| told.reason != "NodesNotReady")
    );
    world.set_ready("n1", true);
    world.settle();
    assert_eq!(world.images(), ["n0 1", "n1 1", "n2 1", "n3 1"]);
}

#[test]
fn unready_node_blocks_if_next_zone_waits_only_for_it() {
    type Course = fn(&mut World);
    let zones = [("n0", "b"), ("n1", "a"), ("n2", "b"), ("n3", "a")];
    let strategy = json!({"rollingUpdateType": "InPlaceIfPossible", "maxUnavailable": 3});
    let table: [(&str, Course, Option<&str>); 5] = [
        ("its zone goes on", |world| drop(world.step()), None),
        (
            "its zone is done but for it",
            |world| drop(history(world)),
            Some("NodesNotReady"),
        ),
        (
            "paused",
            |world| {
                world.merge(&rolling(json!({"paused": true})));
                history(world);
            },
            None,
        ),
        (
            "left out",
            |world| {
                world.merge(&rolling(
                    json!({"selector": {"matchLabels": {"zone": "a"}}}),
                ));
                history(world);
            },
            None,
        ),
        (
            "no other is behind",
            |world| {
                world.set_ready("n1", true);
                world.settle();
                world.set_ready("n1", false);
                world.step();
            },
            None,
        ),
    ];
    for (what, then, expected) in table {
        let mut world = World::settled(4, rolling(strategy.clone()));
        zones.iter().for_each(|(node, zone)| {
            world.change_node(node, &json!({"metadata": {"labels": {"zone": zone}}}))
        });
        world.annotate(UPDATE_TOPOLOGY_KEY, "zone");
        world.set_ready("n1", false);
        world.set_image("log:1");
        world.step();
        then(&mut world);
        let told = world.status().conditions;
        let is_told = told.iter().find(|told| told.reason == "NodesNotReady");
        assert_eq!(
            is_told.map(|told| &*told.reason),
            expected,
            "{what}: {told:?}"
        );
    }
}

#[test]
fn rollback_reuses_the_old_revision() {
    let mut world = World::settled(2, json!({}));
    world.set_image("log:1");
    world.settle();
    world.set_image("log:0");
    world.settle();
    assert_eq!(
        (world.images(), world.revisions.len()),
        (vec!["n0 0".to_owned(), "n1 0".to_owned()], 2)
    );
    let newest = world
        .revisions
        .values()
        .map(|revision| revision["revision"].as_i64().unwrap())
        .max();
    assert_eq!(newest, Some(3));
}

#[test]
fn named_generation_keeps_pods_of_native_daemonset() {
    let mut world = World::settled(2, json!({}));
    for pod in world.pods.values_mut() {
        pod["metadata"]["labels"]["controller-revision-hash"] = json!("native");
        pod["metadata"]["labels"]["pod-template-generation"] = json!("4");
    }
    let before = world.pods.clone();
    world.annotate(DAEMONSET_TEMPLATE_GENERATION, "4");
    world.settle();
    assert_eq!(
        world.pods.keys().collect::<Vec<_>>(),
        before.keys().collect::<Vec<_>>()
    );
    assert_eq!(world.status().updated_number_scheduled, 2);
    world.add_node("n9");
    world.settle();
    let new = world.pod_of("n9");
    assert_eq!(
        world.pods[&new]["metadata"]["labels"]["pod-template-generation"],
        "4"
    );
}

/// Its owner references name v1alpha1 (#2520), its revisions have one label, and its templates have
/// the field that Go never leaves out.
#[test]
fn openkruise_set_is_adopted_without_a_write() {
    for partition in [0, 1] {
        let in_place = json!({"rollingUpdateType": "InPlaceIfPossible", "partition": partition});
        let mut world = World::settled(2, rolling(in_place));
        world.set_image("log:1");
        world.settle();
        for object in world.pods.values_mut().chain(world.revisions.values_mut()) {
            object["metadata"]["ownerReferences"][0]["apiVersion"] =
                json!("apps.kruise.io/v1alpha1");
        }
        for revision in world.revisions.values_mut() {
            revision["metadata"]["labels"]
                .as_object_mut()
                .unwrap()
                .remove("controller.kubernetes.io/hash");
            revision["data"]["spec"]["template"]["metadata"]["creationTimestamp"] = json!(null);
        }
        assert!(world.plan().is_idle(), "{:?}", world.plan());
        let before: Vec<_> = world.pods.keys().cloned().collect();
        world.merge(&rolling(json!({"partition": 0})));
        world.settle();
        assert_eq!(
            (
                world.images(),
                world.pods.keys().cloned().collect::<Vec<_>>()
            ),
            (vec!["n0 1".to_owned(), "n1 1".to_owned()], before)
        );
    }
}

#[test]
fn node_with_pod_of_another_owner_gets_no_pod() {
    let mut world = World::settled(2, json!({}));
    let before: Vec<_> = world.pods.keys().cloned().collect();
    for pod in world.pods.values_mut() {
        pod["metadata"]["ownerReferences"][0]["apiVersion"] = json!("apps/v1");
        pod["metadata"]["ownerReferences"][0]["uid"] = json!("native");
    }
    world.settle();
    assert_eq!(world.pods.keys().cloned().collect::<Vec<_>>(), before);
    assert!(
        world
            .plan()
            .waiting
            .iter()
            .any(|waiting| waiting.reason.contains("--cascade=orphan"))
    );
    for pod in world.pods.values_mut() {
        pod["metadata"]["ownerReferences"] = json!([]);
    }
    world.settle();
    assert_eq!(world.pods.keys().cloned().collect::<Vec<_>>(), before);
    assert_eq!(world.status().current_number_scheduled, 2);
}

#[test]
fn orphans_are_adopted_and_no_pod_is_created() {
    let mut world = World::settled(2, json!({}));
    for object in world.pods.values_mut().chain(world.revisions.values_mut()) {
        object["metadata"]["ownerReferences"] = json!([]);
    }
    let before: Vec<_> = world.pods.keys().cloned().collect();
    world.settle();
    assert_eq!(world.pods.keys().cloned().collect::<Vec<_>>(), before);
    assert!(
        world
            .all_pods()
            .iter()
            .all(|pod| pod.metadata.controller().is_some())
    );
}

#[test]
fn adoption_waits_briefly_for_revision_of_orphan() {
    for is_deleted in [false, true] {
        let mut world = World::settled(2, json!({}));
        Arc::make_mut(&mut world.set).metadata.creation_timestamp = Some(Time(world.now()));
        for object in world.pods.values_mut().chain(world.revisions.values_mut()) {
            object["metadata"]["ownerReferences"] = json!([]);
        }
        let before: Vec<_> = world.pods.keys().cloned().collect();
        let late = std::mem::take(&mut world.revisions);
        let plan = world.step();
        assert!(plan.is_idle() && plan.look_again.is_some(), "{plan:?}");
        assert!(
            plan.waiting
                .iter()
                .any(|waiting| waiting.reason.contains("the revision of pod")),
            "{plan:?}"
        );
        if is_deleted {
            world.pass(10);
        } else {
            world.revisions = late.clone();
        }
        world.settle();
        assert_eq!(world.revisions.len(), 1);
        assert_eq!(world.status().number_available, 2);
        assert!(
            is_deleted || world.pods.keys().eq(&before),
            "they are taken over"
        );
    }
}

#[test]
fn pod_without_its_resources_is_not_updated() {
    let mut world = World::settled(2, json!({}));
    let counts = |world: &World| {
        let status = world.status();
        [
            status.updated_number_scheduled,
            status.number_ready,
            status.number_available,
        ]
    };
    assert_eq!(counts(&world), [2; 3]);
    let name = world.pod_of("n1");
    resizing::lack(world.pods.get_mut(&name).unwrap());
    assert_eq!(counts(&world), [1, 2, 1]);
}
