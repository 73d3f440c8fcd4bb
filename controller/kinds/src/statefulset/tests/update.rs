//! Updates: from the highest ordinal down, within the limits.

use berth_api::names::annotation::RESTARTED_AT;
use berth_workload::feature_gates::Gate;
use serde_json::{Value, json};

use super::super::simulation::{World, written};
use crate::model::{resizing, unknown};

/// A set with this rolling update, in parallel unless the update says otherwise.
fn parallel(replicas: i32, rolling: Value) -> World {
    let fields =
        json!({"podManagementPolicy": "Parallel", "updateStrategy": {"rollingUpdate": rolling}});
    World::settled(replicas, fields)
}

/// The pods that the plan takes out of service.
fn begun(world: &mut World) -> Vec<String> {
    let plan = world.step();
    let of_updates = written(&plan)
        .into_iter()
        .filter(|written| !written.starts_with("CreatePod"));
    let mut names: Vec<_> = of_updates
        .map(|written| written.split(' ').nth(1).unwrap().to_owned())
        .collect();
    names.dedup();
    names
}

/// A set with ordered pods and this rolling update.
fn ordered(replicas: i32, rolling: Value) -> World {
    World::settled(
        replicas,
        json!({"updateStrategy": {"rollingUpdate": rolling}}),
    )
}

/// Runs until the world rests. Returns the deletions, creations and first writes of updates in
/// place, each plan as one text.
fn batches(world: &mut World) -> Vec<String> {
    let mut batches = Vec::new();
    for _ in 0..100 {
        let serving: Vec<_> = world
            .all_pods()
            .into_iter()
            .filter(|pod| pod.is_true("Ready"))
            .collect();
        let is_taken = |name: &str| serving.iter().any(|pod| *pod.metadata.name == *name);
        let plan = world.step();
        let written = written(&plan);
        let changes: Vec<_> = written
            .iter()
            .filter_map(|written| written.split_once(' '))
            .collect();
        let words = changes.iter().filter_map(|(verb, name)| match *verb {
            "CreatePod" => Some(format!("+{name}")),
            "DeletePod" | "PatchPodStatus" if is_taken(name) => Some(format!("-{name}")),
            _ => None,
        });
        let words: Vec<_> = words.collect();
        if !words.is_empty() {
            batches.push(words.join(" ").replace("db-", ""));
        }
        world.run_kubelets();
        world.pass(1);
    }
    batches
}

#[test]
fn ordered_update_takes_batches_from_the_top() {
    for (max_unavailable, expected) in [
        (json!(1), vec!["-4", "-3", "-2", "-1", "-0"]),
        (json!(2), vec!["-4 -3", "-2 -1", "-0"]),
        (json!("50%"), vec!["-4 -3", "-2 -1", "-0"]),
        (json!("10%"), vec!["-4", "-3", "-2", "-1", "-0"]),
        (json!(9), vec!["-4 -3 -2 -1 -0"]),
    ] {
        let mut world = ordered(
            5,
            json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": max_unavailable}),
        );
        world.set_image("db:1");
        let mut taken = batches(&mut world);
        taken.retain(|batch| batch.starts_with('-'));
        assert_eq!(taken, expected, "{max_unavailable}");
        assert_eq!(
            world.images(),
            ["db-0 1", "db-1 1", "db-2 1", "db-3 1", "db-4 1"]
        );
    }
}

#[test]
fn ordered_update_makes_new_pods_one_by_one() {
    let mut world = ordered(
        5,
        json!({"podUpdatePolicy": "ReCreate", "maxUnavailable": 2, "minReadySeconds": 3}),
    );
    world.set_image("db:1");
    world.step();
    assert_eq!(begun(&mut world), ["db-4", "db-3"]);
    world.run_kubelets();
    let waits = world
        .plan()
        .waiting
        .into_iter()
        .map(|waiting| waiting.reason)
        .collect::<Vec<_>>();
    assert_eq!(waits, ["is to be updated, and waits for pod db-3"; 3]);
    assert_eq!(
        batches(&mut world),
        ["+3", "+4", "-2 -1", "+1", "+2", "-0", "+0"]
    );
    assert_eq!(world.available(), 5);
}

#[test]
fn ordered_scaling_precedes_the_update() {
    let rolling = json!({"podUpdatePolicy": "ReCreate", "maxUnavailable": 2});
    for (replicas, expected) in [
        (3, vec!["-4", "-3", "-2 -1", "+1", "+2", "-0", "+0"]),
        (
            6,
            vec!["+5", "-4 -3", "+3", "+4", "-2 -1", "+1", "+2", "-0", "+0"],
        ),
    ] {
        let mut world = ordered(5, rolling.clone());
        world.set_image("db:1");
        world.edit(|spec| spec.replicas = Some(replicas));
        assert_eq!(batches(&mut world), expected, "{replicas}");
    }
}

