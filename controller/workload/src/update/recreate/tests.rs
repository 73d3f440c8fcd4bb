use std::sync::Arc;

use berth_api::v1beta1::containerrecreaterequest::RecreatePhase::{
    Failed, Pending, Recreating, Succeeded,
};
use berth_api::v1beta1::nodeimage::StopPhase;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::stop::{Requested, wanted};
use super::*;

const NOW: i64 = 1_000_000;

fn now() -> Timestamp {
    Timestamp::from_second(NOW).unwrap()
}

fn ago(seconds: i64) -> Value {
    json!(Timestamp::from_second(NOW - seconds).unwrap().to_string())
}

fn request(strategy: Value, states: Value) -> Request {
    let context =
        |id: &str| json!({"containerID": format!("containerd://{id}"), "restartCount": 0});
    serde_json::from_value(json!({
        "metadata": {
            "namespace": "default", "name": "demo", "uid": "r", "creationTimestamp": ago(10),
            "labels": {RECREATE_POD_UID: "u", "crr.apps.kruise.io/active": "true"},
        },
        "spec": {
            "podName": "web", "strategy": strategy,
            "containers": [{"name": "app", "statusContext": context("a")}, {"name": "side", "statusContext": context("s")}],
        },
        "status": {"phase": "Recreating", "containerRecreateStates": states},
    }))
    .unwrap()
}

fn pod(app: &str, side: &str) -> Pod {
    let status = |name: &str, id: &str| {
        let (id, ready) = id.split_once('!').map_or((id, true), |(id, _)| (id, false));
        let restarts = i32::from(!["a", "s"].contains(&id));
        json!({"name": name, "containerID": format!("containerd://{id}"), "ready": ready, "restartCount": restarts,
               "state": {"running": {}}})
    };
    serde_json::from_value(json!({
        "metadata": {"namespace": "default", "name": "web", "uid": "u"},
        "spec": {"nodeName": "n1", "containers": [{"name": "app"}, {"name": "side"}]},
        "status": {"phase": "Running", "containerStatuses": [status("app", app), status("side", side)]},
    }))
    .unwrap()
}

fn asked(container: &str, id: &str) -> Value {
    json!({"request": "r", "namespace": "default", "name": "web", "uid": "u", "container": container,
           "containerID": format!("containerd://{id}"), "createdAt": ago(1)})
}

fn answered(container: &str, id: &str, phase: &str) -> Value {
    json!({"request": "r", "container": container, "containerID": format!("containerd://{id}"), "phase": phase,
           "message": if phase == "Failed" { "busy" } else { "" }})
}

fn image(asked: Vec<Value>, answers: Vec<Value>) -> NodeImage {
    serde_json::from_value(json!({
        "metadata": {"name": "n1", "uid": "image"}, "spec": {"stopContainers": asked},
        "status": {"desired": 0, "stoppedContainers": answers},
    }))
    .unwrap()
}

fn told(next: Next) -> String {
    match next {
        Next::Stop(stop) => {
            format!(
                "stop {} {}",
                stop.container,
                stop.container_id.trim_start_matches("containerd://")
            )
        }
        Next::Answer(name) => format!("answer {name}"),
        Next::Restart(name) => format!("restart {name}"),
        Next::Over => "over".to_owned(),
    }
}

