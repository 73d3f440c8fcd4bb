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

#[test]
fn node_has_cordon_pods_and_commands() {
    let pods = |number: usize| {
        let pod = |at| json!({"metadata": {"namespace": "d", "name": format!("p{at}")}, "spec": {"nodeName": "a"}});
        let mut pods: Vec<_> = (0..number).map(pod).collect();
        pods.push(json!({"metadata": {"name": "x"}, "spec": {"nodeName": "b"}}));
        pods
    };
    let long = "p0, d/p1, d/p2, d/p3, d/p4, d/p5, d/p6, d/p7, d/p8, d/p9, 2 more";
    let cases = [
        (
            true,
            Ok(pods(0)),
            "Cordoned: yes; `kubectl uncordon a` lets new pods come",
            "Pods: none".to_owned(),
        ),
        (
            false,
            Ok(pods(1)),
            "Cordoned: no",
            "Pods: 1: d/p0".to_owned(),
        ),
        (
            false,
            Ok(pods(12)),
            "Cordoned: no",
            format!("Pods: 12: d/{long}"),
        ),
        (
            false,
            Err("no right".to_owned()),
            "Cordoned: no",
            "Pods: not known: no right".to_owned(),
        ),
    ];
    for (is_cordoned, pods, cordoned, listed) in cases {
        let object = json!({
            "kind": "Node", "metadata": {"name": "a"}, "spec": {"unschedulable": is_cordoned},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        });
        let found = node(&object, &pods);
        let drain = "A drain: `kubectl berth drain a --dry-run` says more";
        assert_eq!(
            found,
            ["Node a", cordoned, &*listed, "Ready is True", drain]
        );
    }
}
