//! DaemonSet: an annotation, a type and a field of the status of v1alpha1.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{ALPHA, BETA, anything, object, one_of, other, to};
use crate::names::annotation::DAEMONSET_PROGRESSIVE_CREATE_POD as PROGRESSIVE;

fn set(version: &str, annotations: &Value, spec: &Value) -> Value {
    let mut set = json!({"apiVersion": version, "kind": "DaemonSet", "metadata": {"name": "demo"}, "spec": spec});
    if *annotations != json!({}) {
        set["metadata"]["annotations"] = annotations.clone();
    }
    set
}

fn rolling(fields: Value) -> Value {
    json!({"updateStrategy": {"rollingUpdate": fields}})
}

#[test]
fn surging_becomes_standard_with_max_surge() {
    for (alpha, beta) in [
        (json!({}), json!({"maxSurge": 1, "maxUnavailable": 0})),
        (
            json!({"maxSurge": "20%"}),
            json!({"maxSurge": "20%", "maxUnavailable": 0}),
        ),
        (
            json!({"maxUnavailable": 2, "partition": 1}),
            json!({"maxSurge": 1, "maxUnavailable": 2, "partition": 1}),
        ),
    ] {
        let (mut alpha, mut beta) = (alpha, beta);
        alpha["rollingUpdateType"] = json!("Surging");
        beta["rollingUpdateType"] = json!("Standard");
        let original = set(ALPHA, &json!({}), &rolling(alpha));
        let converted = to(BETA, &original);
        assert_eq!(converted["spec"], rolling(beta));
        assert_eq!(to(ALPHA, &converted), original, "it comes back");
        let mut edited = converted.clone();
        edited["spec"]["updateStrategy"]["rollingUpdate"]["maxSurge"] = json!(3);
        assert_eq!(
            to(BETA, &to(ALPHA, &edited))["spec"],
            edited["spec"],
            "an edit counts"
        );
    }
}

#[test]
fn annotation_and_field_are_converted_both_ways() {
    let progressive = set(
        ALPHA,
        &json!({PROGRESSIVE: "true", "mine": "x"}),
        &json!({"minReadySeconds": 1}),
    );
    let beta = to(BETA, &progressive);
    assert_eq!(
        beta["spec"],
        json!({"minReadySeconds": 1, "scaleStrategy": {"partitionedScaling": true}})
    );
    assert_eq!(beta["metadata"]["annotations"], json!({"mine": "x"}));
    assert_eq!(to(ALPHA, &beta), progressive);
    let mut off = beta;
    off["spec"]["scaleStrategy"]["partitionedScaling"] = json!(false);
    assert_eq!(
        to(ALPHA, &off)["metadata"]["annotations"].get(PROGRESSIVE),
        None
    );
    assert_eq!(to(BETA, &to(ALPHA, &off)), off);
}

#[test]
fn the_hash_of_the_template_has_another_name() {
    let mut alpha = set(ALPHA, &json!({}), &json!({}));
    alpha["status"] = json!({"daemonSetHash": "abc", "numberReady": 1});
    let beta = to(BETA, &alpha);
    assert_eq!(
        beta["status"],
        json!({"updateRevision": "abc", "numberReady": 1})
    );
    assert_eq!(to(ALPHA, &beta), alpha);
}

/// DaemonSets of both versions, with what only the other version knows as well.
fn daemonsets() -> BoxedStrategy<Value> {
    let number = || prop_oneof![Just(json!(0)), Just(json!(1)), Just(json!("20%"))].boxed();
    let update = object(vec![
        (
            "rollingUpdateType",
            one_of(&["Standard", "InPlaceIfPossible", "Surging"]).boxed(),
        ),
        ("maxSurge", number()),
        ("maxUnavailable", number()),
    ]);
    let scale = object(vec![(
        "partitionedScaling",
        prop_oneof![Just(json!(true)), Just(json!(false))].boxed(),
    )]);
    let annotations = object(vec![
        (PROGRESSIVE, one_of(&["true", "false", ""]).boxed()),
        ("mine", one_of(&["x"]).boxed()),
    ]);
    let spec = (update, scale, anything(), any::<(bool, bool)>()).prop_map(
        |(update, scale, other, (has, scales))| {
            let mut spec = if has { rolling(update) } else { json!({}) };
            spec["template"] = other;
            if scales {
                spec["scaleStrategy"] = scale;
            }
            spec
        },
    );
    let version = prop_oneof![Just(ALPHA), Just(BETA)];
    let of = |(version, annotations, mut spec): (_, Value, Value)| {
        let type_ = spec.pointer_mut("/updateStrategy/rollingUpdate/rollingUpdateType");
        if let Some(type_) = type_.filter(|type_| version == BETA && **type_ == "Surging") {
            *type_ = json!("Standard");
        }
        set(version, &annotations, &spec)
    };
    (version, annotations, spec).prop_map(of).boxed()
}

proptest! {
    #[test]
    fn nothing_is_lost_there_and_back(original in daemonsets()) {
        let first = to(other(&original["apiVersion"]), &original);
        let second = to(original["apiVersion"].as_str().unwrap(), &first);
        prop_assert_eq!(&second, &original);
        prop_assert_eq!(to(other(&original["apiVersion"]), &second), first);
    }
}
