use serde_json::{Value, json};

use super::*;

fn read(labels: Value, owners: Value) -> UntypedWorkload {
    let metadata = json!({
        "name": "web", "labels": labels, "ownerReferences": owners,
        "managedFields": [{"fieldsV1": {"f:spec": {}}}],
    });
    let spec = json!({"replicas": 3, "selector": {"matchLabels": {"app": "web"}}});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": {"replicas": 2}}))
        .unwrap()
}

#[test]
fn spec_is_kept_under_a_united_deployment_alone() {
    let owner = |api_version: &str, kind: &str| json!([{"apiVersion": api_version, "kind": kind, "name": "web", "uid": "u", "controller": true}]);
    let of_subset = json!({"apps.kruise.io/subset-name": "a"});
    for version in ["v1alpha1", "v1beta1"] {
        let owned = read(
            of_subset.clone(),
            owner(&format!("apps.kruise.io/{version}"), "UnitedDeployment"),
        );
        assert_eq!(
            (owned.replicas, owned.spec.as_str()),
            (
                3,
                r#"{"replicas":3,"selector":{"matchLabels":{"app":"web"}}}"#
            )
        );
        assert_eq!(owned.metadata.managed_fields, None);
    }
    for owners in [
        json!([]),
        owner("apps/v1", "ReplicaSet"),
        owner("apps.kruise.io/v1beta1", "CloneSet"),
    ] {
        let other = read(of_subset.clone(), owners);
        assert_eq!(
            other.spec.as_str(),
            r#"{"selector":{"matchLabels":{"app":"web"}}}"#
        );
        assert_eq!(
            (
                other.status.replicas,
                other.label("apps.kruise.io/subset-name")
            ),
            (2, Some("a"))
        );
    }
}

#[test]
fn workload_of_no_subset_keeps_its_identity_alone() {
    let other = read(json!({"app": "web"}), json!(null));
    assert_eq!(
        other.metadata,
        ObjectMeta {
            name: Some("web".to_owned()),
            ..ObjectMeta::default()
        }
    );
}

#[test]
fn metadata_of_a_subset_is_bounded() {
    let many = (0..2_000)
        .map(|at| (format!("apps.kruise.io/a{at}"), json!("x".repeat(40))))
        .collect::<Value>();
    let metadata =
        json!({"name": "web", "labels": {"apps.kruise.io/subset-name": "a"}, "annotations": many});
    let refused = serde_json::from_value::<UntypedWorkload>(json!({"metadata": metadata}))
        .unwrap_err()
        .to_string();
    assert!(refused.contains("65536"), "{refused}");
}
