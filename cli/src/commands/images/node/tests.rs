use serde_json::json;

use super::*;

#[test]
fn pulls_of_a_node_failed_first() {
    let node = json!({
        "metadata": {"name": "n"},
        "spec": {"images": {"web": {"tags": [{"tag": "1"}, {"tag": "2"}, {"tag": "3"}]}}},
        "status": {
            "desired": 3, "succeeded": 1, "failed": 1, "waiting": 1,
            "conditions": [{"type": "RuntimeReady", "status": "False", "message": "no socket"}],
            "imageStatuses": {"web": {"tags": [
                {"tag": "1", "phase": "Succeeded", "progress": 100, "bytesTotal": 3 << 20,
                 "startTime": "2026-11-30T11:58:00Z", "completionTime": "2026-11-30T11:59:00Z"},
                {"tag": "2", "phase": "Failed", "message": "no such image", "startTime": "2026-11-30T11:59:30Z"}]}},
        },
    });
    let kubelet = json!({"status": {"images": [
        {"names": ["docker.io/library/web@sha256:aa", "docker.io/library/web:3"], "sizeBytes": 5 << 20},
        {"names": ["quay.io/db@sha256:bb", "quay.io/db:1"], "sizeBytes": 7 << 20},
        {"names": []},
    ]}});
    let rows = pulls(&node, &kubelet, "2026-11-30T12:00:00Z".parse().unwrap());
    assert_eq!(
        rows,
        [
            ["web", "2", "Failed", "0%", "", "30s", "no such image"],
            ["web", "3", "Waiting", "0%", "5.0 MiB", "-", ""],
            ["web", "1", "Succeeded", "100%", "3.0 MiB", "60s", ""],
        ]
    );
    assert_eq!(
        others(&node, &kubelet),
        [["quay.io/db", "1", "Present", "", "7.0 MiB", "-", ""]]
    );
    assert_eq!(
        summary(&node),
        [
            "Node n: the runtime does not answer: no socket",
            "3 pulls: 1 succeeded, 0 in work, 1 waiting, 1 failed",
        ]
    );
    assert_eq!(
        summary(&json!({})).first().unwrap(),
        "Node : no daemon has reported yet"
    );
}
