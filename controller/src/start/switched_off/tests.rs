use super::*;

#[test]
fn a_promise_is_taken_back_once_and_other_conditions_stay() {
    let promise = PROMISES[0];
    let said = |status: &str| {
        json!({"status": {"conditions": [
            {"type": "Blocked", "status": "True", "message": "why"},
            {"type": "InjectionReady", "status": status, "reason": "Asked", "lastTransitionTime": "2026-01-01T00:00:00Z"},
        ]}})
    };
    let now = "2026-02-03T04:05:06.789Z".parse().unwrap();
    let conditions = promise.taken_back(&said("True"), now).unwrap();
    assert_eq!(conditions[0], said("True")["status"]["conditions"][0]);
    assert_eq!(
        conditions[1],
        json!({
            "type": "InjectionReady", "status": "False", "reason": "KindSwitchedOff", "lastTransitionTime": "2026-02-03T04:05:06Z",
            "message": "no pod gets the containers: the controller's CUSTOM_RESOURCE_ENABLE does not name SidecarSet; add it there",
        })
    );
    for promises_nothing in [
        said("False"),
        json!({}),
        json!({"status": {"conditions": "broken"}}),
    ] {
        assert_eq!(
            promise.taken_back(&promises_nothing, now),
            None,
            "{promises_nothing}"
        );
    }
}

#[test]
fn only_kinds_that_are_left_out_take_promises_back() {
    let left_out = |named: &str| {
        let promises = Promise::of_kinds_left_out(&mut Kinds::parse(named));
        promises
            .iter()
            .map(|promise| promise.kind.kind)
            .collect::<Vec<_>>()
    };
    assert_eq!(left_out(""), [""; 0]);
    assert_eq!(
        left_out("SidecarSet,DistributedPodDisruptionBudget"),
        ["PodUnavailableBudget"]
    );
}
