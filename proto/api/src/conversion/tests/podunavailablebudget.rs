//! PodUnavailableBudget: two annotations of v1alpha1, and a field that it lacks.

use serde_json::{Value, json};

use super::to;

const ALPHA: &str = "policy.kruise.io/v1alpha1";
const BETA: &str = "policy.kruise.io/v1beta1";
const OPERATIONS: &str = "kruise.io/pub-protect-operations";
const TOTAL: &str = "pub.kruise.io/protect-total-replicas";

fn budget(version: &str, annotations: &Value, fields: &Value) -> Value {
    let mut spec = json!({"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1});
    fields
        .as_object()
        .unwrap()
        .iter()
        .for_each(|(key, value)| spec[key] = value.clone());
    let mut budget = json!({"apiVersion": version, "kind": "PodUnavailableBudget", "metadata": {"name": "web"}, "spec": spec});
    if *annotations != json!({}) {
        budget["metadata"]["annotations"] = annotations.clone();
    }
    budget
}

#[test]
fn annotations_become_fields_and_come_back() {
    for (annotations, fields) in [
        (
            json!({OPERATIONS: "DELETE, EVICT"}),
            json!({"protectOperations": ["DELETE", "EVICT"]}),
        ),
        (
            json!({TOTAL: "5", "mine": "x"}),
            json!({"protectTotalReplicas": 5}),
        ),
        (
            json!({OPERATIONS: "UPDATE", TOTAL: "1"}),
            json!({"protectOperations": ["UPDATE"], "protectTotalReplicas": 1}),
        ),
    ] {
        let alpha = budget(ALPHA, &annotations, &json!({}));
        let beta = to(BETA, &alpha);
        assert_eq!(
            beta["spec"],
            budget(BETA, &json!({}), &fields)["spec"],
            "{annotations}"
        );
        let left = beta["metadata"]["annotations"].as_object();
        assert!(
            left.is_none_or(|left| !left.contains_key(OPERATIONS) && !left.contains_key(TOTAL)),
            "{annotations}"
        );
        assert_eq!(to(ALPHA, &beta), alpha, "{annotations}");
    }
}

#[test]
fn unreadable_annotation_survives_conversion() {
    for annotations in [
        json!({OPERATIONS: "DELETE,DROP"}),
        json!({TOTAL: "many"}),
        json!({TOTAL: "0"}),
    ] {
        let alpha = budget(ALPHA, &annotations, &json!({}));
        let beta = to(BETA, &alpha);
        assert_eq!(beta["spec"], alpha["spec"], "{annotations}");
        assert_eq!(to(ALPHA, &beta), alpha, "{annotations}");
    }
}

#[test]
fn edit_of_v1beta1_counts_and_extra_field_survives() {
    let alpha = budget(ALPHA, &json!({TOTAL: "5"}), &json!({}));
    let mut beta = to(BETA, &alpha);
    beta["spec"]["protectTotalReplicas"] = json!(7);
    assert_eq!(to(ALPHA, &beta)["metadata"]["annotations"][TOTAL], "7");
    let ignored =
        json!({"ignoredPodSelector": {"matchLabels": {"a": "b"}}, "protectOperations": ["RESIZE"]});
    let beta = budget(BETA, &json!({}), &ignored);
    let alpha = to(ALPHA, &beta);
    assert_eq!(alpha["metadata"]["annotations"][OPERATIONS], "RESIZE");
    assert_eq!(alpha["spec"].get("ignoredPodSelector"), None);
    assert_eq!(to(BETA, &alpha), beta);
}