/// Stops, answers and the pod's status; the containers' states that follow from them; and the next
/// step.
#[test]
fn request_progress_follows_answers_and_pod_status() {
    let one = || vec![asked("app", "a")];
    let both = || vec![asked("app", "a"), asked("side", "s")];
    let stopped = || vec![answered("app", "a", "Stopped")];
    for (what, pod_now, image, states, next) in [
        (
            "nothing yet",
            pod("a", "s"),
            image(vec![], vec![]),
            [Pending, Pending],
            "stop app a",
        ),
        (
            "asked",
            pod("a", "s"),
            image(one(), vec![]),
            [Pending, Pending],
            "answer app",
        ),
        (
            "begun",
            pod("a", "s"),
            image(one(), vec![answered("app", "a", "Stopping")]),
            [Pending, Pending],
            "answer app",
        ),
        (
            "asked, and the next one is there",
            pod("b", "s"),
            image(one(), vec![]),
            [Pending, Pending],
            "answer app",
        ),
        (
            "stopped",
            pod("a", "s"),
            image(one(), stopped()),
            [Recreating, Pending],
            "stop side s",
        ),
        (
            "gone",
            pod("a", "s"),
            image(one(), vec![answered("app", "a", "Gone")]),
            [Recreating, Pending],
            "stop side s",
        ),
        (
            "started",
            pod("b!", "s"),
            image(one(), stopped()),
            [Recreating, Pending],
            "stop side s",
        ),
        (
            "ready",
            pod("b", "s"),
            image(one(), stopped()),
            [Succeeded, Pending],
            "stop side s",
        ),
        (
            "failed",
            pod("a", "s"),
            image(one(), vec![answered("app", "a", "Failed")]),
            [Failed, Pending],
            "over",
        ),
        (
            "another container runs, and no stop was answered",
            pod("b", "s"),
            image(vec![], vec![]),
            [Pending, Pending],
            "stop app a",
        ),
        (
            "moved by itself",
            pod("b!", "s"),
            image(one(), vec![answered("app", "a", "Gone")]),
            [Recreating, Pending],
            "stop side s",
        ),
        (
            "an answer for another id",
            pod("a", "s"),
            image(one(), vec![answered("app", "b", "Stopped")]),
            [Pending, Pending],
            "answer app",
        ),
        (
            "both stopped",
            pod("b", "s"),
            image(
                both(),
                vec![
                    answered("app", "a", "Stopped"),
                    answered("side", "s", "Stopped"),
                ],
            ),
            [Succeeded, Recreating],
            "restart side",
        ),
        (
            "both ready",
            pod("b", "t"),
            image(
                both(),
                vec![
                    answered("app", "a", "Stopped"),
                    answered("side", "s", "Stopped"),
                ],
            ),
            [Succeeded, Succeeded],
            "over",
        ),
    ] {
        let request = request(json!({}), json!([]));
        let course = Course {
            request: &request,
            pod: &pod_now,
            image: Some(&image),
        };
        assert_eq!(
            course
                .states()
                .iter()
                .map(|state| state.phase)
                .collect::<Vec<_>>(),
            states,
            "{what}"
        );
        assert_eq!(told(course.next()), next, "{what}");
    }
}

/// If the kubelet starts no other container, there is nothing to wait for.
#[test]
fn ended_container_without_restart_has_failed() {
    let ended = |policy: &str, exit_code: i32, native: bool| {
        let mut pod = pod("a", "s");
        pod.spec = serde_json::from_value(json!({
            "nodeName": "n1", "restartPolicy": policy, "containers": [{"name": if native { "x" } else { "app" }}, {"name": "side"}],
            "initContainers": [{"name": if native { "app" } else { "x" }, "restartPolicy": "Always"}],
        }))
        .unwrap();
        pod.status.container_statuses[0].state =
            serde_json::from_value(json!({"terminated": {"exitCode": exit_code}})).unwrap();
        pod
    };
    let image = image(
        vec![asked("app", "a")],
        vec![answered("app", "a", "Stopped")],
    );
    for (policy, exit_code, native, phase, next) in [
        ("Always", 0, false, Recreating, "stop side s"),
        ("Never", 137, false, Failed, "over"),
        ("OnFailure", 0, false, Failed, "over"),
        ("OnFailure", 137, false, Recreating, "stop side s"),
        ("Never", 0, true, Recreating, "stop side s"),
    ] {
        let (request, pod) = (
            request(json!({}), json!([])),
            ended(policy, exit_code, native),
        );
        let course = Course {
            request: &request,
            pod: &pod,
            image: Some(&image),
        };
        let state = course.states().remove(0);
        assert_eq!(
            (state.phase, told(course.next())),
            (phase, next.to_owned()),
            "{policy} {exit_code} {native}"
        );
        assert_eq!(
            state.message.contains(policy),
            phase == Failed,
            "{}",
            state.message
        );
    }
    let ignoring = request(json!({"failurePolicy": "Ignore"}), json!([]));
    let course = Course {
        request: &ignoring,
        pod: &ended("Never", 0, false),
        image: Some(&image),
    };
    assert_eq!(told(course.next()), "stop side s");
}

