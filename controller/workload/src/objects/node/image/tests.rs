use serde_json::json;

use super::*;

#[test]
fn node_image_keeps_only_what_decisions_read() {
    let metadata = json!({"name": "n1", "labels": {"zone": "a"}, "annotations": {"other": "x"}, "managedFields": [{}]});
    let pulls = json!({"desired": 2, "conditions": [{"type": "RuntimeReady", "status": "True"}]});
    for (status, desired) in [(json!(null), None), (pulls, Some(2))] {
        let image: NodeImage =
            serde_json::from_value(json!({"metadata": metadata, "spec": {}, "status": status}))
                .unwrap();
        assert_eq!(
            (name(&image), image.metadata.label("zone")),
            ("n1", Some("a"))
        );
        assert!(image.metadata.annotations.is_empty());
        assert_eq!(image.status.as_ref().map(|status| status.desired), desired);
        assert!(
            image
                .status
                .is_none_or(|status| status.conditions.is_empty())
        );
    }
}
