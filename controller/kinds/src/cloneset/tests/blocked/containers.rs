//! The containers that cause a blocked update.

use super::*;

fn crash(state: Value) -> Value {
    let ended = json!({"terminated": {"exitCode": 1, "reason": "Error"}});
    container(json!({"restartCount": 3, "state": state, "lastState": ended}))
}

/// The pod is another now.
fn with(set: &Snapshot, pod: &Value) -> Snapshot {
    Snapshot {
        set: set.set.clone(),
        ..snapshot(pod, &json!({}))
    }
}

fn reason(set: &mut Snapshot, seconds: i64) -> Option<String> {
    told(set, &Outcome::default(), seconds).map(|c| c.reason)
}

/// Two containers; the second has its own status.
fn two(main: Value, side: Value) -> Value {
    let mut statuses = [
        json!({"name": "main", "ready": false}),
        json!({"name": "side", "ready": false}),
    ];
    statuses
        .iter_mut()
        .zip([main, side])
        .for_each(|(status, more)| merge(status, &more));
    json!({
        "spec": {"containers": [{"name": "main", "image": "web:1"}, {"name": "side", "image": "side:1"}]},
        "status": {"containerStatuses": statuses},
    })
}

#[test]
fn reported_crash_loop_ends_with_its_container() {
    let loops = crash(json!({"waiting": {"reason": "CrashLoopBackOff"}}));
    let first = |state: Value| container(json!({"state": state}));
    let ended = json!({"terminated": {"exitCode": 1, "reason": "Error"}});
    let table = [
        (
            "it runs, until it ends again",
            crash(json!({"running": {}})),
            true,
        ),
        ("it has ended again", crash(ended.clone()), true),
        (
            "a new one runs, and is not ready yet",
            first(json!({"running": {}})),
            false,
        ),
        // It may end well the next time.
        ("a new one has ended once", first(ended), false),
        ("it is ready for a moment", ready_since(1), true),
    ];
    for (what, pod, stays) in table {
        let mut set = snapshot(&loops, &json!({}));
        assert_eq!(
            reason(&mut set, 0).as_deref(),
            Some("ContainerCrashLooping")
        );
        let found = reason(&mut with(&set, &pod), 1);
        assert_eq!(
            found.as_deref(),
            stays.then_some("ContainerCrashLooping"),
            "{what}"
        );
    }
}

/// A pod that crashed, and has been ready since this many seconds after the beginning.
fn ready_since(seconds: i64) -> Value {
    let mut pod = crash(json!({"running": {}}));
    pod["status"]["containerStatuses"][0]["ready"] = json!(true);
    pod["status"]["conditions"] =
        json!([{"type": "Ready", "status": "True", "lastTransitionTime": at(seconds).to_string()}]);
    pod
}

#[test]
fn crash_without_probe_is_reported_between_restarts() {
    let short = json!({"terminated": {"exitCode": 1, "reason": "Error", "startedAt": BEGAN, "finishedAt": BEGAN}});
    let mut set = snapshot(&crash(short.clone()), &json!({}));
    let first = told(&mut set, &Outcome::default(), 0).unwrap();
    assert_eq!(first.reason, "ContainerCrashLooping");
    assert!(
        first
            .message
            .contains("ends again and again with exit code 1"),
        "{}",
        first.message
    );
    for (seconds, pod) in [
        (1, ready_since(1)),
        (2, crash(short.clone())),
        (
            80,
            crash(json!({"waiting": {"reason": "CrashLoopBackOff"}})),
        ),
        (85, ready_since(85)),
        (144, ready_since(85)),
    ] {
        set = with(&set, &pod);
        assert_eq!(
            told(&mut set, &Outcome::default(), seconds).as_ref(),
            Some(&first),
            "after {seconds} s"
        );
    }
    let plan = decide(&set, at(144));
    assert_eq!(
        plan.look_again,
        Some(SignedDuration::from_secs(1)),
        "the end of the condition needs no event"
    );
    assert_eq!(reason(&mut set, 145), None);
}

