use serde_json::json;

use super::*;

#[test]
fn target_matches_controller_or_its_name_prefix() {
    let target = |kind: &str, api_version: &str| TargetReference {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: "web".to_owned(),
    };
    let (deployment, clone_set) = (
        target("Deployment", "apps/v1"),
        target("CloneSet", "apps.kruise.io/v1alpha1"),
    );
    for (target, api_version, kind, name, expected) in [
        (
            &clone_set,
            "apps.kruise.io/v1beta1",
            "CloneSet",
            "web",
            true,
        ),
        (&clone_set, "example.com/v1", "CloneSet", "web", false),
        (
            &clone_set,
            "apps.kruise.io/v1beta1",
            "StatefulSet",
            "web",
            false,
        ),
        (
            &clone_set,
            "apps.kruise.io/v1beta1",
            "CloneSet",
            "web-2",
            false,
        ),
        (&deployment, "apps/v1", "ReplicaSet", "web-5d4f", true),
        (&deployment, "apps/v1", "ReplicaSet", "website-5d4f", false),
        (&deployment, "apps/v1", "ReplicaSet", "we", false),
    ] {
        let owner = json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": "u", "controller": true});
        let pod: Metadata =
            serde_json::from_value(json!({"name": "p", "ownerReferences": [owner]})).unwrap();
        assert_eq!(
            may_be_of(&pod, target),
            expected,
            "{target:?} {api_version} {kind} {name}"
        );
    }
    assert!(
        !may_be_of(&Metadata::default(), &deployment),
        "a pod without a controller"
    );
}
