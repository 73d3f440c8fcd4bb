use serde_json::{Value, json};

use super::*;

fn pod(message: &str) -> Pod {
    serde_json::from_value(json!({
            "metadata": {"namespace": "default", "name": "web", "uid": "u", "resourceVersion": "3"},
            "spec": {"nodeName": "n1", "readinessGates": [{"conditionType": "KruisePodReady"}]},
            "status": {"conditions": [{"type": "KruisePodReady", "status": "False", "message": message}]},
        }))
        .unwrap()
}

fn entry(agent: &str, key: &str) -> Value {
    json!({"userAgent": agent, "key": key})
}

fn message(entries: &[Value]) -> String {
    json!(entries).to_string()
}

fn request(pod: &str, uid: Value) -> ContainerRecreateRequest {
    let labels = json!({"crr.apps.kruise.io/pod-uid": uid});
    let labels = if uid.is_null() { json!({}) } else { labels };
    serde_json::from_value(json!({
        "metadata": {"namespace": "default", "name": "demo", "labels": labels},
        "spec": {"podName": pod, "containers": [{"name": "app"}]},
    }))
    .unwrap()
}

#[test]
fn only_requests_of_the_pods_namespace_have_entries() {
    let ours = entry(USER_AGENT, "default/demo");
    for (message, expected) in [
        (String::new(), vec![]),
        (
            "somebody's words of a ContainerRecreateRequest".to_owned(),
            vec![],
        ),
        (message(&[entry("Lifecycle", "preDeleteHook")]), vec![]),
        (
            message(&[entry("Lifecycle", "default/demo"), ours.clone()]),
            vec!["demo"],
        ),
        (
            message(&[ours, entry(USER_AGENT, "default/second")]),
            vec!["demo", "second"],
        ),
        (
            message(&[
                entry(USER_AGENT, "other/demo"),
                entry(USER_AGENT, "default2/demo"),
            ]),
            vec![],
        ),
        (message(&[entry(USER_AGENT, "default")]), vec![]),
    ] {
        assert_eq!(entries(&pod(&message)), expected, "{message}");
    }
}

#[test]
fn pod_of_deleted_request_is_back_in_service() {
    let own = [entry(USER_AGENT, "default/demo")];
    let both = [
        entry(USER_AGENT, "default/demo"),
        entry("Lifecycle", "preDeleteHook"),
    ];
    let left = r#"[{"userAgent":"Lifecycle","key":"preDeleteHook"}]"#;
    for (what, entries, request, expected) in [
        ("it is gone", &own[..], None, Some(("True", "[]"))),
        (
            "somebody else holds the pod, too",
            &both[..],
            None,
            Some(("False", left)),
        ),
        (
            "it is there",
            &own[..],
            Some(request("web", json!("u"))),
            None,
        ),
        (
            "it is not filled in yet",
            &own[..],
            Some(request("web", Value::Null)),
            None,
        ),
        (
            "it is of another pod",
            &own[..],
            Some(request("db", json!("v"))),
            Some(("True", "[]")),
        ),
        (
            "it is of the pod before",
            &own[..],
            Some(request("web", json!("v"))),
            Some(("True", "[]")),
        ),
        ("it has no entry", &both[1..], None, None),
    ] {
        let plan = let_go_of_gone(
            &pod(&message(entries)),
            "demo",
            request.as_ref(),
            Timestamp::UNIX_EPOCH,
        );
        let written = plan.actions().map(|action| match action {
            Action::PatchPodStatus {
                target, conditions, ..
            } => {
                assert_eq!(target.resource_version.as_deref(), Some("3"), "{what}");
                (&*conditions[0].status, &*conditions[0].message)
            }
            other => panic!("{what}: {other:?}"),
        });
        assert_eq!(
            written.collect::<Vec<_>>(),
            Vec::from_iter(expected),
            "{what}"
        );
    }
    let mut going = pod(&message(&own));
    going.metadata.deletion_timestamp = Some(Timestamp::UNIX_EPOCH);
    assert_eq!(
        let_go_of_gone(&going, "demo", None, Timestamp::UNIX_EPOCH),
        Plan::default()
    );
}