#[test]
fn container_that_ran_long_is_no_crash_loop() {
    let ended = |exit: i32| json!({"terminated": {"exitCode": exit, "reason": "Error", "startedAt": at(-600).to_string(), "finishedAt": BEGAN}});
    let mut set = snapshot(&crash(ended(1)), &json!({}));
    assert_eq!(reason(&mut set, 0), None);
    let cause = told(&mut set, &Outcome::default(), 60).unwrap();
    assert!(
        cause
            .message
            .contains("its container main has ended with exit code 1"),
        "{}",
        cause.message
    );
    // A container that a pod starts only after a failure ends well.
    let mut pod = crash(json!({"terminated": {"exitCode": 0, "reason": "Completed"}}));
    for (policy, told) in [("OnFailure", false), ("Always", true)] {
        pod["spec"]["restartPolicy"] = json!(policy);
        assert_eq!(
            reason(&mut snapshot(&pod, &json!({})), 0).is_some(),
            told,
            "{policy}"
        );
    }
}

#[test]
fn command_that_does_not_exist_keeps_one_message() {
    let ended = json!({"terminated": {
        "exitCode": 128, "reason": "StartError", "message": "exec: \"/nowhere\": no such file",
        "startedAt": "1970-01-01T00:00:00Z", "finishedAt": BEGAN,
    }});
    let waits = |reason: &str| json!({"waiting": {"reason": reason, "message": "other words"}});
    let mut set = snapshot(&json!({}), &json!({}));
    for (state, last, restarts) in [
        (ended.clone(), json!({"terminated": null}), 0),
        (waits("RunContainerError"), ended.clone(), 1),
        (waits("CrashLoopBackOff"), ended.clone(), 1),
        (ended.clone(), ended.clone(), 1),
    ] {
        let pod = container(json!({"restartCount": restarts, "state": state, "lastState": last}));
        set = with(&set, &pod);
        let cause = told(&mut set, &Outcome::default(), 0).unwrap();
        assert_eq!(cause.reason, "ContainerCannotStart", "{pod}");
        let words = "container main cannot start (StartError); the node says: exec: \"/nowhere\": no such file; correct";
        assert!(cause.message.contains(words), "{}", cause.message);
    }
}

#[test]
fn crash_loop_sends_one_event() {
    let mut set = snapshot(&json!({}), &json!({}));
    let mut events = Vec::new();
    for (seconds, pod) in [
        (0, crash(json!({"waiting": {"reason": "CrashLoopBackOff"}}))),
        (1, ready_since(1)),
        (2, crash(json!({"terminated": {"exitCode": 1}}))),
    ] {
        let old = json!(set.set.status);
        set = with(&set, &pod);
        told(&mut set, &Outcome::default(), seconds);
        events.extend(
            blocked::announced::event(&old, &json!(set.set.status)).map(|event| event.reason),
        );
    }
    assert_eq!(events, ["ContainerCrashLooping"]);
}

#[test]
fn restarted_container_hides_no_failure_of_another() {
    let restarted = json!({"restartCount": 1, "state": {"running": {}}, "lastState": {"terminated": {"exitCode": 1}}});
    let missing =
        json!({"state": {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}});
    for pod in [
        two(restarted.clone(), missing.clone()),
        two(missing, restarted),
    ] {
        assert_eq!(
            reason(&mut snapshot(&pod, &json!({})), 0).as_deref(),
            Some("ImageUnavailable"),
            "{pod}"
        );
    }
}