#[test]
fn ordered_batch_stops_at_a_bad_image_and_repairs() {
    for policy in ["ReCreate", "InPlaceIfPossible"] {
        let mut world = ordered(5, json!({"podUpdatePolicy": policy, "maxUnavailable": 2}));
        world.set_image("bad:1");
        batches(&mut world);
        assert_eq!(world.available(), 3, "{policy}");
        world.set_image("db:2");
        batches(&mut world);
        assert_eq!(
            (world.available(), world.images()[4].as_str()),
            (5, "db-4 2"),
            "{policy}"
        );
        // A broken pod inside the partition blocks all updates.
        world.merge(&json!({"updateStrategy": {"rollingUpdate": {"partition": 1}}}));
        world.break_pod("db-0");
        world.set_image("db:3");
        world.step();
        assert_eq!(begun(&mut world), Vec::<String>::new(), "{policy}");
    }
}

#[test]
fn ordered_batch_ends_as_hooks_let_each_pod_go() {
    let hook = json!({"preDelete": {"labelsHandler": {"example.com/in-use": "true"}}});
    let rolling = json!({"rollingUpdate": {"podUpdatePolicy": "ReCreate", "maxUnavailable": 2}});
    let mut world = World::new(3, json!({"lifecycle": hook, "updateStrategy": rolling}));
    let in_use = json!({"template": {"metadata": {"labels": {"example.com/in-use": "true"}}}});
    world.merge(&in_use);
    world.settle();
    world.set_image("db:1");
    world.merge(&in_use);
    world.settle();
    assert_eq!(world.available(), 1, "two are held");
    world.label("db-2", "example.com/in-use", "false");
    assert_eq!(
        written(&world.step()),
        ["DeletePod db-2"],
        "it does not wait for db-1, which is held"
    );
    world.settle();
    assert_eq!(
        world.pods.keys().collect::<Vec<_>>(),
        ["db-0", "db-1"],
        "a new db-2 waits for db-1"
    );
    world.label("db-1", "example.com/in-use", "false");
    world.settle();
    assert_eq!(world.images()[1..], ["db-1 1", "db-2 1"]);
}

#[test]
fn update_proceeds_from_highest_down_to_partition() {
    for policy in ["ReCreate", "InPlaceIfPossible"] {
        let rolling = json!({"podUpdatePolicy": policy, "partition": 2});
        let mut world = World::settled(4, json!({"updateStrategy": {"rollingUpdate": rolling}}));
        let before = world.uid("db-3");
        world.set_image("db:1");
        world.step();
        assert_eq!(begun(&mut world), ["db-3"], "{policy}");
        world.settle();
        assert_eq!(
            world.images(),
            ["db-0 0", "db-1 0", "db-2 1", "db-3 1"],
            "{policy}"
        );
        assert_eq!(world.uid("db-3") == before, policy == "InPlaceIfPossible");
        let status = world.status();
        assert_eq!(
            (status.updated_replicas, status.current_replicas),
            (2, 2),
            "{policy}"
        );
        // A new pod inside the partition has the old revision, and outside of it the new one.
        for pod in ["db-1", "db-3"] {
            world.delete(pod);
        }
        world.settle();
        assert_eq!(
            world.images(),
            ["db-0 0", "db-1 0", "db-2 1", "db-3 1"],
            "{policy}"
        );
        world.merge(&json!({"updateStrategy": {"rollingUpdate": {"partition": 3}}}));
        world.settle();
        assert_eq!(world.images()[2], "db-2 1", "raising it rolls nothing back");
        world.merge(&json!({"updateStrategy": {"rollingUpdate": {"partition": 0}}}));
        world.settle();
        assert_eq!(
            world.images(),
            ["db-0 1", "db-1 1", "db-2 1", "db-3 1"],
            "{policy}"
        );
        let status = world.status();
        assert_eq!(status.current_revision, status.update_revision);
    }
}

