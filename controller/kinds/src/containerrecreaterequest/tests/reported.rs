//! Changes of a status that may be written later.

use super::*;

#[test]
fn only_container_stops_are_throttled() {
    let status = |phase: &str, app: Value, message: &str| -> ContainerRecreateRequestStatus {
        let states = json!([app, {"name": "side", "phase": "Pending"}]);
        serde_json::from_value(
            json!({"phase": phase, "containerRecreateStates": states, "message": message}),
        )
        .unwrap()
    };
    let state =
        |phase: &str, killed: bool| json!({"name": "app", "phase": phase, "isKilled": killed});
    let old = status("Recreating", state("Pending", false), "");
    let seen = |mut status: ContainerRecreateRequestStatus| {
        let snapshot =
            json!([{"name": "app", "ready": false, "restartCount": 1, "containerID": "c://b"}]);
        status.container_status_snapshot = serde_json::from_value(snapshot).unwrap();
        status
    };
    for (what, new, may_wait) in [
        ("nothing", old.clone(), false),
        (
            "stopped",
            status("Recreating", state("Recreating", true), ""),
            true,
        ),
        (
            "stopped, and the next one is there",
            seen(status("Recreating", state("Recreating", true), "")),
            true,
        ),
        (
            "restarted",
            status("Recreating", state("Succeeded", true), ""),
            false,
        ),
        (
            "failed",
            status("Recreating", state("Failed", false), ""),
            false,
        ),
        (
            "over",
            status("Completed", state("Recreating", true), ""),
            false,
        ),
        (
            "something else besides",
            status("Recreating", state("Recreating", true), "held"),
            false,
        ),
    ] {
        assert_eq!(tells_stops_alone(&old, &new), may_wait, "{what}");
    }
    // The same holds if a container that was stopped before is reported again.
    let restarted = status("Recreating", state("Succeeded", true), "");
    assert!(!tells_stops_alone(
        &status("Recreating", state("Recreating", true), ""),
        &restarted
    ));
}

#[test]
fn late_stop_of_completed_request_is_urgent() {
    let status = |phase: &str, killed: bool| -> ContainerRecreateRequestStatus {
        let states = [
            json!({"name": "app", "phase": phase, "isKilled": killed}),
            json!({"name": "side", "phase": "Pending"}),
        ];
        let completed = json!({"phase": "Completed", "completionTime": "2026-11-29T12:00:03Z", "containerRecreateStates": states});
        serde_json::from_value(completed).unwrap()
    };
    assert!(!tells_stops_alone(
        &status("Pending", false),
        &status("Recreating", true)
    ));
}
