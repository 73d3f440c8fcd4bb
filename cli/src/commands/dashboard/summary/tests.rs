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
    json!({"observedGeneration": 3, "updatedReplicas": updated, "readyReplicas": ready})
}

#[test]
fn state_follows_from_numbers_and_conditions() {
    let mut blocked = status(2, 5);
    blocked["conditions"] =
        json!([{"type": "Blocked", "status": "True", "reason": "R", "message": "M"}]);
    let mut old = status(6, 6);
    old["observedGeneration"] = json!(2);
    let cases = [
        (json!({}), status(6, 6), "Healthy"),
        (json!({}), status(2, 6), "Progressing"),
        (json!({}), status(6, 5), "Progressing"),
        (json!({}), old, "Progressing"),
        (json!({}), json!({}), "Progressing"),
        (json!({"paused": true}), status(2, 6), "Paused"),
        (json!({"paused": true}), status(6, 6), "Healthy"),
        (json!({"partition": 4}), status(2, 6), "AtPartition"),
        (json!({"partition": "50%"}), status(3, 6), "AtPartition"),
        (json!({"partition": "50%"}), status(2, 6), "Progressing"),
        (json!({"partition": 4}), status(6, 6), "Healthy"),
        (json!({}), blocked, "Blocked"),
    ];
    for (strategy, status, expected) in cases {
        let summary = of(CLONE_SETS, &cloneset(strategy.clone(), status.clone()));
        assert_eq!(summary["state"], expected, "{strategy} {status}");
    }
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

#[test]
fn numbers_come_from_the_fields_of_the_kind() {
    let nodes = json!({"status": {
        "desiredNumberScheduled": 3, "updatedNumberScheduled": 1, "numberReady": 2,
    }});
    let counts = |desired, updated, target, ready| Counts {
        desired,
        updated,
        target,
        ready,
    };
    assert_eq!(Counts::of(DAEMON_SETS, &nodes), counts(3, 1, 3, 2));
    let sidecars = json!({
        "spec": {"updateStrategy": {"partition": 1}},
        "status": {"matchedPods": 4, "updatedPods": 2, "readyPods": 4},
    });
    assert_eq!(Counts::of(SIDECAR_SETS, &sidecars), counts(4, 2, 3, 4));
    let job = json!({"status": {"desired": 3, "succeeded": 1, "failed": 1}});
    assert_eq!(Counts::of(BROADCAST_JOBS, &job), counts(3, 2, 3, 1));
    assert_eq!(Counts::of(CLONE_SETS, &json!({})), counts(1, 0, 1, 0));
}
