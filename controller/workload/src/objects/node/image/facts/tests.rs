use serde_json::json;

use super::*;

#[test]
fn image_ids_match_any_spelling_of_the_image() {
    let digest = format!("sha256:{}", "a".repeat(64));
    let node: NodeImage = serde_json::from_value(json!({
            "metadata": {"name": "n"},
            "spec": {},
            "status": {
                "desired": 0, "succeeded": 0, "failed": 0, "pulling": 0,
                "imageFacts": [
                    {"image": "docker.io/library/web:latest", "imageIDs": ["sha256:1"]},
                    {"image": "elsewhere.io/web", "imageIDs": ["sha256:2"]},
                    {"image": format!("web:1@{digest}"), "imageIDs": ["sha256:3"]},
                ],
                "imageStatuses": {
                    "web": {"tags": [{"tag": "latest", "phase": "Succeeded", "imageIDs": ["sha256:4"]}]},
                    "other": {"tags": [{"tag": "1", "phase": "Succeeded", "imageIDs": ["sha256:5"]}]},
                },
            },
        }))
        .unwrap();
    let ids = |image: &str| {
        let spec = json!({"containers": [{"name": "main", "image": image}]});
        let pod: Pod = serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap();
        facts(&node, &pod)
            .image_ids
            .into_values()
            .collect::<Vec<_>>()
            .concat()
    };
    assert_eq!(ids("web"), ["sha256:1", "sha256:4"]);
    assert_eq!(ids("elsewhere.io/web:latest"), ["sha256:2"]);
    assert_eq!(ids(&format!("web@{digest}")), ["sha256:3"]);
    assert_eq!(ids("other:2"), [] as [&str; 0], "another tag");
    let init = json!([{"name": "mesh", "image": "web", "restartPolicy": "Always"}, {"name": "once", "image": "other:1"}]);
    let pod: Pod =
        serde_json::from_value(json!({"metadata": {}, "spec": {"initContainers": init}})).unwrap();
    let of_native = facts(&node, &pod)
        .image_ids
        .into_values()
        .collect::<Vec<_>>()
        .concat();
    assert_eq!(
        of_native,
        ["sha256:1", "sha256:4"],
        "of init containers only those that go on running"
    );
}