#[test]
fn strategy_decides_on_the_next_step() {
    let one = || vec![asked("app", "a")];
    let stopped = || vec![answered("app", "a", "Stopped")];
    let failed = || vec![answered("app", "a", "Failed")];
    for (strategy, states, pod_now, image, next) in [
        (
            json!({"orderedRecreate": true}),
            json!([]),
            pod("b!", "s"),
            image(one(), stopped()),
            "restart app",
        ),
        (
            json!({"orderedRecreate": true}),
            json!([]),
            pod("b", "s"),
            image(one(), stopped()),
            "stop side s",
        ),
        (
            json!({"failurePolicy": "Ignore"}),
            json!([]),
            pod("a", "s"),
            image(one(), failed()),
            "stop side s",
        ),
        (
            json!({"failurePolicy": "Fail"}),
            json!([]),
            pod("a", "s"),
            image(one(), failed()),
            "over",
        ),
        // Forced: what it is now.
        (
            json!({"forceRecreate": true}),
            json!([]),
            pod("b", "s"),
            image(vec![], vec![]),
            "stop app b",
        ),
        (
            json!({"forceRecreate": true}),
            json!([]),
            pod("c", "s"),
            image(vec![asked("app", "b")], vec![]),
            "answer app",
        ),
        (
            json!({"forceRecreate": true}),
            json!([{"name": "app", "phase": "Recreating", "isKilled": true}]),
            pod("c!", "s"),
            image(vec![], vec![]),
            "stop side s",
        ),
        // The daemon reports the age of the next container, also of one that it did not stop.
        (
            json!({"minStartedSeconds": 5}),
            json!([]),
            pod("b", "s"),
            image(one(), stopped()),
            "stop side s",
        ),
        (
            json!({"minStartedSeconds": 5}),
            json!([]),
            pod("b", "s"),
            image(vec![], vec![]),
            "stop app a",
        ),
    ] {
        let request = request(strategy.clone(), states);
        let course = Course {
            request: &request,
            pod: &pod_now,
            image: Some(&image),
        };
        assert_eq!(told(course.next()), next, "{strategy}");
    }
}

#[test]
fn container_has_lasted_when_daemon_names_its_id() {
    let request = request(json!({"minStartedSeconds": 5}), json!([]));
    for (lasting, expected) in [
        ("", Recreating),
        ("containerd://b", Succeeded),
        ("containerd://c", Recreating),
    ] {
        let mut answer = answered("app", "a", "Stopped");
        answer["lastingContainerID"] = json!(lasting);
        let image = image(vec![asked("app", "a")], vec![answer]);
        let pod = pod("b", "s");
        let states = Course {
            request: &request,
            pod: &pod,
            image: Some(&image),
        }
        .states();
        assert_eq!(states[0].phase, expected, "{lasting}");
        assert!(states[0].is_killed);
    }
}

/// The answer about the age of the present container, and the id that needs another answer.
#[test]
fn age_of_new_container_is_awaited_after_stop() {
    for (pod_now, phase, lasting, seconds, expected) in [
        (pod("b", "s"), "Stopped", "", 5, Some("containerd://b")),
        (
            pod("b", "s"),
            "Gone",
            "containerd://c",
            5,
            Some("containerd://b"),
        ),
        (pod("b", "s"), "Stopped", "containerd://b", 5, None),
        (pod("b", "s"), "Stopped", "", 0, None),
        (pod("b!", "s"), "Stopped", "", 5, Some("containerd://b")),
        (pod("b!", "s"), "Stopped", "containerd://b", 5, None),
        (pod("b!", "s"), "Stopped", "", 0, None),
        (pod("a", "s"), "Stopped", "", 5, None),
        (pod("b", "s"), "Stopping", "", 5, None),
        (pod("b", "s"), "Failed", "", 5, None),
    ] {
        let request = request(json!({"minStartedSeconds": seconds}), json!([]));
        let mut answer = answered("app", "a", phase);
        answer["lastingContainerID"] = json!(lasting);
        let image = image(vec![asked("app", "a")], vec![answer]);
        let course = Course {
            request: &request,
            pod: &pod_now,
            image: Some(&image),
        };
        assert_eq!(
            course.unreported_age().map(|(_, now)| &*now.container_id),
            expected,
            "{phase} {lasting} {seconds}"
        );
    }
}

