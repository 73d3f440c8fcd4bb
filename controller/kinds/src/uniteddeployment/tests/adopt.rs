use berth_workload::pod::Metadata;
use berth_workload::selector::Selector;

use super::super::adopt::{Candidate, sort, subset_of_orphan};
use super::*;

fn metadata(change: Value) -> Metadata {
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
        (json!({}), Some("arm")),
        (json!({"namespace": "other"}), None),
        (json!({"labels": {"app": "db"}}), None),
        (json!({"labels": {"apps.kruise.io/subset-name": null}}), None),
        (json!({"labels": {"apps.kruise.io/subset-name": ""}}), None),
        (json!({"labels": {"apps.kruise.io/subset-name": "x86"}}), None),
        (json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}), None),
        (
            json!({"ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "x", "controller": true}]}),
            None,
        ),
        (json!({"ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "x"}]}), Some("arm")),
    ];
    for (change, wanted) in table {
        let orphan = metadata(change.clone());
        let subset = subset_of_orphan("default", &selector, |subset| subset == "arm", &orphan);
        assert_eq!(subset, wanted, "{change}");
    }
    let all = Selector::parse("").unwrap();
    assert_eq!(subset_of_orphan("default", &all, |_| true, &metadata(json!({}))), None, "an empty selector");
}

#[test]
fn workload_with_more_ready_pods_stays() {
    let at = |name: &str, day: u32| {
        metadata(json!({"name": name, "creationTimestamp": format!("2026-01-{day:02}T00:00:00Z")}))
    };
    let (old, young, twin, ready) = (at("c", 1), at("a", 2), at("b", 1), at("z", 9));
    let candidate = |metadata, ready_replicas| Candidate { metadata, ready_replicas };
    let mut all = [candidate(&young, 1), candidate(&old, 1), candidate(&ready, 2), candidate(&twin, 1)];
    sort(&mut all);
    let names: Vec<&str> = all.iter().map(|candidate| &*candidate.metadata.name).collect();
    assert_eq!(names, ["z", "b", "c", "a"]);
}
