//! The number and the choice of pods in decisions, case by case, in the small world.

use std::sync::Arc;

use berth_workload::feature_gates::Gate;
use berth_workload::plan::{Action, Plan};
use serde_json::{Value, json};

use super::super::simulation::{World, template};

fn strategy(rolling: Value) -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": rolling})
}

fn in_place(more: Value) -> Value {
    let mut rolling = json!({"podUpdatePolicy": "InPlaceIfPossible"});
    for (key, value) in more.as_object().unwrap() {
        rolling[key] = value.clone();
    }
    strategy(rolling)
}

/// Pods that get an image, in the plan's order.
fn patched(plan: &Plan) -> Vec<String> {
    let actions = plan.actions();
    let name = |action: &Action| match action {
        Action::PatchPod { target, patch } if !patch.images.is_empty() => Some(target.name.clone()),
        _ => None,
    };
    actions.filter_map(name).collect()
}

fn count(plan: &Plan, kind: &str) -> usize {
    let actions = plan.actions();
    actions
        .filter(|action| action.write().to_string() == kind)
        .count()
}

fn names(world: &World) -> Vec<String> {
    world
        .pods()
        .iter()
        .map(|pod| pod.metadata.name.to_string())
        .collect()
}

/// The template changes, and its revision is written: the next decision may update pods.
fn roll_out(world: &mut World, image: &str) {
    world.set_template(template(image));
    world.step();
}

#[test]
fn a_raised_partition_brings_pods_back_in_place() {
    for (on, expected) in [(true, 1), (false, 3)] {
        let mut world = World::settled(
            5,
            template("web:1"),
            in_place(json!({"maxUnavailable": 1, "partition": 2})),
        );
        world.gates = world.gates.with(Gate::CloneSetPartitionRollback, on);
        let before = world.identities();
        world.set_template(template("web:2"));
        world.settle();
        assert_eq!(world.status().updated_replicas, 3);
        world.edit_rolling_update("partition", json!(4));
        assert_eq!(
            patched(&world.plan()).len(),
            usize::from(on),
            "one at a time, if at all"
        );
        world.settle();
        assert_eq!(world.status().updated_replicas, expected, "rollback {on}");
        assert_eq!(world.identities(), before, "the same pods");
        assert_eq!(
            world
                .images()
                .iter()
                .filter(|image| *image == "web:1")
                .count(),
            5 - usize::try_from(expected).unwrap()
        );
        assert_eq!(
            world.images(),
            world.created_from(),
            "what runs is what the spec says"
        );
    }
}

#[test]
fn raised_partition_recreates_pods_of_old_revision() {
    let mut world = World::settled(
        4,
        template("web:1"),
        strategy(json!({"maxUnavailable": 0, "maxSurge": 1, "partition": 1})),
    );
    world.gates = world.gates.with(Gate::CloneSetPartitionRollback, true);
    world.set_template(template("web:2"));
    world.settle();
    assert_eq!(
        (world.status().updated_replicas, world.status().replicas),
        (3, 4)
    );
    world.edit_rolling_update("partition", json!("100%"));
    let plan = world.plan();
    assert_eq!(
        (count(&plan, "CreatePod"), count(&plan, "DeletePod")),
        (1, 0),
        "the new pod first"
    );
    world.settle();
    assert_eq!(
        (world.status().updated_replicas, world.status().replicas),
        (0, 4)
    );
    assert!(world.images().iter().all(|image| image == "web:1"));
}

#[test]
fn raised_partition_after_rollout_changes_nothing() {
    let mut world = World::settled(3, template("web:1"), in_place(json!({"maxUnavailable": 1})));
    world.gates = world.gates.with(Gate::CloneSetPartitionRollback, true);
    world.set_template(template("web:2"));
    world.settle();
    world.edit_rolling_update("partition", json!(3));
    assert!(world.plan().is_idle());
}

#[test]
fn broken_pods_are_updated_first_and_all_at_once() {
    let mut world = World::settled(5, template("web:1"), in_place(json!({"maxUnavailable": 1})));
    let broken: Vec<_> = [1, 3, 4].map(|at| names(&world)[at].clone()).into();
    [1, 3, 4].into_iter().for_each(|at| world.break_pod(at));
    roll_out(&mut world, "web:2");
    let plan = world.step();
    assert_eq!(patched(&plan), broken);
    // Until they serve, no other pod is updated.
    assert!(patched(&world.step()).is_empty());
    world.settle();
    assert_eq!(world.status().updated_available_replicas, 5);
}

