use serde_json::json;

use super::*;

#[test]
fn selectors_become_queries() {
    let workload = json!({"spec": {"selector": {
        "matchLabels": {"app": "web"},
        "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["a", "b"]},
            {"key": "old", "operator": "DoesNotExist"},
            {"key": "new", "operator": "Exists"},
            {"key": "zone", "operator": "NotIn", "values": ["c"]},
        ],
    }}});
    let query = selector(&workload).unwrap();
    assert_eq!(query, "app=web,tier in (a,b),!old,new,zone notin (c)");
    assert_eq!(selector(&json!({"spec": {}})), None);
    assert_eq!(selector(&json!({"spec": {"selector": {}}})), None);
}
