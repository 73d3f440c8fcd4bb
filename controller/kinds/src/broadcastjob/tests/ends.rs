//! Failures, pauses, deadlines, and the end of a job.

use berth_api::v1beta1::broadcastjob::phase;
use berth_workload::plan::Action;
use jiff::SignedDuration;
use serde_json::json;

use super::super::simulation::World;
use super::{all, condition, counts, is, running};

#[test]
fn failed_pod_fails_job_and_deletes_running_pods() {
    let mut world = running(json!({}));
    world.finish(&world.pod_of("n0"), "Succeeded");
    world.finish(&world.pod_of("n1"), "Failed");
    world.see();
    // The result is written first, so that a controller which restarts after a crash finds it.
    assert!(world.plan().is_idle());
    world.settle();
    assert_eq!(counts(&world), is(phase::FAILED, [3, 0, 1, 2]));
    assert_eq!(condition(&world, "Failed").unwrap().0, "Failed");
    let leaving = |name: String| !world.pods[&name]["metadata"]["deletionTimestamp"].is_null();
    assert_eq!(
        ["n0", "n1", "n2"].map(|node| leaving(world.pod_of(node))),
        [false, false, true]
    );
}

#[test]
fn continue_policy_completes_job_with_failures() {
    let mut world = running(json!({"failurePolicy": {"type": "Continue"}}));
    world.finish(&world.pod_of("n1"), "Failed");
    all(&mut world, "Succeeded");
    world.settle();
    assert_eq!(counts(&world), is(phase::COMPLETED, [3, 0, 2, 1]));
}

#[test]
fn failure_pauses_spec_and_resume_accepts_failures() {
    let mut world = running(json!({"parallelism": 1, "failurePolicy": {"type": "Pause"}}));
    world.finish(&world.pod_of("n0"), "Failed");
    world.settle();
    assert_eq!(world.job.as_ref().unwrap()["spec"]["paused"], json!(true));
    assert_eq!(
        (counts(&world), world.pods.len()),
        (is(phase::PAUSED, [3, 0, 0, 1]), 1)
    );
    assert!(world.events.contains(&"Paused".to_owned()));
    world.edit_job(&json!({"spec": {"paused": false}}));
    world.settle();
    assert_eq!(
        (counts(&world), world.pods.len()),
        (is(phase::RUNNING, [3, 1, 0, 1]), 2)
    );
    assert!(world.events.contains(&"Continue".to_owned()));
    // The next failure pauses again.
    world.start(&world.pod_of("n1"));
    world.finish(&world.pod_of("n1"), "Failed");
    world.settle();
    assert_eq!(counts(&world), is(phase::PAUSED, [3, 0, 0, 2]));
    world.edit_job(&json!({"spec": {"paused": false}}));
    world.settle();
    all(&mut world, "Succeeded");
    world.settle();
    assert_eq!(counts(&world), is(phase::COMPLETED, [3, 0, 1, 2]));
}

#[test]
fn job_resumed_at_once_is_not_paused_again() {
    for loses_answer in [false, true] {
        let mut world = running(json!({"parallelism": 1, "failurePolicy": {"type": "Pause"}}));
        world.finish(&world.pod_of("n0"), "Failed");
        world.loses_answer = loses_answer;
        for _ in 0..20 {
            world.see();
            world.round(None);
            if world.job.as_ref().unwrap()["status"]["phase"] == phase::PAUSED {
                break;
            }
        }
        world.edit_job(&json!({"spec": {"paused": false}}));
        world.settle();
        assert_eq!(
            (counts(&world), world.pods.len()),
            (is(phase::RUNNING, [3, 1, 0, 1]), 2),
            "{loses_answer}"
        );
    }
}