#[test]
fn broken_pods_wait_while_the_new_revision_fails() {
    let mut world = World::settled(5, template("web:1"), in_place(json!({"maxUnavailable": 1})));
    world.break_pod(0);
    roll_out(&mut world, "bad:2");
    assert_eq!(patched(&world.step()), [names(&world)[0].clone()]);
    world.run_kubelets();
    world.break_pod(1);
    let plan = world.step();
    assert!(patched(&plan).is_empty());
    let waits = plan
        .waiting
        .iter()
        .find(|waiting| waiting.pod == names(&world)[1])
        .unwrap();
    assert!(
        waits
            .reason
            .contains("is broken, and waits: 1 pods of web-"),
        "{waits:?}"
    );
    let serves = plan
        .waiting
        .iter()
        .find(|waiting| waiting.pod == names(&world)[2])
        .unwrap();
    assert_eq!(
        serves.reason,
        "is to be updated, and waits for maxUnavailable"
    );
    assert_eq!(
        world
            .images()
            .iter()
            .filter(|image| *image == "bad:2")
            .count(),
        1
    );
    // Neither of them blocks the repair.
    roll_out(&mut world, "web:3");
    assert_eq!(patched(&world.step()).len(), 2);
    world.settle();
    assert_eq!(world.status().updated_available_replicas, 5);
}

#[test]
fn priority_and_scatter_decide_update_order() {
    let order = |more: Value| {
        let mut world = World::settled(7, template("web:1"), in_place(more));
        for (at, wave) in [(1, "w-2"), (4, "w-10"), (6, "w-2")] {
            world.label(at, "wave", wave);
        }
        let all = names(&world);
        roll_out(&mut world, "web:2");
        let mut order = Vec::new();
        for _ in 0..60 {
            let plan = world.step();
            order.extend(
                patched(&plan)
                    .iter()
                    .map(|name| all.iter().position(|n| n == name).unwrap()),
            );
            world.run_kubelets();
            world.pass(1);
        }
        assert_eq!(order.len(), 7);
        order
    };
    let by_key = order(
        json!({"maxUnavailable": 1, "priorityStrategy": {"orderPriority": [{"orderedKey": "wave"}]}}),
    );
    assert_eq!(
        by_key[4], 4,
        "{by_key:?}: those without the label, the highest number, the rest"
    );
    let weight = json!({"weight": 10, "matchSelector": {"matchLabels": {"wave": "w-2"}}});
    let by_weight =
        order(json!({"maxUnavailable": 1, "priorityStrategy": {"weightPriority": [weight]}}));
    assert!(
        by_weight[..2].contains(&1) && by_weight[..2].contains(&6),
        "{by_weight:?}"
    );
    let scatter = json!([{"key": "wave", "value": "w-2"}]);
    let scattered = order(json!({"maxUnavailable": 1, "scatterStrategy": scatter}));
    assert!(
        [1, 6].contains(&scattered[0]) && [1, 6].contains(&scattered[6]),
        "{scattered:?}"
    );
}

#[test]
fn requested_deletions_respect_limits_by_case() {
    // maxUnavailable, maxSurge, the pod that is down, the pod with a request for deletion =>
    // created first, deleted at once
    let table = [
        ((2, 1), Some(0), 1, (0, 1)),
        ((1, 1), Some(0), 1, (1, 0)),
        ((1, 1), Some(0), 0, (0, 1)),
        ((1, 0), Some(0), 1, (0, 0)),
        ((1, 0), None, 1, (0, 1)),
        ((1, 1), None, 1, (0, 1)),
        ((0, 1), None, 1, (1, 0)),
    ];
    for ((max_unavailable, max_surge), down, asked, expected) in table {
        let rolling = json!({"maxUnavailable": max_unavailable, "maxSurge": max_surge});
        for by_name in [false, true] {
            let mut world = World::settled(4, template("web:1"), in_place(rolling.clone()));
            down.into_iter().for_each(|at| world.break_pod(at));
            if by_name {
                let name = names(&world)[asked].clone();
                Arc::make_mut(&mut world.set)
                    .spec
                    .scale_strategy
                    .pods_to_delete = vec![name];
            } else {
                world.ask_to_go(asked);
            }
            let asked_name = names(&world)[asked].clone();
            let plan = world.plan();
            let got = (count(&plan, "CreatePod"), count(&plan, "DeletePod"));
            assert_eq!(
                got, expected,
                "maxUnavailable {max_unavailable}, maxSurge {max_surge}, down {down:?}, asked {asked}"
            );
            if max_surge > 0 || down.is_none() || down == Some(asked) {
                world.settle();
                assert!(!names(&world).contains(&asked_name));
                assert_eq!(world.pods().len(), 4);
            }
        }
    }
}

#[test]
fn on_delete_creates_replacement_before_deletion() {
    let strategy =
        json!({"type": "OnDelete", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}});
    let mut world = World::settled(3, template("web:1"), strategy);
    world.set_template(template("web:2"));
    world.settle();
    assert_eq!(
        (world.status().updated_replicas, world.pods().len()),
        (0, 3),
        "no pod is updated, and no pod is created"
    );
    world.ask_to_go(0);
    let plan = world.plan();
    assert_eq!(
        (count(&plan, "CreatePod"), count(&plan, "DeletePod")),
        (1, 0)
    );
    world.settle();
    assert_eq!(
        (world.status().updated_replicas, world.pods().len()),
        (1, 3)
    );
}