#[test]
fn restart_annotation_restarts_containers_in_place() {
    let rolling = json!({"podUpdatePolicy": "InPlaceOnly", "partition": 1});
    let mut world = World::settled(3, json!({"updateStrategy": {"rollingUpdate": rolling}}));
    let before: Vec<_> = ["db-0", "db-1", "db-2"].map(|pod| world.uid(pod)).into();
    world.merge(
        &json!({"template": {"metadata": {"annotations": {RESTARTED_AT: "2026-11-26T12:00:00Z"}}}}),
    );
    world.settle();
    assert_eq!(
        ["db-0", "db-1", "db-2"].map(|pod| world.uid(pod)).to_vec(),
        before
    );
    let restarts = |pod: &Value| pod["status"]["containerStatuses"][0]["restartCount"].clone();
    assert_eq!(
        world.pods.values().map(restarts).collect::<Vec<_>>(),
        [0, 1, 1]
    );
}

#[test]
fn the_partition_counts_pods_and_not_ordinals() {
    let rolling = json!({"podUpdatePolicy": "ReCreate", "partition": 2, "maxUnavailable": 9});
    let mut world = parallel(4, rolling);
    world.merge(&json!({"reserveOrdinals": ["1-2"]}));
    world.settle();
    world.set_image("db:1");
    world.settle();
    assert_eq!(world.images(), ["db-0 0", "db-3 0", "db-4 1", "db-5 1"]);
}

#[test]
fn partition_keeps_current_revision_over_zero_pods() {
    let both = [json!({}), json!({"unorderedUpdate": {}})];
    for (management, more) in [
        ("OrderedReady", &both[0]),
        ("Parallel", &both[0]),
        ("Parallel", &both[1]),
    ] {
        // partition while there are no pods => images
        for (between, images) in [
            (2, ["db-0 0", "db-1 0", "db-2 1"]),
            (0, ["db-0 1", "db-1 1", "db-2 1"]),
        ] {
            let mut rolling = more.clone();
            rolling["partition"] = json!(2);
            let strategy = json!({"rollingUpdate": rolling});
            let fields = json!({"podManagementPolicy": management, "updateStrategy": strategy, "revisionHistoryLimit": 0});
            let mut world = World::settled(3, fields);
            world.set_image("db:1");
            world.settle();
            world.merge(&json!({"updateStrategy": {"rollingUpdate": {"partition": between}}}));
            world.merge(&json!({"replicas": 0}));
            world.settle();
            world.merge(
                &json!({"updateStrategy": {"rollingUpdate": {"partition": 2}}, "replicas": 3}),
            );
            world.settle();
            assert_eq!(world.images(), images, "{management} {more} {between}");
        }
    }
}

#[test]
fn parallel_update_starts_max_unavailable_pods() {
    // maxUnavailable rounds down, and is at least one.
    for (max_unavailable, expected) in [
        (json!(3), vec!["db-4", "db-3", "db-2"]),
        (json!("50%"), vec!["db-4", "db-3"]),
        (json!("10%"), vec!["db-4"]),
    ] {
        let mut world = parallel(
            5,
            json!({"podUpdatePolicy": "ReCreate", "maxUnavailable": max_unavailable}),
        );
        world.set_image("db:1");
        world.step();
        assert_eq!(begun(&mut world), expected, "{max_unavailable}");
    }
}

#[test]
fn bad_image_stops_at_max_unavailable() {
    let mut world = parallel(
        5,
        json!({"podUpdatePolicy": "ReCreate", "maxUnavailable": 2}),
    );
    // A pod of the new revision that does not serve keeps the broken ones at their positions.
    world.set_image("bad:1");
    world.step();
    world.step();
    world.run_kubelets();
    assert_eq!(
        world
            .step()
            .waiting
            .iter()
            .filter(|w| w.reason.contains("maxUnavailable"))
            .count(),
        3
    );
    world.settle();
    assert_eq!(
        world.available(),
        3,
        "a bad image takes no more than may be away"
    );
}

#[test]
fn broken_pods_are_updated_first() {
    let mut world = parallel(4, json!({"podUpdatePolicy": "InPlaceIfPossible"}));
    world.break_pod("db-0");
    world.set_image("db:1");
    world.step();
    assert_eq!(begun(&mut world), ["db-0"]);
    world.settle();
    assert_eq!(world.available(), 4);
}

#[test]
fn ordered_update_repairs_its_failing_predecessor() {
    let mut world = World::settled(3, json!({}));
    world.set_image("bad:1");
    for _ in 0..5 {
        world.step();
        world.run_kubelets();
        world.pass(1);
    }
    assert_eq!(
        (world.available(), world.images()[2].as_str()),
        (2, "db-2 bad:1")
    );
    world.set_image("db:2");
    world.settle();
    assert_eq!(world.images(), ["db-0 2", "db-1 2", "db-2 2"]);
    // The update waits for a pod that is not in its range.
    world.merge(&json!({"updateStrategy": {"rollingUpdate": {"partition": 1}}}));
    world.break_pod("db-0");
    world.set_image("db:3");
    world.step();
    assert_eq!(begun(&mut world), Vec::<String>::new());
}

