use std::collections::BTreeSet;

use serde_json::json;

use super::*;

#[test]
fn kinds_are_as_their_types_say() {
    for ((kind, _), definition) in TABLE.iter().zip(crate::kinds::crd::definitions().unwrap()) {
        let spec = &definition["spec"];
        let scope = if kind.namespaced {
            "Namespaced"
        } else {
            "Cluster"
        };
        let names = (
            &spec["group"],
            &spec["names"]["kind"],
            &spec["names"]["plural"],
            &spec["scope"],
        );
        assert_eq!(
            names,
            (
                &json!(kind.group),
                &json!(kind.kind),
                &json!(kind.plural),
                &json!(scope)
            )
        );
        assert_eq!(definition["metadata"]["name"], kind.crd());
        let versions: Vec<_> = spec["versions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| &it["name"])
            .collect();
        let expected: Vec<_> = [kind.stored]
            .iter()
            .chain(kind.older)
            .map(|version| version.name())
            .collect();
        assert_eq!(
            versions, expected,
            "types and versions of {} differ",
            kind.kind
        );
    }
}

#[test]
fn kinds_are_sorted_and_have_distinct_names() {
    let names: Vec<_> = KINDS.iter().map(|kind| kind.kind).collect();
    assert_eq!(
        names,
        names
            .iter()
            .copied()
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect::<Vec<_>>()
    );
    assert_eq!(
        KINDS
            .iter()
            .map(|kind| kind.plural)
            .collect::<BTreeSet<_>>()
            .len(),
        KINDS.len()
    );
}

#[test]
fn version_needs_own_group_and_a_served_version() {
    let policy = Kind {
        group: "policy.kruise.io",
        stored: Version::V1Alpha1,
        older: &[],
        ..CLONE_SET
    };
    assert_eq!(
        policy.version("policy.kruise.io/v1alpha1"),
        Some(Version::V1Alpha1)
    );
    for other in [
        "policy.kruise.io/v1beta1",
        "apps.kruise.io/v1alpha1",
        "policy.kruise.io",
        "v1alpha1",
        "",
    ] {
        assert_eq!(policy.version(other), None, "{other}");
    }
    assert!(!policy.is_converted() && CLONE_SET.is_converted());
    assert_eq!(
        CLONE_SET.versions().collect::<Vec<_>>(),
        [Version::V1Alpha1, Version::V1Beta1]
    );
}

#[test]
fn each_kind_is_read_by_its_own_type() {
    for kind in &KINDS {
        assert!(
            (kind.read)("{}").is_err(),
            "{}: an object has metadata",
            kind.kind
        );
        assert!((kind.read)("[").is_err(), "{}", kind.kind);
    }
    let image = json!({"metadata": {"name": "a"}, "spec": {}});
    assert!((NODE_IMAGE.read)(&image.to_string()).is_ok());
    assert!(
        (CLONE_SET.read)(&image.to_string()).is_err(),
        "it has no selector"
    );
}

/// The numbers of a schema that may be larger than the type that reads them.
fn too_large(schema: &Value, path: &str) -> Vec<String> {
    let is_bound = schema["maximum"]
        .as_i64()
        .is_some_and(|most| most <= i64::from(i32::MAX));
    let mut found = Vec::new();
    if schema["type"] == "integer" && !is_bound {
        found.push(path.to_owned());
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        found.extend(too_large(field, &format!("{path}.{name}")));
    }
    if schema["items"].is_object() {
        found.extend(too_large(&schema["items"], &format!("{path}[]")));
    }
    found
}

// A budget that the apiserver accepts and that the controller cannot read would protect no pods.
#[test]
fn numbers_in_budget_specs_are_readable() {
    for kind in ["DistributedPodDisruptionBudget", "PodUnavailableBudget"] {
        let definitions = crate::kinds::crd::definitions().unwrap();
        let definition = definitions
            .iter()
            .find(|one| one["spec"]["names"]["kind"] == kind)
            .unwrap();
        for version in definition["spec"]["versions"].as_array().unwrap() {
            let spec = &version["schema"]["openAPIV3Schema"]["properties"]["spec"];
            assert!(spec["properties"].is_object(), "{kind}");
            assert_eq!(
                too_large(spec, "spec"),
                [""; 0],
                "{kind} {}",
                version["name"]
            );
        }
    }
}
