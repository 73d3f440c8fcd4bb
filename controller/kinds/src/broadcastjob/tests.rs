//! One rule at a time.

mod blocked;
mod ends;

use berth_api::v1beta1::broadcastjob::{BroadcastJob, phase};
use berth_workload::plan::Plan;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::simulation::{World, read};
use super::{Triggers, is_over, is_trigger, is_urgent};
use crate::model::unknown;

fn stages(plan: &Plan) -> Vec<(&str, usize)> {
    plan.stages
        .iter()
        .map(|stage| (stage.name, stage.steps.len()))
        .collect()
}

fn counts(world: &World) -> (String, [i32; 4]) {
    let status = world.status();
    (
        status.phase,
        [
            status.desired,
            status.active,
            status.succeeded,
            status.failed,
        ],
    )
}

fn is(phase: &str, counts: [i32; 4]) -> (String, [i32; 4]) {
    (phase.to_owned(), counts)
}

fn all(world: &mut World, phase: &str) {
    for name in world.names() {
        world.start(&name);
        world.finish(&name, phase);
    }
}

fn condition(world: &World, type_: &str) -> Option<(String, String)> {
    let status = world.status();
    let found = status
        .conditions
        .into_iter()
        .find(|c| c.type_ == type_ && c.status == "True");
    found.map(|c| (c.reason, c.message))
}

/// A settled job with a running pod on each of three nodes.
fn running(spec: Value) -> World {
    let mut world = World::new(3, spec);
    world.settle();
    world.names().iter().for_each(|name| world.start(name));
    world.settle();
    world
}

#[test]
fn job_runs_pinned_pod_on_each_node_and_completes() {
    let mut world = World::new(3, json!({}));
    let plan = world.plan();
    assert_eq!(
        stages(&plan),
        [("check the template", 1), ("create pods", 3)]
    );
    world.settle();
    assert_eq!(counts(&world), is(phase::RUNNING, [3, 3, 0, 0]));
    assert_eq!(world.pods.len(), 3);
    let pod = world.pods[&world.pod_of("n1")].clone();
    assert_eq!(
        pod["metadata"]["labels"],
        json!({"broadcastjob-name": "job", "broadcastjob-controller-uid": "job-uid"})
    );
    let owner = &pod["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["uid"], &owner["controller"]),
        (&json!("BroadcastJob"), &json!("job-uid"), &json!(true))
    );
    let terms =
        &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    assert_eq!(
        terms["nodeSelectorTerms"][0]["matchFields"][0]["values"],
        json!(["n1"])
    );
    assert_eq!(
        (
            pod["spec"].get("readinessGates"),
            pod["spec"].get("tolerations")
        ),
        (None, None)
    );
    all(&mut world, "Succeeded");
    world.settle();
    assert_eq!(counts(&world), is(phase::COMPLETED, [3, 0, 3, 0]));
    assert_eq!(
        condition(&world, "Complete").unwrap().1,
        "Job default/job is completed, 3 pods succeeded, 0 pods failed"
    );
    assert!(world.status().start_time.is_some() && world.status().completion_time.is_some());
    assert_eq!(
        world
            .events
            .iter()
            .filter(|reason| *reason == "JobComplete")
            .count(),
        1
    );
    assert_eq!((world.plan(), world.pods.len()), (Plan::default(), 3));
}

#[test]
fn unknown_fields_reach_each_pod() {
    let mut world = World::new(
        2,
        json!({"template": unknown::template("busybox", &unknown::value(1))}),
    );
    world.settle();
    let lacking: Vec<_> = world
        .pods
        .values()
        .map(|pod| unknown::lacking(pod, &unknown::value(1)))
        .collect();
    assert_eq!(lacking, [[""; 0]; 2]);
}

#[test]
fn parallelism_limits_pods_and_zero_creates_none() {
    for (parallelism, expected) in [
        (json!(0), 0),
        (json!(1), 1),
        (json!("34%"), 2),
        (json!("0%"), 0),
        (json!(2_147_483_647), 3),
        (json!(null), 3),
    ] {
        let mut world = World::new(3, json!({"parallelism": parallelism}));
        world.settle();
        assert_eq!(world.pods.len(), expected, "{parallelism}");
    }
    let mut world = running(json!({"parallelism": 1}));
    world.finish(&world.names()[0].clone(), "Succeeded");
    world.settle();
    assert_eq!(
        (counts(&world), world.pods.len()),
        (is(phase::RUNNING, [3, 1, 1, 0]), 2)
    );
}

