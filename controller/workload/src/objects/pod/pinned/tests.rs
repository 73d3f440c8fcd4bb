use serde_json::{Value, json};

use super::super::Pod;

#[test]
fn pod_is_pinned_to_the_node_of_its_affinity() {
    let pinned = |affinity: Value| {
        let pod: Pod =
            serde_json::from_value(json!({"metadata": {}, "spec": {"affinity": affinity}}))
                .unwrap();
        pod.spec.pinned_to
    };
    let of = |operator: &str, values: Value| {
        let field = json!({"key": "metadata.name", "operator": operator, "values": values});
        let terms =
            json!({"nodeSelectorTerms": [{"matchExpressions": []}, {"matchFields": [field]}]});
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}})
    };
    assert_eq!(pinned(of("In", json!(["n1"]))).as_deref(), Some("n1"));
    for other in [
        of("NotIn", json!(["n1"])),
        of("In", json!(["n1", "n2"])),
        json!(null),
        json!({"podAffinity": {}}),
    ] {
        assert_eq!(pinned(other.clone()), None, "{other}");
    }
}
