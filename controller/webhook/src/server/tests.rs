//! The handlers by their texts, and the server by a client of its own.

use serde_json::{Value, json};

use super::{admission, conversion};

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
        assert!(admission::review(text.as_bytes()).is_err(), "{text:?}");
    }
}

#[test]
fn a_good_object_and_a_deletion_are_allowed() {
    let object = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "NodeImage", "metadata": {"name": "a"}, "spec": {}});
    for object in [object, Value::Null] {
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "u", "operation": "CREATE", "object": object, "oldObject": null,
            "resource": {"group": "apps.kruise.io", "version": "v1beta1", "resource": "nodeimages"},
        }});
        let answer: Value = serde_json::from_slice(&admission::review(review.to_string().as_bytes()).unwrap()).unwrap();
        assert_eq!(answer["response"]["uid"], "u");
        assert_eq!(answer["response"]["allowed"], true, "{answer}");
    }
}