#[test]
fn ordered_pod_without_its_gate_waits_for_itself() {
    let gates = json!([{"conditionType": "example.com/own"}]);
    let mut world = World::settled(1, json!({"template": {"spec": {"readinessGates": gates}}}));
    world.set_image("db:1");
    world.step();
    let waits: Vec<_> = world
        .plan()
        .waiting
        .into_iter()
        .map(|waiting| waiting.reason)
        .collect();
    assert!(
        waits.contains(&"is to be updated, and waits until it is available".to_owned()),
        "{waits:?}"
    );
}

#[test]
fn requested_deletions_keep_limits_and_are_replaced() {
    for fields in [
        json!({"updateStrategy": {"type": "OnDelete"}}),
        json!({"updateStrategy": {"rollingUpdate": {"paused": true}}}),
        json!({"updateStrategy": {"rollingUpdate": {"partition": 3}}}),
        json!({"podManagementPolicy": "Parallel"}),
    ] {
        let mut world = World::settled(3, fields.clone());
        let before = world.uid("db-1");
        for pod in ["db-1", "db-2"] {
            world.label(pod, "apps.kruise.io/specified-delete", "true");
        }
        assert_eq!(begun(&mut world), ["db-2"], "one at a time: {fields}");
        world.settle();
        assert!(
            world.available() == 3 && world.uid("db-1") != before,
            "{fields}"
        );
    }
    // The same holds for the pod that all others wait for.
    let mut world = World::settled(3, json!({}));
    world.break_pod("db-1");
    world.label("db-1", "apps.kruise.io/specified-delete", "true");
    assert_eq!(begun(&mut world), ["db-1"]);
    world.settle();
    assert_eq!(world.available(), 3);
}

#[test]
fn on_delete_updates_a_pod_after_its_deletion() {
    let mut world = World::settled(3, json!({"updateStrategy": {"type": "OnDelete"}}));
    world.set_image("db:1");
    world.settle();
    assert_eq!(world.images(), ["db-0 0", "db-1 0", "db-2 0"]);
    world.delete("db-0");
    world.settle();
    assert_eq!(world.images(), ["db-0 1", "db-1 0", "db-2 0"]);
}

#[test]
fn unordered_update_follows_priority() {
    let order = json!({"priorityStrategy": {"weightPriority": [
        {"weight": 50, "matchSelector": {"matchLabels": {"statefulset.kubernetes.io/pod-name": "db-1"}}},
    ]}});
    let mut world = parallel(
        4,
        json!({"podUpdatePolicy": "InPlaceIfPossible", "partition": 2, "unorderedUpdate": order}),
    );
    world.set_image("db:1");
    world.step();
    assert_eq!(begun(&mut world), ["db-1"]);
    world.settle();
    assert_eq!(world.images(), ["db-0 0", "db-1 1", "db-2 0", "db-3 1"]);
}

#[test]
fn pre_delete_hook_holds_pod_until_wanted_again() {
    let hook = json!({"preDelete": {"labelsHandler": {"example.com/in-use": "true"}}});
    let mut world = World::new(
        3,
        json!({"lifecycle": hook, "podManagementPolicy": "Parallel"}),
    );
    world.merge(&json!({"template": {"metadata": {"labels": {"example.com/in-use": "true"}}}}));
    world.settle();
    let before = world.uid("db-2");
    world.edit(|spec| spec.replicas = Some(2));
    world.settle();
    assert_eq!(
        world.pods["db-2"]["metadata"]["labels"]["lifecycle.apps.kruise.io/state"],
        "PreparingDelete"
    );
    world.edit(|spec| spec.replicas = Some(3));
    world.settle();
    assert_eq!((world.available(), world.uid("db-2")), (3, before));
    world.edit(|spec| spec.replicas = Some(2));
    world.settle();
    world.label("db-2", "example.com/in-use", "false");
    world.settle();
    assert_eq!(world.pods.len(), 2);
}