#[test]
fn lowered_parallelism_keeps_pods_and_sends_event() {
    let mut world = running(json!({}));
    world.edit_job(&json!({"spec": {"parallelism": 1}}));
    world.join("n4");
    world.settle();
    assert!(world.events.contains(&"TooManyActivePods".to_owned()));
    assert_eq!((world.pods.len(), world.running()), (3, 3));
}

#[test]
fn a_job_without_nodes_never_ends() {
    let mut world = World::new(0, json!({}));
    world.settle();
    assert_eq!(counts(&world), is(phase::RUNNING, [0, 0, 0, 0]));
    world.join("n0");
    world.settle();
    assert_eq!(counts(&world), is(phase::RUNNING, [1, 1, 0, 0]));
}

#[test]
fn labels_taints_cordon_and_size_decide_about_a_pod() {
    let table = [
        (json!({}), json!({}), true),
        (
            json!({"metadata": {"labels": {"use": "no"}}}),
            json!({}),
            false,
        ),
        (json!({"spec": {"unschedulable": true}}), json!({}), false),
        (
            json!({"spec": {"unschedulable": true}}),
            json!({"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]}),
            true,
        ),
        (
            json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}),
            json!({}),
            false,
        ),
        (
            json!({"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}}),
            json!({}),
            false,
        ),
        (
            json!({"spec": {"taints": [{"key": "k", "effect": "PreferNoSchedule"}]}}),
            json!({}),
            true,
        ),
        (
            json!({"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}}),
            json!({"tolerations": [{"operator": "Exists"}]}),
            true,
        ),
        (
            json!({}),
            json!({"containers": [{"name": "a", "resources": {"requests": {"cpu": "2001m"}}}]}),
            false,
        ),
        (
            json!({"status": {"allocatable": {"pods": "0"}}}),
            json!({}),
            false,
        ),
        (json!({}), json!({"nodeName": "n0"}), true),
        (json!({}), json!({"nodeName": "other"}), false),
        (
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
            json!({}),
            false,
        ),
    ];
    for (node, spec, expected) in table {
        let mut world = World::new(1, json!({"template": {"spec": spec}}));
        world.edit_node("n0", &node);
        world.settle();
        assert_eq!(
            (world.pods.len() == 1, world.status().desired == 1),
            (expected, expected),
            "{node} {spec}"
        );
    }
}

#[test]
fn lost_label_ends_running_pod_taint_does_not() {
    for (node, stays) in [
        (json!({"spec": {"unschedulable": true}}), true),
        (
            json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}),
            true,
        ),
        (
            json!({"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}}),
            true,
        ),
        (json!({"metadata": {"labels": {"use": "no"}}}), false),
    ] {
        let mut world = running(json!({}));
        world.edit_node("n1", &node);
        world.settle();
        let pod = &world.pods[&world.pod_of("n1")];
        assert_eq!(
            pod["metadata"]["deletionTimestamp"].is_null(),
            stays,
            "{node}"
        );
        assert_eq!(world.status().desired, if stays { 3 } else { 2 }, "{node}");
    }
}

#[test]
fn deleted_finished_pod_is_not_run_again() {
    let mut world = running(json!({"parallelism": 3}));
    let (one, two) = (world.pod_of("n0"), world.pod_of("n1"));
    world.finish(&one, "Succeeded");
    // The end is recorded, and the pod is then collected.
    world.settle();
    world.delete_pod(&one);
    world.settle();
    // The pod ended and was gone before the next decision.
    world.finish(&two, "Succeeded");
    world.delete_pod(&two);
    world.settle();
    world.edit_node("n0", &json!({"spec": {"unschedulable": true}}));
    world.settle();
    world.edit_node("n0", &json!({"spec": {"unschedulable": false}}));
    world.settle();
    assert_eq!(
        (counts(&world), world.pods.len()),
        (is(phase::RUNNING, [3, 1, 2, 0]), 1)
    );
    // The next controller knows it, too.
    world.restart();
    world.settle();
    assert_eq!(
        (counts(&world), world.pods.len()),
        (is(phase::RUNNING, [3, 1, 2, 0]), 1)
    );
    all(&mut world, "Succeeded");
    world.settle();
    assert_eq!(counts(&world), is(phase::COMPLETED, [3, 0, 3, 0]));
}

#[test]
fn node_with_same_name_and_new_uid_counts_as_new() {
    let mut world = running(json!({}));
    let old = world.pod_of("n0");
    world.finish(&old, "Succeeded");
    world.settle();
    world.nodes.remove("n0");
    world.settle();
    assert_eq!(counts(&world), is(phase::RUNNING, [2, 2, 0, 0]));
    world.join("n0");
    world.settle();
    assert_eq!(
        (counts(&world), world.pods.len()),
        (is(phase::RUNNING, [3, 3, 0, 0]), 4)
    );
    assert_ne!(world.pod_of("n0"), old);
}

#[test]
fn recreated_node_waits_for_deletion_of_old_pod() {
    let mut world = running(json!({}));
    let old = world.pod_of("n0");
    world.nodes.remove("n0");
    world.join("n0");
    world.settle();
    assert!(!world.pods[&old]["metadata"]["deletionTimestamp"].is_null());
    assert_eq!(world.pods.len(), 3, "the name is busy");
    world.set_pod(&old, None);
    world.settle();
    assert!(world.pods.contains_key(&world.pod_of("n0")));
}

#[test]
fn disrupted_pod_is_replaced_and_counts_as_no_failure() {
    // The node is drained.
    let mut world = running(json!({}));
    let pod = world.pod_of("n0");
    world.disrupt(&pod, &json!({}));
    world.delete_pod(&pod);
    world.settle();
    world.edit_pod(&pod, &json!({"status": {"phase": "Failed"}}));
    world.settle();
    assert_eq!(counts(&world), is(phase::RUNNING, [3, 2, 0, 0]));
    world.set_pod(&pod, None);
    world.settle();
    assert_eq!(
        (counts(&world), world.pods.len()),
        (is(phase::RUNNING, [3, 3, 0, 0]), 3)
    );
    // A lack of memory disrupted the pod, and its node is not ready: the pod stays, and is deleted
    // when the node is ready.
    let mut world = running(json!({}));
    let pod = world.pod_of("n1");
    world.disrupt(&pod, &json!({"status": {"phase": "Failed"}}));
    world.edit_node(
        "n1",
        &json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}),
    );
    world.settle();
    assert_eq!(
        (counts(&world), world.pods[&pod]["status"]["phase"].clone()),
        (is(phase::RUNNING, [3, 2, 0, 0]), json!("Failed"))
    );
    world.edit_node(
        "n1",
        &json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
    );
    world.settle();
    assert_eq!(
        (counts(&world), world.pods[&pod]["status"]["phase"].clone()),
        (is(phase::RUNNING, [3, 3, 0, 0]), json!("Pending"))
    );
}

#[test]
fn endless_job_serves_joining_nodes() {
    let mut world = running(json!({"completionPolicy": {"type": "Never"}}));
    all(&mut world, "Succeeded");
    world.settle();
    assert_eq!(counts(&world), is(phase::RUNNING, [3, 0, 3, 0]));
    world.join("n9");
    world.settle();
    assert_eq!(counts(&world), is(phase::RUNNING, [4, 1, 3, 0]));
}

#[test]
fn pods_of_openkruise_count_for_their_nodes() {
    let mut world = World::new(4, json!({}));
    let pinned = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}});
    world.pass(10);
    for (name, spec, phase, created) in [
        (
            "job-aaaaa",
            json!({"nodeName": "n0"}),
            "Succeeded",
            world.now,
        ),
        (
            "job-bbbbb",
            json!({"affinity": {"nodeAffinity": pinned}}),
            "Pending",
            world.now,
        ),
        ("job-ccccc", json!({"nodeName": "n2"}), "Running", world.now),
        // A pod of an earlier node of the same name.
        (
            "job-ddddd",
            json!({"nodeName": "n3"}),
            "Succeeded",
            world.now - SignedDuration::from_secs(60),
        ),
    ] {
        let metadata = json!({"name": name, "uid": name, "creationTimestamp": created});
        world.set_pod(
            name,
            Some(json!({"metadata": metadata, "spec": spec, "status": {"phase": phase}})),
        );
    }
    world.settle();
    assert_eq!(
        (counts(&world), world.pods.len()),
        (is(phase::RUNNING, [4, 3, 1, 0]), 5)
    );
}

