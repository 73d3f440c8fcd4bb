use serde_json::json;

use super::*;

#[test]
fn the_end_of_grace_keeps_the_launch_order() {
    let container = |name: &str, key: &str| {
        let reference = json!({"name": "web-a-barrier", "key": key});
        let env = json!([{"name": "KRUISE_CONTAINER_BARRIER", "valueFrom": {"configMapKeyRef": reference}}]);
        json!({"name": name, "image": format!("{name}:1"), "env": env})
    };
    let left =
        json!({"containerImages": {"first": "first:2", "second": "second:2"}, "graceSeconds": 10});
    let pod = json!({
        "metadata": {"name": "web-a", "annotations": {INPLACE_UPDATE_GRACE: left.to_string()}},
        "spec": {"containers": [container("first", "p_1"), container("second", "p_0")]},
    });
    let pod: Pod = serde_json::from_value(pod).unwrap();
    let Action::PatchPod { patch, .. } = end_of_grace(&pod, None, Timestamp::UNIX_EPOCH) else {
        panic!()
    };
    assert_eq!(
        patch.images,
        [("first".to_owned(), "first:2".to_owned())].into()
    );
    let record: Value =
        serde_json::from_str(patch.annotations[state::ANNOTATION].as_deref().unwrap()).unwrap();
    assert_eq!(record["nextContainerImages"], json!({"second": "second:2"}));
    assert_eq!(
        record["preCheckBeforeNext"],
        json!({"containersRequiredReady": ["first"]})
    );
}

/// Every user who may change a pod can write its annotations.
#[test]
fn malformed_grace_annotation_has_no_effect() {
    for patch in ["null", "5", "[]", "\"text\"", "{}", r#"{"metadata":1}"#] {
        let left = json!({"metaDataPatch": BASE64.encode(patch), "graceSeconds": i64::MIN});
        let annotations = json!({INPLACE_UPDATE_GRACE: left.to_string()});
        let pod: Pod =
            serde_json::from_value(json!({"metadata": {"annotations": annotations}})).unwrap();
        assert_eq!(
            rest_of_grace(&pod, Timestamp::MAX),
            SignedDuration::ZERO,
            "{patch}"
        );
        let Action::PatchPod { patch: written, .. } =
            end_of_grace(&pod, None, Timestamp::UNIX_EPOCH)
        else {
            panic!()
        };
        assert_eq!(
            (written.labels.len(), written.images.len()),
            (0, 0),
            "{patch}"
        );
    }
}
