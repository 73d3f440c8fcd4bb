use berth_workload::objects::resource::{CLONE_SETS, SIDECAR_SETS};
use serde_json::json;

use super::*;

#[test]
fn variables_are_listed_by_container() {
    let from = |source: Value| json!({"name": "A", "valueFrom": source});
    let spec = json!({"containers": [
        {"name": "app", "env": [
            {"name": "A", "value": "1"},
            {"name": "A"},
            from(json!({"fieldRef": {"fieldPath": "spec.nodeName"}})),
            from(json!({"secretKeyRef": {"name": "s", "key": "k"}})),
            from(json!({"configMapKeyRef": {"name": "c", "key": "k"}})),
            from(json!({"resourceFieldRef": {"resource": "limits.cpu"}})),
            from(json!({"fileKeyRef": {"key": "k"}})),
        ]},
        {"name": "log"},
    ]});
    let set = json!({"metadata": {"name": "web"}, "spec": {"template": {"spec": spec}}});
    let expected = [
        "# CloneSet web, container app",
        "A=1",
        "A=",
        "# A from field path spec.nodeName",
        "# A from secret s, key k",
        "# A from configmap c, key k",
        "# A from resource field limits.cpu",
        "# A from another source",
        "# CloneSet web, container log",
    ];
    let all = ["*".to_owned()];
    assert_eq!(lines(CLONE_SETS, &set, &all).unwrap(), expected);
    let log = ["log".to_owned()];
    assert_eq!(lines(CLONE_SETS, &set, &log).unwrap(), expected[8..]);
    assert!(lines(CLONE_SETS, &set, &["x".to_owned()]).is_err());
    let sidecars = json!({"metadata": {"name": "web"}, "spec": spec});
    assert_eq!(
        lines(SIDECAR_SETS, &sidecars, &log).unwrap(),
        ["# SidecarSet web, container log"]
    );
}
