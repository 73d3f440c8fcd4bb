use serde_json::{Value, json};

use crate::objects::pod::Pod;

#[test]
fn only_names_of_claim_volumes_are_kept() {
    let claim = |name: &str| json!({"name": name, "persistentVolumeClaim": {"claimName": "any", "readOnly": true}});
    let token = json!({"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}});
    let none: [&str; 0] = [];
    for (volumes, expected) in [
        (Value::Null, none.to_vec()),
        (json!([]), none.to_vec()),
        (
            json!([token, {"name": "null", "persistentVolumeClaim": null}]),
            none.to_vec(),
        ),
        (
            json!([token, claim("data"), {"name": "tmp", "emptyDir": {}}, claim("log")]),
            vec!["data", "log"],
        ),
    ] {
        let pod = json!({"metadata": {"name": "db-0"}, "spec": {"volumes": volumes}});
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let names: Vec<_> = pod.spec.claim_volumes.iter().map(|name| &**name).collect();
        assert_eq!(names, expected, "{volumes}");
    }
    let without: Pod = serde_json::from_value(json!({"metadata": {}, "spec": {}})).unwrap();
    assert!(without.spec.claim_volumes.is_empty());
}