/// The container fails because the others are not ready, and may work once they are.
#[test]
fn container_before_its_launch_turn_is_no_cause() {
    let loops = json!({"restartCount": 2, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
    let mut pod = two(json!({"state": {"running": {}}}), loops);
    for (at, key) in [(0, "p_0"), (1, "p_-1")] {
        let reference = json!({"configMapKeyRef": {"name": "web-a-barrier", "key": key}});
        pod["spec"]["containers"][at]["env"] =
            json!([{"name": "KRUISE_CONTAINER_BARRIER", "valueFrom": reference}]);
    }
    let mut set = snapshot(&pod, &json!({}));
    assert_eq!(reason(&mut set, 0), None);
    let cause = told(&mut set, &Outcome::default(), 60).unwrap();
    assert_eq!(cause.reason, "PodNotReady");
    assert!(
        cause.message.contains("its container main runs"),
        "{}",
        cause.message
    );
    // All containers before it are ready.
    pod["status"]["containerStatuses"][0]["ready"] = json!(true);
    assert_eq!(
        reason(&mut with(&set, &pod), 61).as_deref(),
        Some("ContainerCrashLooping")
    );
}

/// An update is under way, and may be the remedy.
#[test]
fn container_from_before_the_update_is_no_cause() {
    let revision = snapshot(&json!({}), &json!({})).revisions[0]
        .metadata
        .name
        .clone();
    let before = json!({"imageID": "web@sha256:0", "berthContainerID": "containerd://1", "berthImage": "web:0"});
    let state = json!({"revision": revision, "updateTimestamp": BEGAN, "lastContainerStatuses": {"main": before}});
    let restarted =
        json!({"revision": revision, "updateTimestamp": BEGAN, "berthRestarts": {"main": "1"}});
    let loops = |state: &Value, id: &str| {
        let mut pod = crash(json!({"waiting": {"reason": "CrashLoopBackOff"}}));
        pod["status"]["containerStatuses"][0]["containerID"] = json!(id);
        pod["status"]["observedGeneration"] = json!(1);
        pod["metadata"] = json!({
            "annotations": {"apps.kruise.io/inplace-update-state": state.to_string()},
            "labels": {"lifecycle.apps.kruise.io/state": "Updating"},
        });
        pod
    };
    for state in [state, restarted] {
        let mut set = snapshot(&loops(&state, "containerd://1"), &json!({}));
        assert_eq!(reason(&mut set, 0), None);
        assert_eq!(
            reason(&mut set, 60).as_deref(),
            Some("UpdateNotDone"),
            "another should run by now"
        );
        let mut set = snapshot(&loops(&state, "containerd://2"), &json!({}));
        assert_eq!(
            reason(&mut set, 0).as_deref(),
            Some("ContainerCrashLooping"),
            "the new one is"
        );
    }
}

#[test]
fn container_status_of_older_spec_is_ignored() {
    let mut pod = container(
        json!({"state": {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}}),
    );
    for (generation, observed, told) in [(2, 1, false), (2, 2, true), (2, 3, true), (2, 0, true)] {
        pod["metadata"]["generation"] = json!(generation);
        pod["status"]["observedGeneration"] = json!(observed);
        let found = reason(&mut snapshot(&pod, &json!({})), 0);
        // Kubelets before 1.34 say nothing of generations.
        assert_eq!(found.is_some(), told, "{observed} of {generation}");
    }
}

/// No template has it, so the remedy is elsewhere.
#[test]
fn failing_sidecar_message_names_its_sidecarset() {
    let fails = |reason: &str| json!({"state": {"waiting": {"reason": reason}}});
    let denied =
        json!({"state": {"waiting": {"reason": "ErrImagePull", "message": "401 Unauthorized"}}});
    let records = json!({"log": {"hash": "h", "sidecarList": ["side"]}, "old": "h"}).to_string();
    for (what, main, side, field) in [
        (
            "its image",
            json!({}),
            fails("ImagePullBackOff"),
            "in spec.containers[side].image of SidecarSet log,",
        ),
        (
            "its registry",
            json!({}),
            denied,
            "to spec.imagePullSecrets of SidecarSet log,",
        ),
        (
            "its start",
            json!({}),
            fails("CreateContainerError"),
            "correct spec.containers[side] of SidecarSet log,",
        ),
        (
            "its end",
            json!({}),
            fails("CrashLoopBackOff"),
            "and correct spec.containers[side] of SidecarSet log",
        ),
        (
            "another's",
            fails("ImagePullBackOff"),
            json!({}),
            "in spec.template.spec.containers[main].image,",
        ),
    ] {
        let mut pod = two(main, side);
        pod["metadata"] = json!({"annotations": {"kruise.io/sidecarset-hash": records}});
        let cause = told(&mut snapshot(&pod, &json!({})), &Outcome::default(), 0).unwrap();
        assert!(cause.message.contains(field), "{what}: {}", cause.message);
    }
}
