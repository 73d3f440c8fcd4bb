use serde_json::json;

use super::*;

#[test]
fn daemon_sets_of_both_groups_say_what_they_want() {
    for (group, kind, has_scale, expected) in [
        ("apps", "DaemonSet", false, Says::Nodes),
        ("apps.kruise.io", "DaemonSet", false, Says::Nodes),
        ("example.com", "DaemonSet", false, Says::Nothing),
        ("apps", "DaemonSet", true, Says::Scale),
        ("apps", "Deployment", true, Says::Scale),
        ("batch", "Job", false, Says::Nothing),
    ] {
        assert_eq!(
            Says::of(group, kind, has_scale),
            expected,
            "{group} {kind} {has_scale}"
        );
    }
}

#[test]
fn daemon_set_wants_pods_once_its_spec_is_counted() {
    for (observed, generation, selector, expected) in [
        (
            2,
            2,
            json!({"matchLabels": {"app": "web"}}),
            Some((3, Some("app=web"))),
        ),
        (1, 2, json!({"matchLabels": {"app": "web"}}), None),
        (0, 0, json!({"matchLabels": {"app": "web"}}), None),
        (
            2,
            2,
            json!({"matchExpressions": [{"key": "app", "operator": "No"}]}),
            Some((3, None)),
        ),
    ] {
        let set: DaemonSet = serde_json::from_value(json!({
            "metadata": {"name": "web", "generation": generation}, "spec": {"selector": selector},
            "status": {"observedGeneration": observed, "desiredNumberScheduled": 3},
        }))
        .unwrap();
        let found = set.wants().map(|wants| {
            (
                wants.replicas,
                wants.selector.map(|selector| selector.to_string()),
            )
        });
        let expected = expected.map(|(replicas, selector)| (replicas, selector.map(str::to_owned)));
        assert_eq!(found, expected, "{observed} {generation} {selector}");
    }
    let new: DaemonSet =
        serde_json::from_value(json!({"metadata": {"name": "web", "generation": 1}})).unwrap();
    assert!(new.wants().is_none(), "without a status");
}
