//! UnitedDeployment: a CloneSet's template in two shapes, and a status in two.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    ALPHA, BETA, EXCLUDE, PARALLELISM, anything, int_or_percent, memory, metadata, object, one_of,
    other, rolling, to,
};
use crate::names::annotation::CONVERSION;

fn united(version: &str, clone_set: &Value, status: &Value) -> Value {
    json!({
        "apiVersion": version, "kind": "UnitedDeployment", "metadata": {"name": "demo"},
        "spec": {"replicas": 3, "template": {"cloneSetTemplate": clone_set}}, "status": status,
    })
}

fn template(spec: Value) -> Value {
    json!({"metadata": {"labels": {"app": "demo"}}, "spec": spec})
}

fn clone_set(object: &Value) -> &Value {
    &object["spec"]["template"]["cloneSetTemplate"]
}

#[test]
fn clone_set_template_reads_as_that_version() {
    let mut older = template(json!({
        "scaleStrategy": {"disablePVCReuse": true},
        "updateStrategy": {"type": "InPlaceIfPossible", "partition": 1, "maxUnavailable": "20%"},
    }));
    older["metadata"]["labels"][EXCLUDE] = json!("true");
    older["metadata"]["annotations"] = json!({PARALLELISM: "10%"});
    let newer = template(json!({
        "scaleStrategy": {"enablePVCReuse": false, "excludePreparingDelete": true},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {
            "podUpdatePolicy": "InPlaceIfPossible", "partition": 1, "maxUnavailable": "20%",
            "inPlaceUpdateStrategy": {"imagePreDownloadParallelism": "10%"},
        }},
    }));
    let stored = to(BETA, &united(ALPHA, &older, &json!({})));
    assert_eq!(clone_set(&stored), &newer);
    assert_eq!(
        clone_set(&to(ALPHA, &united(BETA, &newer, &json!({})))),
        &older
    );
}

#[test]
fn clone_set_template_without_metadata_keeps_flag() {
    let newer = json!({"spec": {
        "scaleStrategy": {"enablePVCReuse": true, "excludePreparingDelete": true},
        "updateStrategy": {"type": "OnDelete", "rollingUpdate": {"podUpdatePolicy": "ReCreate"}},
    }});
    let beta = united(BETA, &newer, &json!({}));
    let alpha = to(ALPHA, &beta);
    assert_eq!(
        clone_set(&alpha)["metadata"]["labels"],
        json!({EXCLUDE: "true"})
    );
    assert_eq!(to(BETA, &alpha), beta);
}

#[test]
fn older_template_without_strategies_reuses_claims() {
    let stored = to(
        BETA,
        &united(ALPHA, &template(json!({"minReadySeconds": 1})), &json!({})),
    );
    assert_eq!(
        clone_set(&stored)["spec"]["scaleStrategy"]["enablePVCReuse"],
        true
    );
    assert_eq!(
        clone_set(&stored)["spec"]["updateStrategy"]["rollingUpdate"]["podUpdatePolicy"],
        "ReCreate"
    );
}

#[test]
fn newer_shape_in_v1alpha1_is_kept_as_it_is() {
    for spec in [
        json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}}),
        json!({"updateStrategy": {"rollingUpdate": {"partition": 2}}, "scaleStrategy": {"maxUnavailable": 1}}),
        json!({"scaleStrategy": {"enablePVCReuse": true}}),
    ] {
        let alpha = united(ALPHA, &template(spec.clone()), &json!({}));
        let stored = to(BETA, &alpha);
        assert_eq!(clone_set(&stored)["spec"], spec);
        assert_eq!(to(ALPHA, &stored), alpha, "and reads as it was written");
    }
}

#[test]
fn edit_of_v1beta1_shows_in_v1alpha1_shape() {
    let spec =
        json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}});
    let mut stored = to(BETA, &united(ALPHA, &template(spec), &json!({})));
    stored["spec"]["template"]["cloneSetTemplate"]["spec"]["updateStrategy"]["rollingUpdate"]["partition"] =
        json!(7);
    let read = to(ALPHA, &stored);
    let update = &clone_set(&read)["spec"]["updateStrategy"];
    assert_eq!(
        (update.get("rollingUpdate"), &update["partition"]),
        (None, &json!(7))
    );
    assert_eq!(clone_set(&to(BETA, &read)), clone_set(&stored));
}

#[test]
fn mixed_template_takes_each_field_by_its_shape() {
    let spec = json!({
        "scaleStrategy": {"disablePVCReuse": true},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}},
    });
    let alpha = united(ALPHA, &template(spec.clone()), &json!({}));
    let stored = to(BETA, &alpha);
    assert_eq!(
        clone_set(&stored)["spec"]["scaleStrategy"]["enablePVCReuse"],
        false
    );
    assert_eq!(
        clone_set(&stored)["spec"]["updateStrategy"],
        spec["updateStrategy"]
    );
    assert_eq!(to(ALPHA, &stored), alpha);
}

