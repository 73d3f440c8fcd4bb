use serde_json::json;

use super::*;

#[test]
fn node_selector_names_the_nodes_that_match() {
    let node = |labels: Value| json!({"metadata": {"labels": labels}});
    let nodes = || {
        Ok(vec![
            node(json!({"disk": "ssd", "zone": "b"})),
            node(json!({"disk": "hdd", "zone": "a"})),
            node(Value::Null),
        ])
    };
    let refused = Err("nodes is forbidden".to_owned());
    let table = [
        (json!({}), nodes(), None),
        (json!({"nodeSelector": {}}), nodes(), None),
        (
            json!({"nodeSelector": {"disk": "ssd", "zone": "a"}}),
            nodes(),
            Some(
                "Node selector: spec.nodeSelector disk=ssd,zone=a matches 0 of 3 nodes; correct \
                 it, or add the labels by `kubectl label node NAME disk=ssd zone=a`",
            ),
        ),
        (
            json!({"nodeSelector": {"disk": "ssd"}}),
            nodes(),
            Some("Node selector: spec.nodeSelector disk=ssd matches 1 of 3 nodes"),
        ),
        (
            json!({"nodeSelector": {"disk": "ssd"}}),
            refused,
            Some(
                "Node selector: spec.nodeSelector disk=ssd; which nodes match is not known: \
                 nodes is forbidden",
            ),
        ),
    ];
    for (spec, nodes, expected) in table {
        let line = node_selector(&spec, "spec.nodeSelector", &nodes);
        assert_eq!(line.as_deref(), expected, "{spec}");
    }
}