#[test]
fn second_pod_on_a_node_is_deleted() {
    let mut world = running(json!({}));
    let twin = json!({"metadata": {"name": "job-twin", "uid": "twin", "creationTimestamp": world.now + SignedDuration::from_secs(9)},
        "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}});
    world.set_pod("job-twin", Some(twin));
    world.settle();
    assert!(!world.pods["job-twin"]["metadata"]["deletionTimestamp"].is_null());
    assert_eq!(counts(&world), is(phase::RUNNING, [3, 3, 0, 0]));
}

#[test]
fn nodes_that_have_not_begun_get_a_changed_template() {
    let mut world = running(json!({"parallelism": 1}));
    world.edit_job(&json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "busybox:2"}]}}}}));
    world.finish(&world.pod_of("n0"), "Succeeded");
    world.settle();
    let image =
        |node: &str| world.pods[&world.pod_of(node)]["spec"]["containers"][0]["image"].clone();
    assert_eq!(
        (image("n0"), image("n1")),
        (json!("busybox"), json!("busybox:2"))
    );
}

#[test]
fn node_wakes_job_when_fit_changes_not_on_heartbeat() {
    let mut world = World::new(1, json!({}));
    let job: BroadcastJob = read(world.job.as_ref().unwrap());
    let (triggers, old) = (Triggers::new(&job), read(&world.nodes["n0"]));
    let mut after = |change: Value| {
        world.edit_node("n0", &change);
        read(&world.nodes["n0"])
    };
    let heartbeat = after(
        json!({"status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}]}}),
    );
    assert!(!is_trigger(Some(&old), Some(&heartbeat)));
    let labelled = after(json!({"metadata": {"labels": {"other": "x"}}}));
    assert!(
        is_trigger(Some(&old), Some(&labelled)) && !triggers.is_one(Some(&old), Some(&labelled))
    );
    let cordoned = after(json!({"spec": {"unschedulable": true}}));
    assert!(
        is_trigger(Some(&old), Some(&cordoned)) && triggers.is_one(Some(&old), Some(&cordoned))
    );
    assert!(triggers.is_one(None, Some(&old)) && triggers.is_one(Some(&old), None));
    assert!(!is_over(&job));
    for change in [
        json!({"status": {"phase": "completed"}}),
        json!({"status": {"phase": "failed"}}),
        json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
    ] {
        let mut over = world.job.clone().unwrap();
        crate::model::apiserver::merge(&mut over, &change);
        assert!(is_over(&read(&over)), "{change}");
    }
}

#[test]
fn status_is_urgent_except_for_success_counts() {
    let of = |value: Value| serde_json::from_value(value).unwrap();
    let old = of(json!({"phase": "running", "succeeded": 1}));
    assert!(is_urgent(None, &old));
    assert!(!is_urgent(
        Some(&old),
        &of(json!({"phase": "running", "succeeded": 2, "endedNodes": ["+abcdefghijkl"]}))
    ));
    for other in [
        json!({"phase": "paused"}),
        json!({"phase": "running", "failed": 1}),
    ] {
        assert!(is_urgent(Some(&old), &of(other.clone())), "{other}");
    }
}

#[test]
fn cordon_deletes_pending_pod_and_excludes_node() {
    let mut world = World::new(2, json!({}));
    world.settle();
    world.start(&world.pod_of("n0"));
    world.edit_node("n1", &json!({"spec": {"unschedulable": true}}));
    world.settle();
    assert_eq!(
        (counts(&world), world.pods.len()),
        (is(phase::RUNNING, [1, 1, 0, 0]), 1)
    );
    world.edit_node("n1", &json!({"spec": {"unschedulable": false}}));
    world.settle();
    assert_eq!(
        (counts(&world), world.pods.len()),
        (is(phase::RUNNING, [2, 2, 0, 0]), 2)
    );
}

#[test]
fn failure_counts_despite_later_disruption_condition() {
    let mut world = running(json!({"failurePolicy": {"type": "Continue"}}));
    let pod = world.pod_of("n0");
    world.finish(&pod, "Failed");
    // Deleted by a controller that removes pods of a node with a taint, ended or not.
    world.edit_pod(
        &pod,
        &json!({"status": {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}}),
    );
    world.settle();
    assert_eq!(counts(&world), is(phase::RUNNING, [3, 2, 0, 1]));
    world.set_pod(&pod, None);
    world.settle();
    assert_eq!(
        (counts(&world), world.pods.len()),
        (is(phase::RUNNING, [3, 2, 0, 1]), 2)
    );
}
