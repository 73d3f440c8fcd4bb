use serde_json::{Value, json};

use super::*;

fn pod(gates: &[&str], conditions: Value) -> Pod {
    let gates: Vec<_> = gates
        .iter()
        .map(|gate| json!({"conditionType": gate}))
        .collect();
    let pod = json!({"metadata": {}, "spec": {"readinessGates": gates}, "status": {"conditions": conditions}});
    serde_json::from_value(pod).unwrap()
}

fn now() -> Timestamp {
    Timestamp::from_second(7).unwrap()
}

#[test]
fn only_unset_readiness_gates_are_opened_with_time() {
    let closed = json!([{"type": IN_PLACE_UPDATE_READY, "status": "False"}]);
    let table = [
        (pod(&OF_NEW_PODS, json!([])), &OF_NEW_PODS[..]),
        (pod(&OF_NEW_PODS, closed), &[KRUISE_POD_READY]),
        (
            pod(&[KRUISE_POD_READY, "x.io/other"], json!([])),
            &[KRUISE_POD_READY],
        ),
        (pod(&[], json!([])), &[]),
    ];
    for (pod, expected) in table {
        let opened = unset(&pod, now());
        assert_eq!(
            opened.iter().map(|c| &*c.type_).collect::<Vec<_>>(),
            expected
        );
        for condition in opened {
            assert_eq!(
                (&*condition.status, condition.last_transition_time),
                ("True", Some(now()))
            );
        }
    }
}

/// If a word differs, the kubelet syncs the pod once more, and the new image starts up to a second
/// later.
#[test]
fn not_ready_condition_equals_the_kubelets() {
    let conditions = json!([
        {"type": IN_PLACE_UPDATE_READY, "status": "True"}, {"type": "x.io/closed", "status": "False"},
        {"type": "x.io/open", "status": "True"},
    ]);
    let pod = pod(
        &[
            IN_PLACE_UPDATE_READY,
            KRUISE_POD_READY,
            "x.io/closed",
            "x.io/open",
        ],
        conditions,
    );
    let ready = not_ready(&pod, IN_PLACE_UPDATE_READY, now());
    let expected = "the status of pod readiness gate \"InPlaceUpdateReady\" is not \"True\", but False, \
             corresponding condition of pod readiness gate \"KruisePodReady\" does not exist., \
             the status of pod readiness gate \"x.io/closed\" is not \"True\", but False";
    assert_eq!(&*ready.message, expected);
    assert_eq!(
        (&*ready.type_, &*ready.status, &*ready.reason),
        ("Ready", "False", "ReadinessGatesNotReady")
    );
    assert_eq!(ready.last_transition_time, Some(now()));
}