/// The grace period of this request's stop, the one of another request's stop of the same container
/// 9 s earlier, and the seconds left.
#[test]
fn stop_deadline_covers_earlier_requests_grace() {
    let mut pod = pod("a", "s");
    pod.spec.termination_grace_period_seconds = 30;
    for (own, earlier, expected) in [
        (None, None, 29),
        (Some(5), None, 4),
        (Some(0), Some(40), 30),
        (Some(50), Some(40), 49),
        (Some(-1), None, -1),
    ] {
        let mut stop = asked("app", "a");
        stop["gracePeriodSeconds"] = json!(own);
        let other = earlier.map(|grace: i64| {
            let mut other = asked("app", "a");
            (other["request"], other["createdAt"]) = (json!("q"), ago(10));
            other["gracePeriodSeconds"] = json!(grace);
            other
        });
        let mut side = asked("side", "s");
        side["gracePeriodSeconds"] = json!(900);
        let image = image(
            [Some(stop), other, Some(side)]
                .into_iter()
                .flatten()
                .collect(),
            vec![],
        );
        let request = request(json!({}), json!([]));
        let course = Course {
            request: &request,
            pod: &pod,
            image: Some(&image),
        };
        let ends = course.stops_by(&image.spec.stop_containers[0]).unwrap();
        assert_eq!(
            ends.duration_since(now()).as_secs(),
            expected,
            "{own:?} {earlier:?}"
        );
    }
}

