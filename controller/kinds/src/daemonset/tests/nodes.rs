//! Nodes that have a pod, in every state of the nodes.

use berth_api::names::annotation::{DAEMONSET_HOLD_REVISION, DAEMONSET_IGNORE_UNSCHEDULABLE};
use serde_json::json;

use super::super::simulation::World;

fn taint(effect: &str) -> serde_json::Value {
    json!({"spec": {"taints": [{"key": "k", "value": "v", "effect": effect}]}})
}

#[test]
fn each_node_has_one_pod_and_the_status_counts_nodes() {
    let world = World::settled(3, json!({}));
    assert_eq!(world.images(), ["n0 0", "n1 0", "n2 0"]);
    let status = world.status();
    let counts = (
        status.desired_number_scheduled,
        status.current_number_scheduled,
        status.number_ready,
    );
    assert_eq!(counts, (3, 3, 3));
    assert_eq!(
        (
            status.updated_number_scheduled,
            status.number_available,
            status.number_unavailable
        ),
        (3, 3, 0)
    );
    assert_eq!(
        (status.number_misscheduled, status.observed_generation),
        (0, 1)
    );
    let pods = world.all_pods();
    let label = pods[0].metadata.label("controller-revision-hash").unwrap();
    assert_eq!(label, status.update_revision, "the label is the short hash");
    let revision = world.revisions.values().next().unwrap();
    assert_eq!(
        revision["metadata"]["labels"]["controller-revision-hash"],
        label
    );
    assert!(
        pods.iter().all(|pod| pod.spec.readiness_gates.len() == 1),
        "{:?}",
        pods[0].spec.readiness_gates
    );
}

#[test]
fn joining_node_gets_pod_and_deleted_node_loses_it() {
    let mut world = World::settled(2, json!({}));
    world.add_node("n9");
    world.settle();
    assert_eq!(world.images(), ["n0 0", "n1 0", "n9 0"]);
    world.nodes.remove("n0");
    world.settle();
    assert_eq!(world.images(), ["n1 0", "n9 0"]);
}

#[test]
fn pending_pod_of_deleted_node_is_deleted() {
    let mut world = World::settled(1, json!({}));
    world.add_node("n1");
    world.step();
    world.nodes.remove("n1");
    world.settle();
    assert_eq!(world.images(), ["n0 0"]);
}

#[test]
fn no_schedule_keeps_pods_no_execute_deletes_them() {
    let mut world = World::settled(2, json!({}));
    world.change_node("n0", &taint("NoSchedule"));
    world.settle();
    assert_eq!(world.images(), ["n0 0", "n1 0"]);
    let status = world.status();
    assert_eq!(
        (status.desired_number_scheduled, status.number_misscheduled),
        (1, 1)
    );
    world.delete(&world.pod_of("n0"));
    world.settle();
    assert_eq!(world.images(), ["n0", "n1 0"]);
    world.change_node("n1", &taint("NoExecute"));
    world.settle();
    assert_eq!(world.images(), ["n0", "n1"]);
    world.change_node("n1", &json!({"spec": {"taints": []}}));
    world.settle();
    assert_eq!(world.images(), ["n0", "n1 0"]);
}

#[test]
fn node_selector_adds_and_deletes_pods() {
    let selects = json!({"template": {"spec": {"nodeSelector": {"zone": "a"}}}});
    let mut world = World::settled(2, selects);
    assert_eq!(world.images(), ["n0", "n1"]);
    world.change_node("n1", &json!({"metadata": {"labels": {"zone": "a"}}}));
    world.settle();
    assert_eq!(world.images(), ["n0", "n1 0"]);
    world.change_node("n1", &json!({"metadata": {"labels": {"zone": "b"}}}));
    world.settle();
    assert_eq!(world.images(), ["n0", "n1"]);
}