#[test]
fn paused_job_ignores_deadline_and_failures() {
    let mut world =
        running(json!({"parallelism": 2, "completionPolicy": {"activeDeadlineSeconds": 60}}));
    world.edit_job(&json!({"spec": {"paused": true}}));
    world.pass(100);
    world.finish(&world.pod_of("n0"), "Failed");
    world.settle();
    assert_eq!(
        (counts(&world), world.pods.len()),
        (is(phase::PAUSED, [3, 1, 0, 1]), 2)
    );
    world.edit_job(&json!({"spec": {"paused": false}}));
    world.settle();
    assert_eq!(counts(&world).0, phase::FAILED);
}

#[test]
fn deadline_counts_from_start_after_restart() {
    let mut world =
        running(json!({"parallelism": 2, "completionPolicy": {"activeDeadlineSeconds": 60}}));
    world.pass(59);
    world.restart();
    let plan = world.plan();
    assert_eq!(
        (plan.is_idle(), plan.look_again),
        (true, Some(SignedDuration::from_secs(1)))
    );
    world.pass(1);
    world.settle();
    assert!(world.events.contains(&"DeadlineExceeded".to_owned()));
    assert_eq!(counts(&world), is(phase::FAILED, [3, 0, 0, 2]));
    assert!(
        world
            .pods
            .values()
            .all(|pod| !pod["metadata"]["deletionTimestamp"].is_null())
    );
}

#[test]
fn pod_past_restart_limit_fails_before_deletion() {
    let spec = json!({"failurePolicy": {"type": "Continue", "restartLimit": 2}, "template": {"spec": {"restartPolicy": "OnFailure"}}});
    let restarted = |a: i32, b: i32| json!({"status": {"containerStatuses": [{"name": "main", "restartCount": a}], "initContainerStatuses": [{"name": "i", "restartCount": b}]}});
    let mut world = running(spec.clone());
    let pod = world.pod_of("n0");
    world.edit_pod(&pod, &restarted(1, 1));
    world.settle();
    assert_eq!(counts(&world), is(phase::RUNNING, [3, 3, 0, 0]));
    world.edit_pod(&pod, &restarted(2, 1));
    assert!(world.plan().is_idle(), "first it is written down");
    world.settle();
    assert_eq!(counts(&world), is(phase::RUNNING, [3, 2, 0, 1]));
    assert!(!world.pods[&pod]["metadata"]["deletionTimestamp"].is_null());
    world.set_pod(&pod, None);
    all(&mut world, "Succeeded");
    world.settle();
    assert_eq!(
        (counts(&world), world.pods.len()),
        (is(phase::COMPLETED, [3, 0, 2, 1]), 2)
    );
    // Pods that never restart have no limit.
    let mut world = running(json!({}));
    world.edit_pod(&world.pod_of("n0"), &restarted(9, 9));
    world.settle();
    assert_eq!(counts(&world), is(phase::RUNNING, [3, 3, 0, 0]));
}

#[test]
fn finished_job_is_deleted_after_its_ttl() {
    let mut world = running(json!({"completionPolicy": {"ttlSecondsAfterFinished": 30}}));
    all(&mut world, "Succeeded");
    world.settle();
    world.pass(29);
    assert_eq!(world.plan().look_again, Some(SignedDuration::from_secs(1)));
    world.pass(1);
    let plan = world.plan();
    assert!(
        matches!(plan.actions().next(), Some(Action::Delete { .. })),
        "{plan:?}"
    );
}

#[test]
fn next_node_waits_for_wait_after_node_annotation() {
    let mut world = World::new(3, json!({"parallelism": 1}));
    world
        .edit_job(&json!({"metadata": {"annotations": {"apps.kruise.io/wait-after-node": "30s"}}}));
    world.settle();
    all(&mut world, "Succeeded");
    world.settle();
    assert_eq!(world.pods.len(), 1);
    world.pass(29);
    world.restart();
    let plan = world.plan();
    assert_eq!(
        (plan.is_idle(), plan.look_again),
        (true, Some(SignedDuration::from_secs(1)))
    );
    world.pass(1);
    world.settle();
    assert_eq!(world.pods.len(), 2);
}