#[test]
fn scaling_up_stops_at_its_own_limit() {
    let mut world = World::settled(2, template("web:1"), in_place(json!({"maxUnavailable": 1})));
    let set = Arc::make_mut(&mut world.set);
    set.spec.replicas = Some(7);
    set.spec.scale_strategy.max_unavailable = serde_json::from_value(json!("40%")).unwrap();
    assert_eq!(count(&world.step(), "CreatePod"), 3, "40% of 7, rounded up");
    assert_eq!(count(&world.step(), "CreatePod"), 0);
    world.settle();
    assert_eq!(world.status().available_replicas, 7);
}

#[test]
fn percentages_are_rounded_as_the_limits_say() {
    // replicas, partition, maxUnavailable, maxSurge => updated at the end, pods at most, available
    // at least
    let table = [
        // 90% of eight is 7.2: all eight would stay, but under 100% at least one goes.
        (8, json!("90%"), json!("20%"), json!(0), (1, 8, 6)),
        (8, json!("90%"), json!("20%"), json!("10%"), (1, 9, 7)),
        (5, json!(3), json!(0), json!("20%"), (2, 6, 5)),
        (3, json!("99%"), json!("1%"), json!(0), (1, 3, 2)),
        (1, json!("99%"), json!("1%"), json!(0), (0, 1, 1)),
        (4, json!("250%"), json!(1), json!(0), (0, 4, 4)),
    ];
    for (replicas, partition, max_unavailable, max_surge, (updated, most, least)) in table {
        let case = format!(
            "{replicas} replicas, partition {partition}, maxUnavailable {max_unavailable}, maxSurge {max_surge}"
        );
        let rolling = json!({"partition": partition, "maxUnavailable": max_unavailable, "maxSurge": max_surge});
        let mut world = World::settled(replicas, template("web:1"), in_place(rolling));
        world.set_template(template("web:2"));
        let (mut pods, mut available) = (0, usize::MAX);
        for _ in 0..40 {
            world.step();
            world.run_kubelets();
            pods = pods.max(world.tally().pods);
            available = available.min(world.tally().available);
        }
        let status = world.status();
        assert_eq!(
            (status.updated_replicas, status.expected_updated_replicas),
            (updated, updated),
            "{case}"
        );
        assert!(
            pods <= most && available >= least,
            "{case}: {pods} pods, {available} available"
        );
    }
}

#[test]
fn partition_keeps_current_revision_over_zero_pods() {
    // partition while there are no pods, and with five of them => pods of the old image
    let table = [
        (json!(4), json!(4), 4),
        (json!("80%"), json!("80%"), 4),
        (json!("1%"), json!("1%"), 1),
        (json!(9), json!(9), 5),
        (json!(0), json!(4), 0),
        (json!("0%"), json!("80%"), 0),
        (json!(null), json!(4), 0),
    ];
    for (between, then, old) in table {
        let case = format!("{between}, then {then}");
        let mut world = World::settled(5, template("web:1"), in_place(json!({"partition": 4})));
        Arc::make_mut(&mut world.set).spec.revision_history_limit = Some(0);
        world.set_template(template("web:2"));
        world.settle();
        world.edit_rolling_update("partition", between);
        for replicas in [0, 5] {
            Arc::make_mut(&mut world.set).spec.replicas = Some(replicas);
            world.settle();
            world.edit_rolling_update("partition", then.clone());
        }
        assert_eq!(
            world
                .images()
                .iter()
                .filter(|image| *image == "web:1")
                .count(),
            old,
            "{case}"
        );
    }
}

#[test]
fn partition_of_new_set_finds_no_older_revision() {
    let mut world = World::settled(0, template("web:1"), in_place(json!({"partition": 4})));
    let status = world.status();
    assert_eq!(status.current_revision, status.update_revision);
    Arc::make_mut(&mut world.set).spec.replicas = Some(5);
    world.settle();
    assert_eq!(world.images(), ["web:1"; 5]);
}

#[test]
fn pods_beyond_plan_size_are_created_by_next_plan() {
    let mut large = template("web:1");
    large["metadata"]["annotations"] = json!({"note": "x".repeat(1 << 20)});
    let mut world = World::new(20, large, strategy(json!({})));
    world.step();
    let plan = world.step();
    assert_eq!(count(&plan, "CreatePod"), 8, "of a MiB each");
    let waits = |plan: &Plan| {
        plan.waiting
            .iter()
            .any(|waiting| waiting.reason.contains("more pods are created"))
    };
    assert!(
        waits(&plan) && plan.look_again.is_some(),
        "{:?}",
        plan.waiting
    );
    assert_eq!(
        [
            count(&world.step(), "CreatePod"),
            count(&world.step(), "CreatePod")
        ],
        [8, 4]
    );
    assert_eq!(
        (count(&world.step(), "CreatePod"), waits(&world.plan())),
        (0, false)
    );
}

#[test]
fn pod_larger_than_the_plan_size_is_created_alone() {
    let mut large = template("web:1");
    large["metadata"]["annotations"] = json!({"note": "x".repeat(9 << 20)});
    let mut world = World::new(2, large, strategy(json!({})));
    world.step();
    assert_eq!(
        [1, 1, 0].map(|_| count(&world.step(), "CreatePod")),
        [1, 1, 0]
    );
}
