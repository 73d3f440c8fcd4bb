//! The handlers by their texts, and what they know of our kinds.

use serde_json::{Value, json};

use super::conversion;
use crate::kinds;

fn converted(review: &Value) -> Value {
    serde_json::from_slice(&conversion::review(review.to_string().as_bytes()).unwrap()).unwrap()
}

#[test]
fn a_review_is_answered_object_by_object_in_order() {
    let object = |name: &str| json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "NodeImage", "metadata": {"name": name}, "spec": {}});
    let answer = converted(&json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": {"uid": "u", "desiredAPIVersion": "apps.kruise.io/v1beta1", "objects": [object("a"), object("b")]},
    }));
    assert_eq!(answer["kind"], "ConversionReview");
    assert_eq!(answer["response"]["uid"], "u");
    assert_eq!(answer["response"]["result"]["status"], "Success");
    let objects = answer["response"]["convertedObjects"].as_array().unwrap();
    let names: Vec<_> = objects.iter().map(|object| &object["metadata"]["name"]).collect();
    assert_eq!(names, ["a", "b"]);
    assert!(objects.iter().all(|object| object["apiVersion"] == "apps.kruise.io/v1beta1"), "{objects:?}");
}

#[test]
fn an_object_that_cannot_be_converted_fails_its_review_and_is_named() {
    let answer = converted(&json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": {"uid": "u", "desiredAPIVersion": "apps.kruise.io/v1beta1", "objects": [
            {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "Sidecar", "metadata": {"name": "odd", "namespace": "ns"}},
        ]},
    }));
    let result = &answer["response"]["result"];
    assert_eq!(result["status"], "Failure");
    assert!(result["message"].as_str().unwrap().contains("Sidecar ns/odd"), "{result}");
}

#[test]
fn what_is_no_review_is_refused() {
    for text in ["", "rubbish", "{}", r#"{"apiVersion": "v1", "kind": "ConversionReview"}"#] {
        assert!(conversion::review(text.as_bytes()).is_err(), "{text:?}");
    }
}

#[test]
fn only_a_new_template_of_a_cloneset_is_judged() {
    let object =
        |image: &str| json!({"spec": {"template": {"spec": {"containers": [{"image": image}]}}, "replicas": 1}});
    let (old, mut scaled, changed) = (object("a"), object("a"), object("b"));
    scaled["spec"]["replicas"] = json!(2);
    assert!(kinds::template_to_judge("clonesets", &old, None).is_some());
    assert!(kinds::template_to_judge("clonesets", &changed, Some(&old)).is_some());
    assert!(kinds::template_to_judge("clonesets", &scaled, Some(&old)).is_none());
    assert!(kinds::template_to_judge("nodeimages", &changed, Some(&old)).is_none());
}

#[test]
fn a_refusal_names_the_fields_of_the_cloneset() {
    let status = serde_json::from_value(json!({
        "status": "Failure", "reason": "Invalid", "code": 422, "message": "PodTemplate \"x\" is invalid",
        "details": {"causes": [
            {"reason": "FieldValueRequired", "message": "Required value", "field": "template.spec.containers[0].name"},
            {"reason": "FieldValueInvalid", "message": "Invalid value: \"X\"", "field": "template.metadata.labels"},
        ]},
    }));
    let message = kinds::in_a_cloneset(&status.unwrap());
    assert_eq!(
        message,
        "spec.template.spec.containers[0].name: Required value; spec.template.metadata.labels: Invalid value: \"X\""
    );
    assert_eq!(kinds::in_a_cloneset(&kube::core::Status::failure("broken", "Invalid")), "spec.template: broken");
}

#[test]
fn an_object_that_our_types_cannot_read_is_refused() {
    let good =
        json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "NodeImage", "metadata": {"name": "a"}, "spec": {}});
    assert_eq!(kinds::readable("nodeimages", &good), Ok(()));
    let bad = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "NodeImage", "metadata": {"name": "a"}, "spec": {"images": 7}});
    assert!(kinds::readable("nodeimages", &bad).is_err());
}

#[test]
fn a_fault_is_refused_with_its_field_unless_it_was_there_before() {
    let object = |value: &str| {
        json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "metadata": {"name": "a"},
            "spec": {"selector": {"matchLabels": {"app": value}}},
        })
    };
    assert_eq!(kinds::faultless(&object("fine"), None), Ok(()));
    let error = kinds::faultless(&object("not fine!"), Some(&object("fine"))).unwrap_err();
    assert!(error.contains("spec.selector.matchLabels[app]") && error.contains("not fine!"), "{error}");
    assert_eq!(kinds::faultless(&object("not fine!"), Some(&object("not fine!"))), Ok(()));
}
