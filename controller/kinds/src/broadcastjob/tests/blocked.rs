//! What holds a job back.

use berth_api::v1beta1::broadcastjob::phase;
use berth_workload::plan::{Deed, Failure, Verb};
use berth_workload::podset::Unreadable;
use berth_workload::resource::{POD_TEMPLATES, PODS};
use serde_json::json;

use super::super::simulation::World;
use super::super::{Snapshot, decide, status};
use super::{condition, counts, is, stages};

fn refusal(verb: Verb, code: u16) -> Failure {
    let resource = if verb == Verb::Validate { POD_TEMPLATES } else { PODS };
    let message = "admission webhook denied it".to_owned();
    Failure {
        deed: Deed::of(verb, resource),
        object: String::new(),
        message,
        code,
        permanent: true,
        outdated: false,
        taken: false,
    }
}

#[test]
fn a_refused_creation_is_not_active_and_blocks_and_then_one_pod_is_tried() {
    let mut world = World::new(3, json!({}));
    world.refuses = Some(refusal(Verb::Create, 403));
    world.settle();
    assert_eq!(counts(&world), is(phase::RUNNING, [3, 0, 0, 0]));
    let (reason, message) = condition(&world, "Blocked").unwrap();
    assert_eq!(reason, "CreateRefused");
    assert!(message.contains("BroadcastJob default/job") && message.contains("denied"), "{message}");
    assert_eq!(stages(&world.plan()), [("check the template", 1), ("create pods", 1)]);
    world.refuses = None;
    world.settle();
    assert_eq!((counts(&world), condition(&world, "Blocked")), (is(phase::RUNNING, [3, 3, 0, 0]), None));
}

#[test]
fn a_name_that_is_anothers_blocks() {
    let mut world = World::new(1, json!({}));
    world.refuses = Some(Failure { taken: true, permanent: false, outdated: true, ..refusal(Verb::Create, 409) });
    world.settle();
    let (reason, message) = condition(&world, "Blocked").unwrap();
    assert!(reason == "NameTaken" && message.contains(&world.pod_of("n0")), "{message}");
}

#[test]
fn a_spec_that_makes_no_sense_blocks_and_names_the_field() {
    for (change, field) in [
        (json!({"spec": {"template": {"spec": {"restartPolicy": "Always"}}}}), "spec.template.spec.restartPolicy"),
        (
            json!({"spec": {"template": {"metadata": {"labels": {"broadcastjob-name": "x"}}}}}),
            "labels[broadcastjob-name]",
        ),
        (json!({"spec": {"parallelism": "abc%"}}), "spec.parallelism"),
        (json!({"spec": {"parallelism": -1}}), "spec.parallelism"),
        (json!({"metadata": {"annotations": {"apps.kruise.io/wait-after-node": "soon"}}}), "wait-after-node"),
        (json!({"metadata": {"name": "a.b"}}), "metadata.name"),
    ] {
        let mut world = World::new(1, json!({}));
        world.edit_job(&change);
        world.settle();
        let (reason, message) = condition(&world, "Blocked").unwrap();
        assert!(reason == "InvalidSpec" && message.contains(field), "{message}");
        assert_eq!(world.pods.len(), 0);
    }
}

#[test]
fn a_pod_without_a_node_blocks_after_a_minute_and_one_that_runs_unready_does_not() {
    let mut world = World::new(2, json!({}));
    world.settle();
    world.start(&world.pod_of("n0"));
    let unscheduled = json!({"status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "no room", "lastTransitionTime": world.now}]}});
    world.edit_pod(&world.pod_of("n1"), &unscheduled);
    world.settle();
    assert_eq!(condition(&world, "Blocked"), None);
    world.pass(61);
    world.settle();
    let (reason, message) = condition(&world, "Blocked").unwrap();
    assert!(reason == "PodUnschedulable" && message.contains("no room"), "{message}");
    world.edit_pod(&world.pod_of("n1"), &json!({"status": {"conditions": []}}));
    world.start(&world.pod_of("n1"));
    world.pass(3_600);
    world.settle();
    assert_eq!(condition(&world, "Blocked"), None);
}

#[test]
fn nothing_is_done_while_a_pod_cannot_be_read() {
    let mut world = World::new(2, json!({}));
    world.see();
    let odd = Unreadable { kind: "Pod", name: "job-x".to_owned(), error: "odd".to_owned() };
    let snapshot = Snapshot { unreadable: vec![odd], ..world.snapshot().unwrap() };
    let plan = decide(&snapshot, world.now);
    assert!(plan.is_idle());
    let told = status(&snapshot, &plan, &Default::default(), world.now);
    assert_eq!(told.conditions[0].reason, "Unreadable");
}