#[test]
fn cordoned_node_gets_pod_unless_annotation_excludes() {
    let mut world = World::settled(2, json!({}));
    let cordon = |yes: bool| {
        let taints = if yes {
            json!([{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}])
        } else {
            json!([])
        };
        json!({"spec": {"unschedulable": yes, "taints": taints}})
    };
    world.change_node("n0", &cordon(true));
    world.delete(&world.pod_of("n0"));
    world.settle();
    assert_eq!(world.images(), ["n0 0", "n1 0"]);
    world.annotate(DAEMONSET_IGNORE_UNSCHEDULABLE, "true");
    world.settle();
    assert_eq!(world.images(), ["n0 0", "n1 0"], "what is there stays");
    world.delete(&world.pod_of("n0"));
    world.settle();
    assert_eq!(world.images(), ["n0", "n1 0"]);
    world.change_node("n0", &cordon(false));
    world.settle();
    assert_eq!(world.images(), ["n0 0", "n1 0"]);
}

#[test]
fn oldest_of_several_pods_on_a_node_stays() {
    let mut world = World::settled(1, json!({}));
    let first = world.pod_of("n0");
    let mut second = world.pods[&first].clone();
    second["metadata"]["name"] = json!("log-a2b4c");
    second["metadata"]["uid"] = json!("second");
    second["metadata"]["creationTimestamp"] = json!(world.now());
    world.pods.insert("log-a2b4c".to_owned(), second);
    world.settle();
    assert_eq!(world.pods.keys().collect::<Vec<_>>(), [&first]);
}

#[test]
fn ended_pod_is_replaced_with_backoff_on_ready_node() {
    for phase in ["Failed", "Succeeded"] {
        let mut world = World::settled(1, json!({}));
        let mut waits = Vec::new();
        for _ in 0..4 {
            let pod = world.pod_of("n0");
            world.end(&pod, phase);
            let before = world.now();
            while world.pods.contains_key(&pod) {
                world.step();
                world.run_kubelets();
                world.pass(1);
            }
            waits.push(world.now().duration_since(before).as_secs());
            world.step();
            world.run_kubelets();
            world.run_kubelets();
        }
        assert!(
            waits.windows(2).all(|pair| pair[0] <= pair[1]) && waits[3] > waits[0],
            "{phase}: {waits:?}"
        );
        world.set_ready("n0", false);
        let pod = world.pod_of("n0");
        world.end(&pod, phase);
        world.pass(3600);
        assert!(world.plan().is_idle(), "{phase}");
        world.set_ready("n0", true);
        world.settle();
        assert!(!world.pods.contains_key(&pod), "{phase}");
    }
}

#[test]
fn burst_replicas_limit_creations_and_deletions() {
    let mut world = World::new(5, json!({"burstReplicas": 2}));
    world.step();
    world.step();
    assert_eq!(world.pods.len(), 2);
    world.settle();
    assert_eq!(world.pods.len(), 5);
    world.merge(&json!({"template": {"spec": {"nodeSelector": {"no": "where"}}}}));
    world.step();
    world.step();
    let going = world
        .all_pods()
        .iter()
        .filter(|pod| pod.metadata.deletion_timestamp.is_some())
        .count();
    assert_eq!(going, 2);
    world.settle();
    assert_eq!(world.pods.len(), 0);
}

#[test]
fn partitioned_scaling_creates_pods_up_to_partition() {
    let partition = |nodes: i32| json!({"updateStrategy": {"rollingUpdate": {"partition": nodes}}});
    for holds in ["false", "true"] {
        let mut world = World::new(4, json!({"scaleStrategy": {"partitionedScaling": true}}));
        world.annotate(DAEMONSET_HOLD_REVISION, holds);
        world.merge(&partition(3));
        world.settle();
        assert_eq!(world.images(), ["n0 0", "n1", "n2", "n3"], "holds: {holds}");
        world.merge(&partition(1));
        world.settle();
        assert_eq!(
            world.images(),
            ["n0 0", "n1 0", "n2 0", "n3"],
            "holds: {holds}"
        );
    }
}

#[test]
fn partitioned_scaling_recreates_held_old_revision() {
    for (holds, expected) in [("false", "n0"), ("true", "n0 0")] {
        let fields = json!({"partition": 2});
        let mut world = World::settled(3, json!({"updateStrategy": {"rollingUpdate": fields}}));
        world.annotate(DAEMONSET_HOLD_REVISION, holds);
        world.merge(&json!({"scaleStrategy": {"partitionedScaling": true}}));
        world.set_image("log:1");
        world.settle();
        world.delete(&world.pod_of("n0"));
        world.settle();
        assert_eq!(world.images(), [expected, "n1 0", "n2 1"], "holds: {holds}");
    }
}

