use serde_json::json;

use super::*;

#[test]
fn stateful_workload_of_a_subset_keeps_its_spec() {
    let owners = json!([{
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "UnitedDeployment", "name": "web", "uid": "u", "controller": true,
    }]);
    let read = |labels: Value, owners: &Value| -> StatefulWorkload {
        let annotations = json!({"apps.kruise.io/subset-patch": "{}"});
        let metadata = json!({"name": "web", "labels": labels, "annotations": annotations, "ownerReferences": owners});
        serde_json::from_value(
            json!({"metadata": metadata, "spec": {"replicas": 3}, "status": {"readyReplicas": 2}}),
        )
        .unwrap()
    };
    let (labelled, other) = (
        json!({"apps.kruise.io/subset-name": "a"}),
        json!({"app": "web"}),
    );
    assert_eq!(read(other.clone(), &json!([])).subset, None);
    for (labels, owners, replicas) in [
        (&labelled, &owners, 3),
        (&other, &owners, 3),
        (&labelled, &json!([]), 1),
    ] {
        let subset = read(labels.clone(), owners).subset.unwrap();
        assert_eq!(
            (subset.replicas, subset.status.ready_replicas),
            (replicas, 2),
            "{labels} {owners}"
        );
        assert_eq!(
            subset.metadata.annotations.as_ref().unwrap()["apps.kruise.io/subset-patch"],
            "{}"
        );
    }
}

#[test]
fn ordinals_are_read_as_kubernetes_reads_them() {
    let read = |spec: Value| {
        let workload: StatefulWorkload =
            serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap();
        workload
            .ordinals
            .map(|ordinals| ordinals.iter().take(9).collect::<Vec<_>>())
    };
    let table = [
        (json!({"replicas": 2}), Some(vec![0, 1])),
        (
            json!({"replicas": 2, "ordinals": {"start": 5}, "template": {"spec": {}}}),
            Some(vec![5, 6]),
        ),
        (json!({}), Some(vec![0])),
        (json!(null), Some(vec![0])),
        (json!({"replicas": "many"}), None),
        (json!({"replicas": -1}), None),
        (json!({"replicas": 1_i64 << 40}), None),
    ];
    for (spec, expected) in table {
        assert_eq!(read(spec.clone()), expected, "{spec}");
    }
}