#[test]
fn oldest_request_of_a_pod_is_processed_first() {
    let with = |name: &str, created: i64, phase: &str, edit: fn(&mut Value)| -> Request {
        let mut request = json!({
            "metadata": {"name": name, "creationTimestamp": ago(created), "labels": {RECREATE_POD_UID: "u"}},
            "spec": {"podName": "web", "containers": []}, "status": {"phase": phase},
        });
        edit(&mut request);
        serde_json::from_value(request).unwrap()
    };
    let keep: fn(&mut Value) = |_| ();
    let completed: fn(&mut Value) =
        |request| request["status"]["completionTime"] = json!("2026-01-01T00:00:00Z");
    let going: fn(&mut Value) =
        |request| request["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let other_pod: fn(&mut Value) =
        |request| request["metadata"]["labels"][RECREATE_POD_UID] = json!("old");
    let of = |requests: &[Request], image: Option<&NodeImage>| {
        let found = current(requests.iter(), &pod("a", "s"), image);
        found.and_then(|request| request.metadata.name.clone())
    };
    for (requests, expected) in [
        (
            vec![with("b", 5, "Pending", keep), with("a", 9, "Pending", keep)],
            Some("a"),
        ),
        (
            vec![
                with("b", 5, "Recreating", keep),
                with("a", 9, "Pending", keep),
            ],
            Some("b"),
        ),
        (
            vec![with("b", 5, "Pending", keep), with("a", 5, "Pending", keep)],
            Some("a"),
        ),
        (
            vec![
                with("b", 5, "Pending", keep),
                with("a", 9, "Recreating", completed),
            ],
            Some("b"),
        ),
        (
            vec![
                with("b", 5, "Pending", keep),
                with("a", 9, "Recreating", going),
            ],
            Some("b"),
        ),
        (vec![with("a", 9, "Pending", other_pod)], None),
    ] {
        assert_eq!(of(&requests, None).as_deref(), expected);
        assert_eq!(
            of(&requests, Some(&image(vec![], vec![]))).as_deref(),
            expected
        );
    }
    // Both requests have begun, and the NodeImage has a stop for one of them.
    let named: fn(&mut Value) = |request| request["metadata"]["uid"] = json!("r");
    let both = [
        with("b", 5, "Recreating", named),
        with("a", 5, "Recreating", keep),
    ];
    assert_eq!(
        of(&both, Some(&image(vec![asked("app", "a")], vec![]))).as_deref(),
        Some("b")
    );
    assert_eq!(of(&both, None).as_deref(), Some("a"));
}

fn requested(request: Request, pod: Pod) -> Requested {
    Requested {
        pod: Arc::new(pod),
        requests: vec![Arc::new(request)],
    }
}

#[test]
fn stops_are_requested_after_grace_while_needed() {
    let grace = |seconds: i64| {
        let mut request = request(json!({"unreadyGracePeriodSeconds": 5}), json!([]));
        let condition = json!({"type": PRE_RECREATE_GRACE, "status": "True", "lastTransitionTime": ago(seconds), "reason": "x", "message": ""});
        request.status.as_mut().unwrap().conditions =
            vec![serde_json::from_value(condition).unwrap()];
        request
    };
    let names = |requests: &[Requested], image: &NodeImage| {
        let stops = wanted(requests, image, now());
        let told = |stop: &StopContainer| {
            format!(
                "{}{}",
                stop.container,
                if stop.cancelled { " cancelled" } else { "" }
            )
        };
        (
            stops.containers.iter().map(told).collect::<Vec<_>>(),
            stops.look_again.map(|wait| wait.as_secs()),
        )
    };
    let none = || image(vec![], vec![]);
    let one = |answers| image(vec![asked("app", "a")], answers);
    let plain = || request(json!({}), json!([]));
    let done = || {
        request(
            json!({}),
            json!([{"name": "app", "phase": "Succeeded", "isKilled": true}]),
        )
    };
    let over = |states: Value| {
        let mut request = request(json!({}), states);
        request.status.as_mut().unwrap().completion_time =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now()));
        request
    };
    let another = || {
        let mut other = request(
            json!({}),
            json!([{"name": "app", "phase": "Succeeded", "isKilled": true}]),
        );
        other.metadata.uid = Some("other".to_owned());
        other
    };
    let lasting = |seconds: i32| {
        let mut stop = asked("app", "a");
        stop["minStartedSeconds"] = json!(seconds);
        stop
    };
    let before = |seconds: i64| {
        let mut stop = asked("app", "a");
        stop["createdAt"] = ago(seconds);
        stop
    };
    let mut long_grace = pod("a", "s");
    long_grace.spec.termination_grace_period_seconds = 900;
    let killed = json!([{"name": "app", "phase": "Recreating", "isKilled": true}]);
    let pending = json!([{"name": "app", "phase": "Pending"}]);
    let until = |seconds: i64| {
        let mut request = plain();
        request.spec.active_deadline_seconds = Some(seconds);
        request
    };
    let mut waits = plain();
    waits.status.as_mut().unwrap().phase = Pending;
    for (what, requests, image, expected) in [
        (
            "it has begun",
            vec![requested(plain(), pod("a", "s"))],
            none(),
            (vec!["app"], None),
        ),
        (
            "it waits for its turn",
            vec![requested(waits, pod("a", "s"))],
            none(),
            (vec![], None),
        ),
        (
            "in grace",
            vec![requested(grace(2), pod("a", "s"))],
            none(),
            (vec![], Some(4)),
        ),
        (
            "after grace",
            vec![requested(grace(6), pod("a", "s"))],
            none(),
            (vec!["app"], None),
        ),
        (
            "before the deadline",
            vec![requested(until(11), pod("a", "s"))],
            none(),
            (vec!["app"], None),
        ),
        (
            "after the deadline",
            vec![requested(until(10), pod("a", "s"))],
            none(),
            (vec![], None),
        ),
        (
            "after the deadline the first is answered for",
            vec![requested(until(10), pod("a", "s"))],
            one(vec![answered("app", "a", "Stopped")]),
            (vec!["app"], None),
        ),
        (
            "settled",
            vec![requested(done(), pod("b", "s"))],
            one(vec![answered("app", "a", "Stopped")]),
            (vec!["side"], None),
        ),
        (
            "deleted",
            vec![],
            one(vec![]),
            (vec!["app cancelled"], Some(599)),
        ),
        (
            "deleted, and it was stopped",
            vec![],
            one(vec![answered("app", "a", "Stopped")]),
            (vec!["app"], None),
        ),
        (
            "deleted, it was stopped, and another asks",
            vec![requested(another(), pod("b", "s"))],
            one(vec![answered("app", "a", "Stopped")]),
            (vec!["side"], None),
        ),
        (
            "deleted, it was stopped, and the daemon looks for the next one",
            vec![],
            image(vec![lasting(5)], vec![answered("app", "a", "Stopped")]),
            (vec![], None),
        ),
        (
            "over, and unanswered",
            vec![requested(over(pending.clone()), pod("a", "s"))],
            one(vec![]),
            (vec!["app cancelled"], Some(599)),
        ),
        (
            "over, and under way for longer than a question is kept",
            vec![requested(over(pending.clone()), long_grace)],
            image(vec![before(700)], vec![answered("app", "a", "Stopping")]),
            (vec!["app cancelled"], Some(800)),
        ),
        (
            "over, and unanswered for as long",
            vec![requested(over(pending.clone()), pod("a", "s"))],
            image(vec![before(700)], vec![]),
            (vec![], None),
        ),
        (
            "over, and not noted",
            vec![requested(over(pending), pod("a", "s"))],
            one(vec![answered("app", "a", "Stopped")]),
            (vec!["app cancelled"], None),
        ),
        (
            "over, and noted",
            vec![requested(over(killed), pod("a", "s"))],
            one(vec![answered("app", "a", "Stopped")]),
            (vec!["app"], None),
        ),
    ] {
        let (names, again) = names(&requests, &image);
        assert_eq!(
            (names.iter().map(String::as_str).collect::<Vec<_>>(), again),
            expected,
            "{what}"
        );
    }
}

