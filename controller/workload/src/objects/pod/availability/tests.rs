use serde_json::{Value, json};

use super::*;

const SINCE: i64 = 1_000_000;

/// A pod that has been ready since then, but for what is given.
fn pod(path: &str, value: Value) -> Pod {
    let since = Timestamp::from_second(SINCE).unwrap();
    let mut pod = json!({
        "metadata": {"name": "web-a", "labels": {}},
        "spec": {"readinessGates": []},
        "status": {"phase": "Running", "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": since},
            {"type": "open", "status": "True"}, {"type": "closed", "status": "False"},
        ]},
    });
    if !path.is_empty() {
        let (parent, key) = path.rsplit_once('/').unwrap();
        pod.pointer_mut(parent).unwrap()[key] = value;
    }
    serde_json::from_value(pod).unwrap()
}

fn after(pod: &Pod, min_ready_seconds: i32, seconds: i64) -> Availability {
    availability(
        pod,
        min_ready_seconds,
        Timestamp::from_second(SINCE + seconds).unwrap(),
    )
}

#[test]
fn min_ready_seconds_count_from_end_of_second() {
    let wait = |seconds| Availability::After(SignedDuration::from_secs(seconds));
    let ready = pod("", Value::Null);
    let table = [
        (10, 0, wait(11)),
        (10, 1, wait(10)),
        (10, 10, wait(1)),
        (10, 11, Availability::Available),
        (0, 0, Availability::Available),
        (-1, 0, Availability::Available),
        // The kubelet's clock is ahead of the controller's.
        (10, -5, wait(16)),
    ];
    for (min_ready_seconds, seconds, expected) in table {
        assert_eq!(
            after(&ready, min_ready_seconds, seconds),
            expected,
            "{min_ready_seconds} s, after {seconds} s"
        );
    }
    let timeless = pod(
        "/status/conditions",
        json!([{"type": "Ready", "status": "True"}]),
    );
    assert_eq!(
        after(&timeless, 10, 0),
        Availability::Available,
        "there is nothing to wait for"
    );
}

#[test]
fn available_pod_is_ready_in_a_serving_state() {
    let table = [
        ("", Value::Null, Availability::Available),
        (
            "/metadata/deletionTimestamp",
            json!("2026-01-01T00:00:00Z"),
            Availability::NotReady,
        ),
        ("/status/phase", json!("Pending"), Availability::NotReady),
        ("/status/conditions", json!([]), Availability::NotReady),
        (
            "/status/conditions",
            json!([{"type": "Ready", "status": "False"}]),
            Availability::NotReady,
        ),
        (
            "/spec/readinessGates",
            json!([{"conditionType": "open"}]),
            Availability::Available,
        ),
        (
            "/spec/readinessGates",
            json!([{"conditionType": "open"}, {"conditionType": "closed"}]),
            Availability::NotReady,
        ),
        (
            "/spec/readinessGates",
            json!([{"conditionType": "unheard-of"}]),
            Availability::NotReady,
        ),
    ];
    for (path, value, expected) in table {
        let found = after(&pod(path, value.clone()), 0, 99);
        assert_eq!(found, expected, "{path} {value}");
        assert_eq!(
            found.is_ready(),
            expected == Availability::Available,
            "{path} {value}"
        );
    }
    for (state, expected) in [
        ("", Availability::Available),
        ("Normal", Availability::Available),
        ("PreparingNormal", Availability::Held),
        ("PreparingUpdate", Availability::Held),
        ("Updating", Availability::Held),
        ("PreparingDelete", Availability::Held),
    ] {
        let pod = pod(
            "/metadata/labels",
            json!({"lifecycle.apps.kruise.io/state": state}),
        );
        assert_eq!(after(&pod, 10, 99), expected, "{state}");
        assert!(after(&pod, 10, 99).is_ready(), "{state}");
    }
}

#[test]
fn pod_is_down_unless_it_was_ready_and_runs() {
    let ready = |since: i64| {
        let since = Timestamp::from_second(since).unwrap();
        json!([{"type": "Ready", "status": "False", "lastTransitionTime": since}])
    };
    let waiting = json!([{"name": "main", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]);
    let running = json!([{"name": "main", "state": {"running": {}}}]);
    for (what, conditions, statuses, start_time, expected) in [
        (
            "not scheduled",
            json!([{"type": "PodScheduled", "status": "False"}]),
            json!([]),
            None,
            true,
        ),
        (
            "never ready",
            ready(SINCE),
            running.clone(),
            Some(SINCE),
            true,
        ),
        (
            "was ready",
            ready(SINCE + 1),
            running.clone(),
            Some(SINCE),
            false,
        ),
        (
            "was ready, and waits",
            ready(SINCE + 1),
            waiting,
            Some(SINCE),
            true,
        ),
        (
            "no time of the start",
            ready(SINCE),
            running.clone(),
            None,
            false,
        ),
        (
            "no time of the transition",
            json!([{"type": "Ready", "status": "False"}]),
            running,
            Some(SINCE),
            false,
        ),
    ] {
        let start_time = start_time.map(|second| Timestamp::from_second(second).unwrap());
        let pod: Pod = serde_json::from_value(json!({
                "metadata": {"name": "web"},
                "status": {"conditions": conditions, "containerStatuses": statuses, "startTime": start_time},
            }))
            .unwrap();
        assert_eq!(pod.is_down(), expected, "{what}");
    }
}

#[test]
fn ended_or_deleted_pod_is_not_active() {
    for (path, value, active) in [
        ("/status/phase", json!("Running"), true),
        ("/status/phase", json!("Pending"), true),
        ("/status/phase", json!("Succeeded"), false),
        ("/status/phase", json!("Failed"), false),
        (
            "/metadata/deletionTimestamp",
            json!("2026-01-01T00:00:00Z"),
            false,
        ),
    ] {
        assert_eq!(
            pod(path, value.clone()).is_active(),
            active,
            "{path} {value}"
        );
    }
}
