use berth_workload::objects::resource::CLONE_SETS;

use super::*;

fn cloneset(strategy: Value, status: Value) -> Value {
    json!({
        "metadata": {"name": "web", "namespace": "default", "generation": 3},
        "spec": {"replicas": 6, "updateStrategy": {"rollingUpdate": strategy}, "template": {"spec": {
            "containers": [{"image": "web:2"}, {"image": "log:1"}, {"image": "web:2"}],
        }}},
        "status": status,
    })
}

fn status(updated: i64, ready: i64) -> Value {
    json!({"observedGeneration": 3, "replicas": 6, "updatedReplicas": updated,
           "readyReplicas": ready, "availableReplicas": ready})
}

#[test]
fn state_is_that_of_get_or_deleting() {
    let summary = |object: &Value| of(CLONE_SETS, object);
    let mut blocked = status(2, 5);
    blocked["conditions"] =
        json!([{"type": "Blocked", "status": "True", "reason": "R", "message": "M"}]);
    let mut set = cloneset(json!({"partition": 4}), blocked);
    assert_eq!(summary(&set)["state"], "Blocked");
    assert_eq!(
        summary(&set)["blocked"],
        json!({"reason": "R", "message": "M"})
    );
    set["metadata"]["deletionTimestamp"] = json!("2026-12-01T00:00:00Z");
    assert_eq!(summary(&set)["state"], "Deleting");
    let at_partition = summary(&cloneset(json!({"partition": 4}), status(2, 6)));
    assert_eq!(at_partition["state"], "AtPartition");
    assert_eq!(at_partition["target"], 2);
    assert_eq!(at_partition["blocked"], Value::Null);
}

#[test]
fn summary_has_each_image_once() {
    let summary = of(CLONE_SETS, &cloneset(json!({}), status(6, 6)));
    assert_eq!(summary["images"], json!(["web:2", "log:1"]));
    let united = json!({"spec": {"template": {"cloneSetTemplate": {"spec": {"template": {
        "spec": {"containers": [{"image": "web:1"}]},
    }}}}}});
    assert_eq!(images(&united), ["web:1"]);
    assert_eq!(
        images(&json!({"spec": {"containers": [{"image": "side:1"}]}})),
        ["side:1"]
    );
}