#[test]
fn begun_updates_end_first_regardless_of_order() {
    // A pod that must be replaced and is held by its hook uses up the budget: a later revision must
    // not wait for that pod.
    let hook = json!({"preDelete": {"labelsHandler": {"example.com/in-use": "true"}}});
    let mut world = World::new(3, json!({"lifecycle": hook}));
    world.merge(&json!({"template": {"metadata": {"labels": {"example.com/in-use": "true"}}}}));
    world.settle();
    let with_label = |world: &mut World, image: &str| {
        world.set_image(image);
        world.merge(&json!({"template": {"metadata": {"labels": {"example.com/in-use": "true"}}}}));
    };
    with_label(&mut world, "db:1");
    world.settle();
    with_label(&mut world, "db:2");
    world.settle();
    world.label("db-2", "example.com/in-use", "false");
    for _ in 0..20 {
        world.step();
        world.run_kubelets();
        world.pass(1);
        for pod in ["db-0", "db-1"] {
            let is_held = world.pods.get(pod).is_some_and(|pod| {
                pod["metadata"]["labels"]["lifecycle.apps.kruise.io/state"] == "PreparingDelete"
            });
            if is_held {
                world.label(pod, "example.com/in-use", "false");
            }
        }
    }
    world.settle();
    assert_eq!(world.images(), ["db-0 2", "db-1 2", "db-2 2"]);
}

#[test]
fn defaults_in_a_template_recreate_no_pod() {
    let spelled = json!({"dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "terminationGracePeriodSeconds": 30});
    let mut world = World::settled(2, json!({"template": {"spec": spelled}}));
    let (revision, before) = (
        world.status().update_revision,
        [world.uid("db-0"), world.uid("db-1")],
    );
    world.set_image("db:0");
    assert!(world.plan().is_idle(), "{:#?}", world.plan());
    assert_eq!(
        (
            world.status().update_revision,
            world.status().updated_replicas
        ),
        (revision.clone(), 2)
    );
    world.merge(&json!({"template": {"spec": {"schedulerName": "default-scheduler"}}}));
    world.settle();
    assert_ne!(world.status().update_revision, revision);
    assert_eq!(
        (
            world.status().updated_replicas,
            [world.uid("db-0"), world.uid("db-1")]
        ),
        (2, before)
    );
}

#[test]
fn annotations_or_fields_configure_image_predownload() {
    for (annotations, in_place) in [
        (
            json!({"apps.kruise.io/image-predownload-parallelism": "2", "apps.kruise.io/image-predownload-timeout-seconds": "7"}),
            json!({}),
        ),
        (
            json!({}),
            json!({"imagePreDownloadParallelism": 2, "imagePreDownloadTimeoutSeconds": 7}),
        ),
    ] {
        let rolling =
            json!({"podUpdatePolicy": "InPlaceIfPossible", "inPlaceUpdateStrategy": in_place});
        let mut world = parallel(5, rolling);
        std::sync::Arc::make_mut(&mut world.set)
            .metadata
            .annotations = serde_json::from_value(annotations).unwrap();
        world.gates = world
            .gates
            .with(Gate::PreDownloadImageForInPlaceUpdate, true);
        world.set_image("db:1");
        world.step();
        let plan = json!(world.plan()).to_string();
        assert!(
            plan.contains("ImagePullJob") && plan.contains(r#""parallelism":2"#),
            "{plan}"
        );
        assert!(plan.contains(r#""timeoutSeconds":7"#), "{plan}");
    }
}

#[test]
fn pod_without_its_resources_is_not_updated() {
    let mut world = World::settled(2, json!({}));
    let counts = |world: &World| {
        let status = world.status();
        let updated = [
            status.updated_replicas,
            status.updated_ready_replicas,
            status.updated_available_replicas,
        ];
        (updated, [status.ready_replicas, status.available_replicas])
    };
    assert_eq!(counts(&world), ([2; 3], [2; 2]));
    resizing::lack(world.pods.get_mut("db-1").unwrap());
    assert_eq!(counts(&world), ([1; 3], [2, 1]));
}

#[test]
fn unknown_fields_reach_pods_and_replace_them() {
    let template =
        |number: i32| json!({"template": unknown::template("db:1", &unknown::value(number))});
    let mut world = parallel(2, json!({"podUpdatePolicy": "InPlaceIfPossible"}));
    for number in [1, 2] {
        let before = ["db-0", "db-1"].map(|pod| world.uid(pod));
        world.merge(&template(number));
        world.settle();
        let lacking: Vec<_> = world
            .pods
            .values()
            .map(|pod| unknown::lacking(pod, &unknown::value(number)))
            .collect();
        assert_eq!(lacking, [[""; 0]; 2]);
        let after = ["db-0", "db-1"].map(|pod| world.uid(pod));
        assert!(
            before
                .iter()
                .zip(&after)
                .all(|(before, after)| before != after),
            "{number}: other pods"
        );
    }
}
