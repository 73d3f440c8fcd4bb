use serde_json::json;

use super::*;
use crate::kinds::{
    CLONE_SET, CONTAINER_RECREATE_REQUEST, DAEMON_SET, PERSISTENT_POD_STATE,
    POD_UNAVAILABLE_BUDGET, SIDECAR_SET, STATEFUL_SET, UNITED_DEPLOYMENT,
};

fn losses(version: &str, object: &Value) -> Vec<String> {
    let mut kinds = named(version).unwrap().kinds();
    let older = kinds
        .find(|older| object["kind"] == older.kind.kind)
        .unwrap();
    let losses = older.losses(&object.to_string()).unwrap().into_iter();
    losses
        .map(|loss| format!("{} {}", loss.field, loss.value))
        .collect()
}

fn object(kind: &Kind, spec: Value) -> Value {
    json!({"apiVersion": kind.api_version(Version::V1Beta1), "kind": kind.kind, "metadata": {"name": "x"}, "spec": spec})
}

fn clone_set(update: Value) -> Value {
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    object(
        &CLONE_SET,
        json!({"selector": {"matchLabels": {"a": "b"}}, "template": template, "updateStrategy": update}),
    )
}

#[test]
fn releases_serve_these_kinds_as_v1alpha1_alone() {
    let kinds = |version: &str| {
        named(version)
            .unwrap()
            .kinds()
            .map(|older| older.kind.kind)
            .collect::<Vec<_>>()
    };
    let of_1_9 = [
        "CloneSet",
        "ContainerRecreateRequest",
        "PersistentPodState",
        "PodUnavailableBudget",
        "UnitedDeployment",
    ];
    assert_eq!(kinds("1.9.0"), of_1_9);
    let converted = KINDS
        .iter()
        .filter(|kind| kind.is_converted() && kind.kind != STATEFUL_SET.kind);
    assert_eq!(
        kinds("1.8.4"),
        converted.map(|kind| kind.kind).collect::<Vec<_>>()
    );
    assert!(named("1.9").is_none());
}

#[test]
fn fields_that_v1alpha1_has_elsewhere_are_kept() {
    let selector = json!({"matchLabels": {"a": "b"}});
    let rolling = json!({
        "podUpdatePolicy": "InPlaceIfPossible", "partition": "20%", "maxSurge": 1, "paused": true,
        "inPlaceUpdateStrategy": {"gracePeriodSeconds": 3, "imagePreDownloadParallelism": "50%", "imagePreDownloadTimeoutSeconds": 9},
    });
    let mut scaled = clone_set(json!({"type": "RollingUpdate", "rollingUpdate": rolling}));
    scaled["spec"]["scaleStrategy"] =
        json!({"enablePVCReuse": true, "excludePreparingDelete": true});
    let topology = json!({"keys": ["kubernetes.io/hostname"]});
    let target = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s"});
    let table = [
        clone_set(json!({})),
        clone_set(
            json!({"type": "OnDelete", "rollingUpdate": {"podUpdatePolicy": "ReCreate", "partition": 1}}),
        ),
        scaled,
        object(
            &PERSISTENT_POD_STATE,
            json!({"targetRef": target, "requiredPersistentTopology": topology,
                   "preferredPersistentTopology": [{"weight": 1, "preference": topology}]}),
        ),
        object(
            &POD_UNAVAILABLE_BUDGET,
            json!({"selector": selector, "maxUnavailable": 1, "unhealthyPodPolicy": "AlwaysAllow",
                   "protectOperations": ["EVICT"], "protectTotalReplicas": 5}),
        ),
        object(
            &CONTAINER_RECREATE_REQUEST,
            json!({"podName": "p", "containers": [{"name": "c"}]}),
        ),
    ];
    for version in ["1.9.0", "1.8.4"] {
        for object in &table {
            assert_eq!(losses(version, object), [""; 0], "{version}: {object}");
        }
    }
    let sidecars = json!({"selector": selector, "customVersion": "v1", "namespaceSelector": selector,
                          "containers": [{"name": "c", "image": "i"}]});
    assert_eq!(losses("1.8.4", &object(&SIDECAR_SET, sidecars)), [""; 0]);
    let daemons = json!({"selector": selector, "template": {}, "scaleStrategy": {"partitionedScaling": true}});
    assert_eq!(losses("1.8.4", &object(&DAEMON_SET, daemons)), [""; 0]);
}

