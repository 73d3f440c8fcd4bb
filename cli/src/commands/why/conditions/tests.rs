use serde_json::json;

use super::*;

#[test]
fn job_has_counts_message_and_failed_nodes() {
    let job = json!({
        "kind": "ImagePullJob", "metadata": {"namespace": "default", "name": "web"},
        "status": {"desired": 3, "active": 1, "succeeded": 1, "failed": 1,
            "message": "pulling", "failedNodes": ["node-2"]},
    });
    let expected = [
        "ImagePullJob default/web",
        "Counts: desired 3, active 1, succeeded 1, failed 1",
        "Now: pulling",
        "Failed on nodes: node-2",
    ];
    assert_eq!(lines(&job), expected);
}

#[test]
fn node_image_names_pulls_that_are_not_done() {
    let image = json!({
        "kind": "NodeImage", "metadata": {"name": "node-1"},
        "status": {
            "conditions": [{"type": "RuntimeReady", "status": "False", "reason": "NoSocket", "message": "m"}],
            "imageStatuses": {"web": {"tags": [
                {"tag": "1", "phase": "Succeeded"},
                {"tag": "2", "phase": "Failed", "progress": 40, "message": "not found"},
            ]}},
        },
    });
    let expected = [
        "NodeImage node-1",
        "RuntimeReady is False (NoSocket): m",
        "Image web:2 is Failed, 40%: not found",
    ];
    assert_eq!(lines(&image), expected);
}

#[test]
fn object_without_status_has_nothing_to_say() {
    let node = json!({"kind": "Node", "metadata": {"name": "a"}});
    assert_eq!(lines(&node), ["Node a", "Its status says nothing."]);
}