#[test]
fn status_of_v1beta1_reads_in_both_shapes() {
    let status = json!({
        "replicas": 5, "updatedRevision": "demo-1", "subsetStatuses": [
            {"name": "a", "replicas": 3, "readyReplicas": 2, "partition": 1, "reservedPods": 0},
            {"name": "b", "replicas": 0, "readyReplicas": 0, "partition": 0, "reservedPods": 0},
        ],
    });
    let beta = united(BETA, &template(json!({"updateStrategy": {}})), &status);
    let alpha = to(ALPHA, &beta);
    let mut both = status;
    both["subsetReplicas"] = json!({"a": 3, "b": 0});
    both["updateStatus"] =
        json!({"updatedRevision": "demo-1", "currentPartitions": {"a": 1, "b": 0}});
    assert_eq!(alpha["status"], both);
    assert_eq!(to(BETA, &alpha), beta);
}

#[test]
fn status_of_older_release_reads_as_v1beta1() {
    let condition = json!([{"type": "Schedulable", "status": "False"}]);
    let alpha = united(
        ALPHA,
        &template(json!({})),
        &json!({
            "subsetReplicas": {"a": 3, "b": 2},
            "updateStatus": {"updatedRevision": "demo-1", "currentPartitions": {"a": 1, "b": 0}},
            "subsetStatuses": [{"name": "b", "conditions": condition}],
        }),
    );
    let beta = to(BETA, &alpha);
    let expected = json!({"updatedRevision": "demo-1", "subsetStatuses": [
        {"name": "b", "replicas": 2, "partition": 0, "conditions": condition},
        {"name": "a", "replicas": 3, "partition": 1},
    ]});
    assert_eq!(beta["status"], expected);
    assert_eq!(to(ALPHA, &beta), alpha);
}

#[test]
fn other_templates_need_no_memory() {
    let mut beta = united(BETA, &json!({}), &json!({}));
    beta["spec"]["template"] =
        json!({"deploymentTemplate": {"spec": {"updateStrategy": {"type": "x"}}}});
    let alpha = to(ALPHA, &beta);
    assert_eq!((memory(&alpha), &alpha["spec"]), (None, &beta["spec"]));
}

#[test]
fn forged_memory_leaves_status_readable() {
    let place =
        json!({"path": ["status", "subsetStatuses"], "mapped": [{"name": "a"}], "original": "odd"});
    let mut alpha = united(
        ALPHA,
        &template(json!({})),
        &json!({"subsetStatuses": [{"name": "a"}]}),
    );
    alpha["metadata"]["annotations"] =
        json!({CONVERSION: json!({"version": "v1beta1", "places": [place]}).to_string()});
    assert_eq!(
        to(BETA, &alpha)["status"]["subsetStatuses"],
        json!([{"name": "a"}])
    );
}

/// UnitedDeployments of both versions, with templates and statuses of both shapes.
fn uniteddeployments() -> BoxedStrategy<Value> {
    let flag = || any::<bool>().prop_map(Value::from).boxed();
    let scale = object(vec![
        ("disablePVCReuse", flag()),
        ("enablePVCReuse", flag()),
        ("excludePreparingDelete", flag()),
        ("maxUnavailable", int_or_percent().boxed()),
    ]);
    let mut fields = rolling(None);
    fields.push((
        "type",
        one_of(&[
            "ReCreate",
            "InPlaceOnly",
            "OnDelete",
            "RollingUpdate",
            "Else",
        ])
        .boxed(),
    ));
    fields.push(("rollingUpdate", object(rolling(Some("podUpdatePolicy")))));
    let spec = object(vec![
        ("scaleStrategy", scale),
        (
            "updateStrategy",
            prop_oneof![object(fields), anything().boxed()].boxed(),
        ),
        ("template", anything().boxed()),
    ]);
    let template = object(vec![("metadata", metadata()), ("spec", spec)]);
    let number = || (0..5).prop_map(Value::from).boxed();
    let numbers = move || object(vec![("a", number()), ("b", number()), ("c", number())]);
    let subset = object(vec![
        ("name", one_of(&["a", "b"]).boxed()),
        ("replicas", (0..5).prop_map(Value::from).boxed()),
        ("partition", (0..5).prop_map(Value::from).boxed()),
    ]);
    let subsets = proptest::collection::vec(subset, 0..4)
        .prop_map(Value::from)
        .boxed();
    let update = object(vec![
        ("updatedRevision", one_of(&["x", "y"]).boxed()),
        ("currentPartitions", numbers()),
    ]);
    let status = object(vec![
        ("subsetReplicas", numbers()),
        ("updateStatus", update),
        ("updatedRevision", one_of(&["x", "y"]).boxed()),
        ("subsetStatuses", subsets),
    ]);
    let version = prop_oneof![Just(ALPHA), Just(BETA)];
    (version, template, status)
        .prop_map(|(version, template, status)| united(version, &template, &status))
        .boxed()
}

proptest! {
    #[test]
    fn united_deployment_returns_as_it_was(original in uniteddeployments()) {
        let first = to(other(&original["apiVersion"]), &original);
        let second = to(original["apiVersion"].as_str().unwrap(), &first);
        prop_assert_eq!(&second, &original);
        prop_assert_eq!(to(other(&original["apiVersion"]), &second), first);
    }
}