#[test]
fn namespace_gets_half_of_a_nodes_stops() {
    let of = |at: usize, namespace: &str| {
        let mut request = request(json!({}), json!([]));
        request.metadata.uid = Some(format!("{namespace}{at}"));
        let mut pod = pod("a", "s");
        (pod.metadata.uid, pod.metadata.namespace) =
            (format!("{namespace}{at}").into(), namespace.into());
        request
            .metadata
            .labels
            .as_mut()
            .unwrap()
            .insert(RECREATE_POD_UID.to_owned(), format!("{namespace}{at}"));
        requested(request, pod)
    };
    let mut all: Vec<_> = (0..120).map(|at| of(at, "greedy")).collect();
    let stops = wanted(&all, &image(vec![], vec![]), now());
    assert_eq!(stops.containers.len(), 50);
    assert!(stops.left_out.unwrap().contains("leaves out 70 containers"));
    all.push(of(0, "other"));
    let asked = stops
        .containers
        .iter()
        .map(|stop| serde_json::to_value(stop).unwrap())
        .collect();
    let stops = wanted(&all, &image(asked, vec![]), now());
    assert_eq!(
        stops
            .containers
            .iter()
            .filter(|stop| stop.namespace == "other")
            .count(),
        1
    );
}

/// The age of a full node's stops, whether they have a period of 2147483647 s, how many other stops
/// get slots, and in how many seconds the rest decide again.
#[test]
fn overdue_stops_give_their_slots_to_new_ones() {
    let of = |at: usize, namespace: &str| {
        let strategy =
            json!({"terminationGracePeriodSeconds": i32::MAX, "minStartedSeconds": i32::MAX});
        let killed = json!([{"name": "app", "phase": "Recreating", "isKilled": true}, {"name": "side", "phase": "Succeeded"}]);
        let mut request = request(
            strategy,
            if namespace == "new" {
                json!([])
            } else {
                killed
            },
        );
        request.metadata.uid = Some(format!("{namespace}{at:02}"));
        let mut pod = pod(if namespace == "new" { "a" } else { "b!" }, "s");
        (pod.metadata.uid, pod.metadata.namespace) =
            (format!("{namespace}{at:02}").into(), namespace.into());
        request
            .metadata
            .labels
            .as_mut()
            .unwrap()
            .insert(RECREATE_POD_UID.to_owned(), format!("{namespace}{at:02}"));
        requested(request, pod)
    };
    let stop = |at: usize, grace: i64, age: i64| {
        json!({"request": format!("old{at:02}"), "namespace": "old", "name": "web", "uid": format!("old{at:02}"), "container": "app",
               "containerID": "containerd://a", "createdAt": ago(age), "gracePeriodSeconds": grace})
    };
    let answer = |at: usize| json!({"request": format!("old{at:02}"), "container": "app", "containerID": "containerd://a", "phase": "Stopped"});
    for (grace, age, expected) in [
        (30, 629, (0, Some(2))),
        (30, 631, (3, None)),
        (i64::from(i32::MAX), 4_199, (0, Some(2))),
        (i64::from(i32::MAX), 4_201, (3, None)),
    ] {
        let full = image(
            (0..100).map(|at| stop(at, grace, age)).collect(),
            (0..100).map(answer).collect(),
        );
        let mut all: Vec<_> = (0..100).map(|at| of(at, "old")).collect();
        assert_eq!(
            wanted(&all, &full, now()).containers,
            full.spec.stop_containers,
            "without new ones nothing changes"
        );
        all.extend((0..3).map(|at| of(at, "new")));
        let stops = wanted(&all, &full, now());
        let new: Vec<_> = stops
            .containers
            .iter()
            .filter(|stop| stop.namespace == "new")
            .collect();
        assert!(
            new.iter()
                .all(|stop| stop.grace_period_seconds == Some(3_600)),
            "{new:?}"
        );
        let found = (new.len(), stops.look_again.map(|wait| wait.as_secs()));
        assert_eq!(
            (found, stops.containers.len()),
            (expected, 100),
            "{grace} {age}"
        );
    }
}

