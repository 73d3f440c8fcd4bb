use super::*;

#[test]
fn cloneset_takes_template_and_strategy() {
    let deployment = json!({
        "metadata": {
            "name": "web", "uid": "u", "labels": {"team": "a"},
            "annotations": {"deployment.kubernetes.io/revision": "3", "kubectl.kubernetes.io/last-applied-configuration": "{}", "note": "x"},
        },
        "spec": {
            "replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "paused": true,
            "template": {"metadata": {"creationTimestamp": null, "labels": {"app": "web"}}, "spec": {"containers": []}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}},
            "minReadySeconds": 5, "progressDeadlineSeconds": 600,
        },
        "status": {"replicas": 3},
    });
    let expected = |replicas: i64| {
        json!({
            "metadata": {"name": "new", "labels": {"team": "a"}, "annotations": {"note": "x"}},
            "spec": {
                "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}},
                "updateStrategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1, "paused": true}},
                "minReadySeconds": 5, "progressDeadlineSeconds": 600,
            },
        })
    };
    assert_eq!(cloneset(&deployment, "new", false), expected(0));
    assert_eq!(cloneset(&deployment, "new", true), expected(3));
}

#[test]
fn recreate_strategy_stops_all_pods_at_once() {
    let deployment = json!({"metadata": {}, "spec": {"strategy": {"type": "Recreate"}}});
    let made = cloneset(&deployment, "web", true);
    assert_eq!(
        made["spec"],
        json!({"replicas": 1, "updateStrategy": {"rollingUpdate": {"maxUnavailable": "100%"}}})
    );
}