#[test]
fn nodes_empty_by_partitioned_scaling_use_no_budget() {
    let fields = json!({"scaleStrategy": {"partitionedScaling": true}, "updateStrategy": {"rollingUpdate": {"partition": 3}}});
    let mut world = World::settled(4, fields);
    assert_eq!(world.images(), ["n0 0", "n1", "n2", "n3"]);
    let first = world.pod_of("n0");
    world.label(&first, "apps.kruise.io/specified-delete", "true");
    world.settle();
    assert!(!world.pods.contains_key(&first));
    assert_eq!(world.images(), ["n0 0", "n1", "n2", "n3"]);
}

/// The pod does not wait for the others, and they do not wait for it.
#[test]
fn requested_deletion_on_unfit_node_uses_no_budget() {
    for is_broken in [true, false] {
        let mut world = World::settled(3, json!({}));
        world.annotate(DAEMONSET_IGNORE_UNSCHEDULABLE, "true");
        world.change_node("n2", &json!({"spec": {"unschedulable": true}}));
        world.set_image("log:1");
        world.step();
        let (other, asked) = (world.pod_of("n1"), world.pod_of("n2"));
        if is_broken {
            world.break_pod(&other);
        }
        world.label(&asked, "apps.kruise.io/specified-delete", "true");
        world.step();
        assert_eq!(world.images(), ["n0 0", "n1 (0)", "n2 (0)"], "{is_broken}");
    }
}

#[test]
fn hook_delays_each_deletion_and_replacement() {
    let labels = json!({"labels": {"app": "log", "keep": "true"}});
    let hook = json!({"preDelete": {"labelsHandler": {"keep": "true"}}});
    let mut world = World::settled(
        2,
        json!({"lifecycle": hook, "template": {"metadata": labels}}),
    );
    world.change_node("n0", &taint("NoExecute"));
    world.settle();
    let held = world.pod_of("n0");
    assert_eq!(
        world.pods[&held]["metadata"]["labels"]["lifecycle.apps.kruise.io/state"],
        "PreparingDelete"
    );
    world.change_node("n0", &json!({"spec": {"taints": []}}));
    world.settle();
    assert_eq!(world.pod_of("n0"), held, "it is held");
    world.label(&held, "keep", "no");
    world.settle();
    assert!(!world.pods.contains_key(&held) && world.images() == ["n0 0", "n1 0"]);
    for phase in ["Failed", "Succeeded"] {
        let ended = world.pod_of("n1");
        world.end(&ended, phase);
        world.settle();
        let labels = &world.pods[&ended]["metadata"]["labels"];
        assert_eq!(
            labels["lifecycle.apps.kruise.io/state"], "PreparingDelete",
            "{phase}"
        );
        assert_eq!(
            world.pod_of("n1"),
            ended,
            "{phase}: no other comes before it is let go"
        );
        world.label(&ended, "keep", "no");
        world.settle();
        assert!(
            !world.pods.contains_key(&ended) && world.images() == ["n0 0", "n1 0"],
            "{phase}"
        );
    }
}

/// On a node that is not ready no pod serves, so its pod costs no budget, and the failure of a new
/// pod is not visible.
#[test]
fn failing_revision_reaches_no_unready_node() {
    for (breaks, expected) in [
        (true, ["n0 0", "n1 0", "n2 0", "n3 0", "n4 0", "n5 1"]),
        (false, ["n0 0", "n1 (0)", "n2 (0)", "n3 0", "n4 0", "n5 1"]),
    ] {
        let rolling =
            |fields: serde_json::Value| json!({"updateStrategy": {"rollingUpdate": fields}});
        let mut world = World::settled(6, rolling(json!({"maxUnavailable": 2, "partition": 5})));
        world.set_image("log:1");
        world.settle();
        if breaks {
            let pod = world.pod_of("n5");
            world.break_pod(&pod);
        }
        for node in ["n1", "n2"] {
            world.set_ready(node, false);
        }
        world.merge(&rolling(json!({"partition": 0})));
        for _ in 0..3 {
            world.step();
        }
        assert_eq!(world.images(), expected, "n5 is broken: {breaks}");
    }
}
