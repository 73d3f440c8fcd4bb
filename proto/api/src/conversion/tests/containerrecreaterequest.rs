//! ContainerRecreateRequest: two parts of the status are annotations in v1alpha1.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{ALPHA, BETA, memory, object, one_of, other, to};
use crate::names::annotation::{
    RECREATE_CONTAINER_STATUSES as STATUSES, RECREATE_UNREADY_ACQUIRED as ACQUIRED,
};
use crate::names::reason;

fn request(version: &str, annotations: Value, status: Value) -> Value {
    let mut request = json!({
        "apiVersion": version, "kind": "ContainerRecreateRequest", "metadata": {"name": "demo"},
        "spec": {"podName": "web-a", "containers": [{"name": "app"}]},
    });
    if annotations != json!({}) {
        request["metadata"]["annotations"] = annotations;
    }
    if !status.is_null() {
        request["status"] = status;
    }
    request
}

fn grace(time: &str) -> Value {
    json!({"type": "PreRecreateGrace", "status": "True", "lastTransitionTime": time,
           "reason": reason::PRE_RECREATE_GRACE, "message": reason::PRE_RECREATE_GRACE_MESSAGE})
}

const TIME: &str = "2026-01-02T03:04:05Z";
const LIST: &str =
    r#"[{"name":"app","ready":true,"restartCount":1,"containerID":"containerd://b"}]"#;

#[test]
fn v1alpha1_annotations_become_v1beta1_status() {
    let blocked = json!({"type": "Blocked", "status": "True", "lastTransitionTime": TIME, "reason": "x", "message": "y"});
    let snapshot: Value = serde_json::from_str(LIST).unwrap();
    for (annotations, alpha, beta) in [
        (
            json!({}),
            json!({"phase": "Pending"}),
            json!({"phase": "Pending"}),
        ),
        (
            json!({STATUSES: LIST}),
            json!({"phase": "Recreating"}),
            json!({"phase": "Recreating", "containerStatusSnapshot": snapshot}),
        ),
        (
            json!({ACQUIRED: TIME}),
            json!({"phase": "Recreating"}),
            json!({"phase": "Recreating", "conditions": [grace(TIME)]}),
        ),
        (
            json!({ACQUIRED: TIME, STATUSES: LIST}),
            json!({"phase": "Recreating", "conditions": [blocked]}),
            json!({"phase": "Recreating", "conditions": [blocked, grace(TIME)], "containerStatusSnapshot": snapshot}),
        ),
    ] {
        let (alpha, beta) = (
            request(ALPHA, annotations, alpha),
            request(BETA, json!({}), beta),
        );
        assert_eq!(
            (to(BETA, &alpha), to(ALPHA, &beta)),
            (beta.clone(), alpha.clone())
        );
        assert_eq!(
            (memory(&to(BETA, &alpha)), memory(&to(ALPHA, &beta))),
            (None, None)
        );
    }
}

#[test]
fn invalid_annotation_is_hidden_and_comes_back() {
    for (annotations, status) in [
        (
            json!({STATUSES: "no list", ACQUIRED: "yesterday"}),
            json!({"phase": "Pending"}),
        ),
        // The creator of a request cannot make a status.
        (json!({STATUSES: LIST, ACQUIRED: TIME}), Value::Null),
        (json!({STATUSES: "[]"}), json!({"phase": "Pending"})),
        (
            json!({ACQUIRED: "2026-01-02T03:04:05.5Z"}),
            json!({"phase": "Pending"}),
        ),
    ] {
        let alpha = request(ALPHA, annotations, status.clone());
        let beta = to(BETA, &alpha);
        let shown = beta["metadata"]["annotations"]
            .as_object()
            .cloned()
            .unwrap_or_default();
        assert!(
            !shown.contains_key(STATUSES) && !shown.contains_key(ACQUIRED),
            "{beta}"
        );
        assert_eq!(beta.get("status").is_some(), !status.is_null(), "{beta}");
        assert_eq!(to(ALPHA, &beta), alpha);
    }
}

fn requests() -> BoxedStrategy<Value> {
    let blocked = json!({"type": "Blocked", "status": "True", "lastTransitionTime": TIME, "reason": "x", "message": ""});
    let mut other = grace(TIME);
    other["message"] = json!("another");
    let condition = proptest::sample::select(vec![
        grace(TIME),
        grace("2026-01-02T03:04:05.5Z"),
        other,
        blocked,
    ]);
    let status = object(vec![
        (
            "phase",
            one_of(&["Pending", "Recreating", "Completed"]).boxed(),
        ),
        (
            "containerStatusSnapshot",
            prop_oneof![Just(serde_json::from_str(LIST).unwrap()), Just(json!([]))].boxed(),
        ),
        (
            "conditions",
            proptest::collection::vec(condition, 0..3)
                .prop_map(Value::from)
                .boxed(),
        ),
    ]);
    let annotations = object(vec![
        (STATUSES, one_of(&[LIST, "[]", "odd", ""]).boxed()),
        (ACQUIRED, one_of(&[TIME, "odd", ""]).boxed()),
        ("mine", one_of(&["x"]).boxed()),
    ]);
    let versions = proptest::sample::select(&[ALPHA, BETA][..]);
    (
        versions,
        annotations,
        prop_oneof![status, Just(Value::Null)],
    )
        .prop_map(|(version, annotations, status)| request(version, annotations, status))
        .boxed()
}

proptest! {
    #[test]
    fn repeated_conversion_loses_nothing(original in requests()) {
        let version = original["apiVersion"].as_str().unwrap();
        let there = to(other(&original["apiVersion"]), &original);
        let back = to(version, &there);
        prop_assert_eq!(&back, &original);
        prop_assert_eq!(to(other(&original["apiVersion"]), &back), there);
    }
}
