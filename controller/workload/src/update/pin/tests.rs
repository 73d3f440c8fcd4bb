use super::*;

fn records(required: Value, preferred: Value, record: Value) -> PersistentPodState {
    serde_json::from_value(json!({
            "metadata": {"name": "db"},
            "spec": {
                "targetRef": {"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": "db"},
                "requiredPersistentTopology": {"keys": required}, "preferredPersistentTopology": preferred,
                "persistentPodAnnotations": [{"key": "x"}, {"key": "y"}],
            },
            "status": {"observedGeneration": 1, "podStates": {"db-0": record}},
        }))
        .unwrap()
}

fn preferred(weight: i32, key: &str) -> Value {
    json!({"weight": weight, "preference": {"keys": [key]}})
}

#[test]
fn pinning_adds_only_what_the_template_lacks() {
    let labels = json!({"zone": "a", "host": "n1", "rack": "r1"});
    let record = json!({"nodeName": "n1", "nodeTopologyLabels": labels, "annotations": {"x": "1", "y": "2", "unlisted": "3"}});
    let records = records(
        json!(["zone", "host", "gone"]),
        json!([preferred(7, "rack"), preferred(1, "gone")]),
        record,
    );
    let template = || json!({"metadata": {"annotations": {"y": "own"}}, "spec": {"nodeSelector": {"zone": "b"}}});
    let mut pod = template();
    pin(&mut pod, "db-0", &records);
    assert_eq!(
        pod["spec"]["nodeSelector"],
        json!({"zone": "b", "host": "n1"})
    );
    let affinity =
        &pod["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"];
    let expression = json!({"key": "rack", "operator": "In", "values": ["r1"]});
    assert_eq!(
        *affinity,
        json!([{"weight": 7, "preference": {"matchExpressions": [expression]}}])
    );
    let annotations =
        json!({"x": "1", "y": "own", "kruise.io/injected-persistent-pod-state": "db"});
    assert_eq!(pod["metadata"]["annotations"], annotations);
    let mut other = template();
    pin(&mut other, "db-1", &records);
    assert_eq!(other, template(), "one without a record");
}

#[test]
fn pinning_leaves_malformed_pods_unchanged() {
    let record =
        json!({"nodeName": "n1", "nodeTopologyLabels": {"host": "n1"}, "annotations": {"x": "1"}});
    let records = records(json!(["host"]), json!([preferred(7, "host")]), record);
    let list = "preferredDuringSchedulingIgnoredDuringExecution";
    for hostile in [
        json!({"metadata": [], "spec": "x"}),
        json!({"metadata": {"annotations": 7}, "spec": {"nodeSelector": [], "affinity": "x"}}),
        json!({"metadata": {"annotations": []}, "spec": {"nodeSelector": true, "affinity": {"nodeAffinity": [1]}}}),
        json!({"metadata": {"annotations": ""}, "spec": {"nodeSelector": 1, "affinity": {"nodeAffinity": {list: {}}}}}),
        json!("x"),
    ] {
        let mut pod = hostile.clone();
        pin(&mut pod, "db-0", &records);
        assert_eq!(pod, hostile);
    }
}