proptest! {
    /// From any state and with any further events: a request stops one id of each container, one
    /// container at a time.
    #[test]
    fn a_request_asks_for_one_id_of_each_container_once(
        steps in proptest::collection::vec(0..5_u8, 1..40), ordered: bool, force: bool, ignore: bool, min in 0..2,
    ) {
        let strategy = json!({"orderedRecreate": ordered, "forceRecreate": force, "minStartedSeconds": min,
                              "failurePolicy": if ignore { "Ignore" } else { "Fail" }});
        let mut request = request(strategy, json!([]));
        let (mut ids, mut count) = (["a".to_owned(), "s".to_owned()], 0);
        let mut image = image(vec![], vec![]);
        let mut asked: Vec<StopContainer> = Vec::new();
        for step in steps {
            let pod = pod(&ids[0], &ids[1]);
            match step {
                0 => {
                    let stops = wanted(&[requested(request.clone(), pod)], &image, now());
                    for stop in &stops.containers {
                        prop_assert!(ids.iter().chain([&"a".to_owned(), &"s".to_owned()]).any(|id| stop.container_id.ends_with(id.as_str())) || asked.iter().any(|old| old.container_id == stop.container_id));
                        let before = asked.iter().find(|old| old.container == stop.container);
                        prop_assert!(before.is_none_or(|old| old.container_id == stop.container_id), "another id of {}", stop.container);
                        if before.is_none() {
                            asked.push(stop.clone());
                        }
                    }
                    image.spec.stop_containers = stops.containers;
                    let open = image.spec.stop_containers.iter().filter(|stop| answer(&image, stop).is_none()).count();
                    prop_assert!(open <= 1, "{open} stops of one request at once");
                }
                // The daemon answers.
                1 | 2 => {
                    let status = image.status.get_or_insert_default();
                    for stop in &image.spec.stop_containers {
                        let at = usize::from(stop.container == "side");
                        let runs = stop.container_id.ends_with(ids[at].as_str());
                        if status.stopped_containers.iter().any(|answer| stop.is_answered_by(answer)) {
                            continue;
                        }
                        let phase = if !runs { StopPhase::Gone } else if step == 1 { StopPhase::Stopped } else { StopPhase::Failed };
                        if phase == StopPhase::Stopped {
                            count += 1;
                            ids[at] = format!("x{count}");
                        }
                        status.stopped_containers.push(StoppedContainer {
                            request: stop.request.clone(), container: stop.container.clone(), container_id: stop.container_id.clone(),
                            phase, ..StoppedContainer::default()
                        });
                    }
                }
                // The controller writes the status.
                3 => {
                    let states = Course { request: &request, pod: &pod, image: Some(&image) }.states();
                    request.status.as_mut().unwrap().container_recreate_states = states;
                }
                // One restarts by itself.
                _ => {
                    count += 1;
                    ids[count % 2] = format!("x{count}");
                }
            }
        }
    }
}
