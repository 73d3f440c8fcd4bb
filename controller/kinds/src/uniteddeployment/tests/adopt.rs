use berth_workload::objects::untyped_workload::UntypedWorkload;

use super::super::adopt::is_orphan_of;
use super::*;

fn orphan(change: &Value) -> UntypedWorkload {
    let labels = json!({"app": "web", "apps.kruise.io/subset-name": "arm"});
    let mut object = json!({
        "metadata": {
            "namespace": "default", "name": "web-arm", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": labels,
        },
        "spec": {"selector": {"matchLabels": labels}},
    });
    json_patch::merge(&mut object, change);
    serde_json::from_value(object).unwrap()
}

#[test]
fn orphan_of_another_is_not_adopted() {
    let selector = |value: Value| serde_json::from_value::<LabelSelector>(value).unwrap();
    let own = selector(json!({"matchLabels": {"app": "web"}, "matchExpressions": []}));
    let owner = json!({"apiVersion": "v1", "kind": "X", "name": "x", "uid": "x"});
    let mut controller = owner.clone();
    controller["controller"] = json!(true);
    let table = [
        (json!({}), true),
        (json!({"metadata": {"labels": {"app": "db"}}}), false),
        (
            json!({"metadata": {"labels": {"apps.kruise.io/subset-name": null}}}),
            false,
        ),
        (
            json!({"metadata": {"labels": {"apps.kruise.io/subset-name": ""}}}),
            false,
        ),
        (
            json!({"metadata": {"labels": {"apps.kruise.io/subset-name": "x86"}}}),
            false,
        ),
        (
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
            false,
        ),
        (
            json!({"metadata": {"ownerReferences": [controller]}}),
            false,
        ),
        (json!({"metadata": {"ownerReferences": [owner]}}), true),
        (
            json!({"spec": {"selector": {"matchLabels": {"apps.kruise.io/subset-name": null}}}}),
            false,
        ),
        (
            json!({"spec": {"selector": {"matchLabels": {"tier": "a"}}}}),
            false,
        ),
        (
            json!({"spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}}),
            false,
        ),
        (json!({"spec": {"selector": null}}), false),
    ];
    for (change, wanted) in table {
        assert_eq!(
            is_orphan_of(&own, "arm", &orphan(&change)),
            wanted,
            "{change}"
        );
    }
    let all = LabelSelector::default();
    assert!(
        !is_orphan_of(&all, "arm", &orphan(&json!({}))),
        "an empty selector"
    );
}
