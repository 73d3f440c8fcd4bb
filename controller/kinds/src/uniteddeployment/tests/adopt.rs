use berth_workload::selector::Selector;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::super::adopt::is_orphan_of;
use super::*;

fn metadata(change: Value) -> ObjectMeta {
    let mut object = json!({
        "namespace": "default", "name": "web-arm", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"app": "web", "apps.kruise.io/subset-name": "arm"},
    });
    json_patch::merge(&mut object, &change);
    serde_json::from_value(object).unwrap()
}

#[test]
fn orphan_of_another_is_not_adopted() {
    let selector = Selector::parse("app=web").unwrap();
    let table = [
        (json!({}), true),
        (json!({"labels": {"app": "db"}}), false),
        (
            json!({"labels": {"apps.kruise.io/subset-name": null}}),
            false,
        ),
        (json!({"labels": {"apps.kruise.io/subset-name": ""}}), false),
        (
            json!({"labels": {"apps.kruise.io/subset-name": "x86"}}),
            false,
        ),
        (json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}), false),
        (
            json!({"ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "x", "controller": true}]}),
            false,
        ),
        (
            json!({"ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "x"}]}),
            true,
        ),
    ];
    for (change, wanted) in table {
        let orphan = metadata(change.clone());
        assert_eq!(is_orphan_of(&selector, "arm", &orphan), wanted, "{change}");
    }
    let all = Selector::parse("").unwrap();
    assert!(
        !is_orphan_of(&all, "arm", &metadata(json!({}))),
        "an empty selector"
    );
}
