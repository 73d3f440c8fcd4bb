use serde_json::json;

use super::*;

fn node(allocatable: Value) -> Node {
    serde_json::from_value(
        json!({"metadata": {"name": "n"}, "status": {"allocatable": allocatable}}),
    )
    .unwrap()
}

fn fits(spec: Value, allocatable: Value) -> bool {
    Requests::of(&json!({"spec": spec})).fit(&node(allocatable))
}

#[test]
fn node_fits_if_allocatable_covers_requests() {
    let asks = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}});
    let init = |cpu: &str, policy: Value| json!({"resources": {"requests": {"cpu": cpu}}, "restartPolicy": policy});
    let has = || json!({"cpu": "2", "memory": "1Gi", "pods": "16"});
    for (spec, expected) in [
        (json!({}), true),
        (json!({"containers": [asks("2")]}), true),
        (json!({"containers": [asks("1500m"), asks("0.5")]}), true),
        (json!({"containers": [asks("1500m"), asks("501m")]}), false),
        (
            json!({"containers": [asks("1")], "initContainers": [init("2", json!(null))]}),
            true,
        ),
        (
            json!({"containers": [asks("1")], "initContainers": [init("3", json!(null))]}),
            false,
        ),
        (
            json!({"containers": [asks("1")], "initContainers": [init("1500m", json!("Always"))]}),
            false,
        ),
        (
            json!({"initContainers": [init("1", json!("Always")), init("1500m", json!(null))]}),
            false,
        ),
        (
            json!({"initContainers": [init("1500m", json!(null)), init("1", json!("Always"))]}),
            true,
        ),
        (
            json!({"containers": [{"resources": {"limits": {"memory": "2Gi"}}}]}),
            false,
        ),
        (
            json!({"containers": [{"resources": {"limits": {"cpu": "9"}, "requests": {"cpu": "1"}}}]}),
            true,
        ),
        (
            json!({"containers": [asks("9")], "resources": {"requests": {"cpu": "1"}}}),
            true,
        ),
        (json!({"overhead": {"cpu": "3"}}), false),
        (
            json!({"containers": [{"resources": {"requests": {"example.com/gpu": 1}}}]}),
            false,
        ),
        (
            json!({"containers": [{"resources": {"requests": {"example.com/gpu": "0"}}}]}),
            true,
        ),
        (json!({"containers": "odd", "initContainers": [7]}), true),
    ] {
        assert_eq!(fits(spec.clone(), has()), expected, "{spec}");
    }
}

#[test]
fn node_with_zero_or_no_allocatable_is_too_small() {
    assert!(!fits(json!({}), json!({"cpu": "2", "pods": "0"})));
    assert!(!fits(json!({}), json!({})));
}
