//! Each field of v1beta1's specs has a place in v1alpha1. The apiserver drops fields that a schema
//! does not have, without a warning to most clients. Without these fields the controller may delete
//! pods and claims.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Fields that v1alpha1's schema lacks or has with other values, and why nothing is deleted because
/// of them.
const ELSEWHERE: [(&str, &str, &str); 12] = [
    (
        "CloneSet",
        "scaleStrategy.enablePVCReuse",
        "the opposite of scaleStrategy.disablePVCReuse",
    ),
    (
        "CloneSet",
        "scaleStrategy.excludePreparingDelete",
        "the label cloneset-scaling-exclude-preparing-delete",
    ),
    (
        "CloneSet",
        "updateStrategy.rollingUpdate",
        "its fields are those of updateStrategy",
    ),
    (
        "CloneSet",
        "updateStrategy.type",
        "RollingUpdate is one type for each podUpdatePolicy",
    ),
    (
        "DaemonSet",
        "scaleStrategy",
        "the annotation daemonset-progressive-create-pod",
    ),
    (
        "NodeImage",
        "images{}.pullSecrets[].mode",
        "OpenKruise alone writes and reads it: nothing is deleted",
    ),
    (
        "PersistentPodState",
        "preferredPersistentTopology[].preference.keys",
        "nodeTopologyKeys",
    ),
    (
        "PersistentPodState",
        "requiredPersistentTopology.keys",
        "nodeTopologyKeys",
    ),
    (
        "PodUnavailableBudget",
        "ignoredPodSelector",
        "without it, more pods are protected: nothing is deleted",
    ),
    (
        "PodUnavailableBudget",
        "protectOperations",
        "the annotation pub-protect-operations",
    ),
    (
        "PodUnavailableBudget",
        "protectTotalReplicas",
        "the annotation protect-total-replicas",
    ),
    (
        "SidecarSet",
        "customVersion",
        "the label sidecarset-custom-version",
    ),
];

/// The fields of a schema by path, each with what values it takes.
fn fields(schema: &Value, path: &str, found: &mut BTreeMap<String, Value>) {
    let mut visit = |path: String, schema: &Value| {
        fields(schema, &path, found);
        found.insert(path, schema.clone());
    };
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        visit(
            if path.is_empty() {
                name.clone()
            } else {
                format!("{path}.{name}")
            },
            schema,
        );
    }
    for (keyword, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
        if schema[keyword].is_object() {
            visit(format!("{path}{mark}"), &schema[keyword]);
        }
    }
}

/// Whether one schema accepts each value of the other, as far as the other describes its fields.
fn takes_each_value(one: &Value, other: &Value) -> bool {
    let same = [
        "type",
        "x-kubernetes-int-or-string",
        "x-kubernetes-preserve-unknown-fields",
    ];
    let values = |schema: &Value| schema["enum"].as_array().cloned();
    let is_in_enum = values(one).is_none_or(|taken| {
        values(other).is_some_and(|values| values.iter().all(|value| taken.contains(value)))
    });
    is_in_enum && same.iter().all(|keyword| one[keyword] == other[keyword])
}

/// The topmost fields of v1beta1's spec that v1alpha1's lacks, or has with other values.
fn lacking(definition: &Value) -> Vec<String> {
    let spec = |version: &str| {
        let versions = definition["spec"]["versions"]
            .as_array()
            .into_iter()
            .flatten();
        let mut found = BTreeMap::new();
        for served in versions.filter(|served| served["name"] == version) {
            fields(
                &served["schema"]["openAPIV3Schema"]["properties"]["spec"],
                "",
                &mut found,
            );
        }
        found
    };
    let (older, newer) = (spec("v1alpha1"), spec("v1beta1"));
    let mut lacking: Vec<String> = Vec::new();
    for (path, schema) in &newer {
        let is_below = lacking.iter().any(|other| {
            path.strip_prefix(other.as_str())
                .is_some_and(|rest| rest.starts_with(['.', '[', '{']))
        });
        if !is_below
            && older
                .get(path)
                .is_none_or(|own| !takes_each_value(own, schema))
        {
            lacking.push(path.clone());
        }
    }
    lacking
}

#[test]
fn v1alpha1_has_each_field_or_a_reason() {
    let mut found = BTreeSet::new();
    for definition in crate::kinds::crd::definitions().unwrap() {
        let kind = definition["spec"]["names"]["kind"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        found.extend(
            lacking(&definition)
                .into_iter()
                .map(|field| (kind.clone(), field)),
        );
    }
    let listed: BTreeSet<_> = ELSEWHERE
        .iter()
        .map(|(kind, field, _)| ((*kind).to_owned(), (*field).to_owned()))
        .collect();
    assert_eq!(
        found, listed,
        "add the field to v1alpha1, or to the list with a reason why its loss deletes nothing"
    );
}

/// Where the schemas hold fields of pods and claims.
const OF_KUBERNETES: [(&str, &[&str]); 7] = [
    ("BroadcastJob", &["template"]),
    ("CloneSet", &["template", "volumeClaimTemplates[]"]),
    (
        "ContainerRecreateRequest",
        &["containers[].ports[]", "containers[].preStop"],
    ),
    ("DaemonSet", &["template"]),
    (
        "SidecarSet",
        &["containers[]", "initContainers[]", "volumes[]"],
    ),
    ("StatefulSet", &["template", "volumeClaimTemplates[]"]),
    (
        "UnitedDeployment",
        &[
            "template.advancedStatefulSetTemplate.spec",
            "template.cloneSetTemplate.metadata",
            "template.cloneSetTemplate.spec",
            "template.deploymentTemplate.spec",
            "template.statefulSetTemplate.spec",
            "topology.subsets[].patch",
        ],
    ),
];
/// Objects of Berth among them.
const OF_SIDECARS: [&str; 5] = [
    "resourcesPolicy",
    "shareVolumeDevicePolicy",
    "shareVolumePolicy",
    "transferEnv[]",
    "upgradeStrategy",
];

#[test]
fn schemas_keep_unknown_fields_of_pods() {
    let mut found = 0;
    for definition in crate::kinds::crd::definitions().unwrap() {
        let kind = definition["spec"]["names"]["kind"].as_str().unwrap();
        let places = OF_KUBERNETES
            .iter()
            .filter(|(of, _)| *of == kind)
            .flat_map(|(_, places)| *places);
        for place in places {
            for served in definition["spec"]["versions"].as_array().unwrap() {
                let mut all = BTreeMap::new();
                fields(
                    &served["schema"]["openAPIV3Schema"]["properties"]["spec"],
                    "",
                    &mut all,
                );
                let is_within = |path: &str| {
                    path.strip_prefix(place)
                        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
                };
                let is_own = |path: &str| {
                    let below = path
                        .strip_prefix(place)
                        .unwrap_or_default()
                        .trim_start_matches('.');
                    kind == "SidecarSet" && OF_SIDECARS.iter().any(|own| below.starts_with(own))
                };
                let objects = all.iter().filter(|(path, schema)| {
                    is_within(path)
                        && !is_own(path)
                        && schema["type"] == "object"
                        && schema["additionalProperties"].is_null()
                });
                for (path, schema) in objects {
                    found += 1;
                    assert_eq!(
                        schema["x-kubernetes-preserve-unknown-fields"], true,
                        "{kind} {} {path}",
                        served["name"]
                    );
                }
            }
        }
    }
    assert!(found > 60, "{found} objects are looked at");
}
