use berth_api::v1beta1::PodUnavailableBudget;
use serde_json::json;

use super::*;

#[test]
fn watched_kind_of_ours_has_slim_metadata() {
    let read = |metadata: serde_json::Value| {
        let budget = json!({
            "apiVersion": "policy.kruise.io/v1beta1", "kind": "PodUnavailableBudget", "metadata": metadata, "spec": {},
        });
        serde_json::from_value::<Watched<PodUnavailableBudget>>(budget)
    };
    let annotations =
        json!({"other.io/a": "x".repeat(250_000), "kruise.io/pub-protect-operations": "DELETE"});
    let kept =
        read(json!({"name": "a", "labels": {"app": "web"}, "annotations": annotations})).unwrap();
    let metadata = &kept.0.metadata;
    let keys: Vec<_> = metadata
        .annotations
        .iter()
        .flatten()
        .map(|(key, _)| key.as_str())
        .collect();
    assert_eq!(keys, ["kruise.io/pub-protect-operations"]);
    assert_eq!(metadata.labels.as_ref().map(|labels| labels.len()), Some(1));
    let finalizers = vec!["a.example/b"; 9_000];
    let why = read(json!({"name": "a", "finalizers": finalizers}))
        .unwrap_err()
        .to_string();
    assert!(
        why.contains("finalizers: have 387000 bytes, and 65536 are the limit"),
        "{why}"
    );
}
