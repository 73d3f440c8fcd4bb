use super::*;

#[test]
fn node_line_counts_images_and_pulls() {
    let node = json!({
        "metadata": {"name": "node-1"}, "spec": {"unschedulable": true},
        "status": {
            "images": [{"sizeBytes": 5}, {"sizeBytes": 6}],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    });
    let images = json!({"status": {"desired": 2, "succeeded": 1, "pulling": 1, "imageStatuses": {
        "web": {"tags": [{"tag": "1", "phase": "Succeeded"}, {"tag": "2", "phase": "Pulling"}]},
    }}});
    let line = line(&node, Some(&images));
    assert_eq!(
        (&line["ready"], &line["cordoned"]),
        (&json!(true), &json!(true))
    );
    assert_eq!(
        (&line["images"], &line["imageBytes"]),
        (&json!(2), &json!(11))
    );
    assert_eq!(line["pulls"]["pulling"], 1);
    assert_eq!(line["pulls"]["shown"][0]["image"], "web:2");
    assert_eq!(super::line(&node, None)["pulls"]["desired"], json!(null));
}
