use serde_json::json;

use super::*;

#[test]
fn node_keeps_only_what_decisions_read() {
    let ready = |status: &str| json!({"conditions": [{"type": "Ready", "status": status}]});
    for (spec, status, expected) in [
        (
            json!({"unschedulable": true, "podCIDR": "10.0.0.0/24"}),
            ready("True"),
            (true, true),
        ),
        (json!({}), ready("Unknown"), (false, false)),
        (json!(null), json!(null), (false, false)),
    ] {
        let node: Node = serde_json::from_value(
            json!({"metadata": {"name": "n1"}, "spec": spec, "status": status}),
        )
        .unwrap();
        assert_eq!((node.cordoned, node.ready), expected, "{spec} {status}");
    }
}