#[test]
fn losses_are_named_by_field_and_value() {
    let mut deadline = clone_set(json!({}));
    deadline["spec"]["progressDeadlineSeconds"] = json!(60);
    let budget = |spec: Value| {
        let mut budget = object(&POD_UNAVAILABLE_BUDGET, json!({"maxUnavailable": 1}));
        budget["spec"]
            .as_object_mut()
            .unwrap()
            .extend(spec.as_object().unwrap().clone());
        budget
    };
    let sleeping = json!({"podName": "p", "containers": [{"name": "a"}, {"name": "b", "preStop": {"sleep": {"seconds": 3}}}]});
    let sidecar = json!({"containers": [{"name": "c", "image": "i", "shareVolumeDevicePolicy": {"type": "enabled"}}]});
    let table: [(&[&str], Value, &[&str]); 7] = [
        (
            &["1.9.0", "1.8.4"],
            clone_set(
                json!({"type": "OnDelete", "rollingUpdate": {"podUpdatePolicy": "InPlaceOnly"}}),
            ),
            &[r#"spec.updateStrategy.rollingUpdate.podUpdatePolicy "InPlaceOnly""#],
        ),
        (&["1.9.0"], deadline.clone(), &[]),
        (&["1.8.4"], deadline, &["spec.progressDeadlineSeconds 60"]),
        (
            &["1.9.0", "1.8.4"],
            budget(json!({"unhealthyPodPolicy": "IfHealthyBudget"})),
            &[r#"spec.unhealthyPodPolicy "IfHealthyBudget""#],
        ),
        (
            &["1.9.0", "1.8.4"],
            budget(json!({"ignoredPodSelector": {"matchLabels": {"a": "b"}}})),
            &[r#"spec.ignoredPodSelector {"matchLabels":{"a":"b"}}"#],
        ),
        (
            &["1.9.0", "1.8.4"],
            object(&CONTAINER_RECREATE_REQUEST, sleeping),
            &[r#"spec.containers[1].preStop.sleep {"seconds":3}"#],
        ),
        (
            &["1.8.4"],
            object(&SIDECAR_SET, sidecar),
            &[r#"spec.containers[0].shareVolumeDevicePolicy {"type":"enabled"}"#],
        ),
    ];
    for (versions, object, expected) in table {
        for version in versions {
            assert_eq!(losses(version, &object), expected, "{version}: {object}");
        }
    }
}

#[test]
fn a_memory_of_v1beta1_hides_no_loss() {
    let original = object(
        &POD_UNAVAILABLE_BUDGET,
        json!({"ignoredPodSelector": {"matchLabels": {"a": "b"}}}),
    );
    let stored = convert::convert(&original.to_string(), "policy.kruise.io/v1alpha1").unwrap();
    let read = convert::convert(&stored, "policy.kruise.io/v1beta1").unwrap();
    assert_eq!(
        losses("1.9.0", &serde_json::from_str(&read).unwrap()).len(),
        1
    );
}

#[test]
fn fields_that_releases_lack_are_fields_of_ours() {
    for definition in crate::kinds::crd::definitions().unwrap() {
        let versions = definition["spec"]["versions"].as_array().unwrap();
        for older in RELEASES
            .iter()
            .flat_map(Release::kinds)
            .filter(|older| definition["spec"]["names"]["kind"] == older.kind.kind)
        {
            let served = versions
                .iter()
                .find(|served| served["name"] == "v1alpha1")
                .unwrap();
            for path in older.lacks {
                let mut schema = &served["schema"]["openAPIV3Schema"];
                for step in path.split('.') {
                    schema = &schema["properties"][step.trim_end_matches("[]")];
                    schema = if step.ends_with("[]") {
                        &schema["items"]
                    } else {
                        schema
                    };
                }
                assert!(
                    schema["type"].is_string() || schema["x-kubernetes-int-or-string"].is_boolean(),
                    "{path}"
                );
            }
        }
    }
}

#[test]
fn united_deployments_lose_what_older_ones_lack() {
    let united = |clone_set: Value, adaptive: Value| {
        object(
            &UNITED_DEPLOYMENT,
            json!({"selector": {"matchLabels": {"a": "b"}}, "template": {"cloneSetTemplate": {"spec": clone_set}},
                   "topology": {"scheduleStrategy": {"type": "Adaptive", "adaptive": adaptive}}}),
        )
    };
    let rolling = json!({"podUpdatePolicy": "InPlaceIfPossible", "maxSurge": 1,
                         "inPlaceUpdateStrategy": {"imagePreDownloadParallelism": "50%"}});
    let update = json!({"type": "RollingUpdate", "rollingUpdate": rolling});
    let scale = json!({"enablePVCReuse": true, "excludePreparingDelete": true});
    let kept = united(
        json!({"updateStrategy": update, "scaleStrategy": scale}),
        json!({"unschedulableDuration": 9}),
    );
    for version in ["1.9.0", "1.8.4"] {
        assert_eq!(losses(version, &kept), [""; 0], "{version}");
    }
    let reserving = united(
        json!({"progressDeadlineSeconds": 60}),
        json!({"reserveUnschedulablePods": true}),
    );
    assert!(
        losses("1.9.0", &reserving)
            .iter()
            .all(|loss| loss.contains("cloneSetTemplate"))
    );
    let lost = losses("1.8.4", &reserving);
    for field in [
        "cloneSetTemplate.spec.progressDeadlineSeconds 60",
        "adaptive.reserveUnschedulablePods true",
    ] {
        assert!(
            lost.iter().any(|loss| loss.ends_with(field)),
            "{field}: {lost:?}"
        );
    }
}
