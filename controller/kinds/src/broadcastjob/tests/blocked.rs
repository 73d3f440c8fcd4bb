//! Causes that block a job.

use berth_api::v1beta1::broadcastjob::phase;
use berth_workload::objects::resource::{POD_TEMPLATES, PODS};
use berth_workload::plan::{Failure, Verb, Write};
use berth_workload::update::podset::Unreadable;
use serde_json::json;

use super::super::simulation::World;
use super::super::{Snapshot, decide, status};
use super::{condition, counts, is, running, stages};

fn refusal(verb: Verb, code: u16) -> Failure {
    let resource = if verb == Verb::Validate {
        POD_TEMPLATES
    } else {
        PODS
    };
    let message = "admission webhook denied it".to_owned();
    Failure {
        write: Write::of(verb, resource),
        namespace: "default".to_owned(),
        object: String::new(),
        message,
        code,
        permanent: true,
        outdated: false,
        taken: false,
        infeasible: false,
    }
}

#[test]
fn refused_creation_blocks_and_retries_one_pod() {
    let mut world = World::new(3, json!({}));
    world.refuses = Some(refusal(Verb::Create, 403));
    world.settle();
    assert_eq!(counts(&world), is(phase::RUNNING, [3, 0, 0, 0]));
    let (reason, message) = condition(&world, "Blocked").unwrap();
    assert_eq!(reason, "CreateRefused");
    assert!(
        message.contains("BroadcastJob default/job") && message.contains("denied"),
        "{message}"
    );
    assert_eq!(
        stages(&world.plan()),
        [("check the template", 1), ("create pods", 1)]
    );
    world.refuses = None;
    world.settle();
    assert_eq!(
        (counts(&world), condition(&world, "Blocked")),
        (is(phase::RUNNING, [3, 3, 0, 0]), None)
    );
}

#[test]
fn pod_name_of_another_owner_blocks() {
    let mut world = World::new(1, json!({}));
    world.refuses = Some(Failure {
        taken: true,
        permanent: false,
        outdated: true,
        ..refusal(Verb::Create, 409)
    });
    world.settle();
    let (reason, message) = condition(&world, "Blocked").unwrap();
    assert!(
        reason == "NameTaken" && message.contains(&world.pod_of("n0")),
        "{message}"
    );
}

#[test]
fn invalid_spec_blocks_and_names_the_field() {
    for (change, field) in [
        (
            json!({"spec": {"template": {"spec": {"restartPolicy": "Always"}}}}),
            "spec.template.spec.restartPolicy",
        ),
        (
            json!({"spec": {"template": {"metadata": {"labels": {"broadcastjob-name": "x"}}}}}),
            "labels[broadcastjob-name]",
        ),
        (json!({"spec": {"parallelism": "abc%"}}), "spec.parallelism"),
        (json!({"spec": {"parallelism": -1}}), "spec.parallelism"),
        (
            json!({"metadata": {"annotations": {"apps.kruise.io/wait-after-node": "soon"}}}),
            "wait-after-node",
        ),
        (json!({"metadata": {"name": "a.b"}}), "metadata.name"),
    ] {
        let mut world = World::new(1, json!({}));
        world.edit_job(&change);
        world.settle();
        let (reason, message) = condition(&world, "Blocked").unwrap();
        assert!(
            reason == "InvalidSpec" && message.contains(field),
            "{message}"
        );
        assert_eq!(world.pods.len(), 0);
    }
}

#[test]
fn unschedulable_pod_blocks_unready_pod_does_not() {
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
    assert!(
        reason == "PodUnschedulable" && message.contains("no room"),
        "{message}"
    );
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
    let odd = Unreadable {
        kind: "Pod",
        name: "job-x".to_owned(),
        error: "odd".to_owned(),
    };
    let snapshot = Snapshot {
        unreadable: vec![odd],
        ..world.snapshot().unwrap()
    };
    let plan = decide(&snapshot, world.now);
    assert!(plan.is_idle());
    let told = status(&snapshot, &plan, &Default::default(), world.now);
    assert_eq!(told.conditions[0].reason, "Unreadable");
}

#[test]
fn job_without_fitting_node_blocks_with_cause() {
    let asks =
        json!({"containers": [{"name": "main", "resources": {"requests": {"cpu": "1000"}}}]});
    for (spec, words) in [
        (
            asks,
            "none of 2 nodes can have a pod of spec.template: 2 for too little allocatable cpu; correct",
        ),
        (
            json!({"nodeSelector": {"disk": "fast"}}),
            "2 for nodeName, nodeSelector or the required node affinity; correct",
        ),
    ] {
        let mut world = World::new(2, json!({"template": {"spec": spec}}));
        world.settle();
        assert_eq!(
            (counts(&world), condition(&world, "Blocked")),
            (is(phase::RUNNING, [0, 0, 0, 0]), None)
        );
        let plan = world.plan();
        assert!(
            plan.waiting[0].reason.starts_with("none of 2 nodes") && plan.look_again.is_some(),
            "{plan:?}"
        );
        world.pass(61);
        world.settle();
        let (reason, message) = condition(&world, "Blocked").unwrap();
        assert!(reason == "NoNode" && message.contains(words), "{message}");
    }
    let mut world = World::new(1, json!({"completionPolicy": {"type": "Never"}}));
    world.edit_node("n0", &json!({"spec": {"unschedulable": true}}));
    world.settle();
    world.pass(61);
    world.settle();
    assert_eq!(
        condition(&world, "Blocked"),
        None,
        "it serves nodes that join"
    );
}

#[test]
fn pause_by_failure_blocks_pause_by_user_does_not() {
    let mut world = running(json!({"failurePolicy": {"type": "Pause"}}));
    world.edit_job(&json!({"spec": {"paused": true}}));
    world.settle();
    assert_eq!(condition(&world, "Blocked"), None);
    world.edit_job(&json!({"spec": {"paused": false}}));
    world.settle();
    world.finish(&world.pod_of("n1"), "Failed");
    world.settle();
    let (reason, message) = condition(&world, "Blocked").unwrap();
    assert_eq!(reason, "PodFailed");
    for words in [
        "have failed on n1;",
        "broadcastjob-name=job",
        r#"patch bcj job -n default --type merge -p '{"spec":{"paused":false}}'"#,
    ] {
        assert!(message.contains(words), "{message}");
    }
    world.finish(&world.pod_of("n0"), "Failed");
    world.settle();
    assert!(
        condition(&world, "Blocked")
            .unwrap()
            .1
            .contains("have failed on n0, n1;")
    );
    world.edit_job(&json!({"spec": {"paused": false}}));
    world.settle();
    assert_eq!(condition(&world, "Blocked"), None);
    world.edit_job(&json!({"spec": {"paused": true}}));
    world.settle();
    assert_eq!(
        condition(&world, "Blocked"),
        None,
        "what failed was accepted"
    );
}

#[test]
fn nodes_wait_while_parallelism_is_zero() {
    let mut world = World::new(3, json!({"parallelism": 0}));
    world.settle();
    let plan = world.plan();
    assert!(
        plan.waiting[0]
            .reason
            .contains("when spec.parallelism, which lets none run, is raised"),
        "{plan:?}"
    );
}
