//! Pods that go when another has come in their place.

use std::sync::Arc;

use berth_api::v1beta1::podunavailablebudget::{
    DeploymentReference, Ledger, PodUnavailableBudgetStatus, ProtectedOperation, Replacement,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use crate::budget::Rules;
use crate::budget::ledger::{
    LedgerDecision, Refused, Request, ask_replacement, reserve, set_numbers,
};
use crate::budget::surge::{Instead, is_leftover, is_open, is_released, is_replaced, step};
use crate::objects::pod::{Metadata, Pod};

fn now() -> Timestamp {
    Timestamp::from_second(1_000_000).unwrap()
}

fn pod(owner: Option<(&str, &str)>, labels: &Value) -> Pod {
    let owners = owner
        .map(|(api_version, kind)| json!([{"apiVersion": api_version, "kind": kind, "uid": "o", "controller": true}]));
    serde_json::from_value(json!({
        "metadata": {
            "name": "web", "uid": "0123456789", "labels": labels, "ownerReferences": owners.unwrap_or(json!([])),
            "annotations": {"apps.kruise.io/surge-on-eviction": "true"},
        },
        "status": {"phase": "Running"},
    }))
    .unwrap()
}

fn asked(ago: i64) -> Replacement {
    let text = str::to_owned;
    let time = Time(now() - SignedDuration::from_secs(ago));
    Replacement {
        pod: text("web"),
        uid: text("0123456789"),
        holder: text("admin"),
        time,
        deployment: None,
    }
}

#[test]
fn replacement_is_requested_once_in_each_kinds_way() {
    let (clone_set, replica_set) = (
        Some(("apps.kruise.io/v1beta1", "CloneSet")),
        Some(("apps/v1", "ReplicaSet")),
    );
    for (owner, labels, ago, expected) in [
        (
            clone_set,
            json!({}),
            0,
            Some(r#""apps.kruise.io/specified-delete":"true""#),
        ),
        (
            clone_set,
            json!({"apps.kruise.io/specified-delete": "true"}),
            0,
            None,
        ),
        (
            replica_set,
            json!({"pod-template-hash": "abc"}),
            0,
            Some(r#""pod-template-hash":"released-01234567""#),
        ),
        (Some(("apps/v1", "StatefulSet")), json!({}), 0, None),
        (None, json!({}), 0, None),
        (
            None,
            json!({"pod-template-hash": "released-01234567"}),
            599,
            None,
        ),
        (
            None,
            json!({"pod-template-hash": "released-01234567"}),
            600,
            None,
        ),
        (clone_set, json!({}), 600, None),
    ] {
        let done =
            step(&asked(ago), &pod(owner, &labels), now()).map(|step| json!(step).to_string());
        assert_eq!(
            done.is_some(),
            expected.is_some(),
            "{owner:?} {labels} {ago}: {done:?}"
        );
        let said = done.unwrap_or_default();
        assert!(
            said.contains(expected.unwrap_or_default()),
            "{owner:?} {labels} {ago}: {said}"
        );
    }
    let mut unmarked = pod(replica_set, &json!({"pod-template-hash": "abc"}));
    unmarked.metadata.annotations = [].into();
    assert_eq!(
        step(&asked(0), &unmarked, now()),
        None,
        "its template does not let it be released"
    );
    let other = Replacement {
        uid: "other".to_owned(),
        ..asked(0)
    };
    assert_eq!(
        step(&other, &pod(clone_set, &json!({})), now()),
        None,
        "a pod of that name, and another"
    );
}

#[test]
fn topmost_owner_decides_on_replacement_first() {
    let told = |kind: &str, value: Option<&str>| {
        let annotations: Value = value.map_or(
            json!({}),
            |value| json!({"apps.kruise.io/surge-on-eviction": value}),
        );
        let top = json!({"name": "web", "uid": "o", "annotations": annotations});
        let top: Metadata = serde_json::from_value(top).unwrap();
        let pod = pod(None, &json!({})).metadata;
        Instead::of(
            &pod,
            (kind, &top),
            "PodUnavailableBudget default/web",
            "there is no room",
        )
    };
    let first = "replacement first: another pod of CloneSet web is to come, then this one may go (PodUnavailableBudget default/web); try again";
    for (kind, value, expected) in [
        ("CloneSet", None, None),
        ("CloneSet", Some("false"), None),
        (
            "CloneSet",
            Some("true"),
            Some(Instead::First {
                message: first.to_owned(),
                deployment: None,
            }),
        ),
        (
            "Deployment",
            Some("true"),
            Some(Instead::First {
                message: first.replace("CloneSet", "Deployment"),
                deployment: Some(DeploymentReference {
                    name: "web".to_owned(),
                    uid: "o".to_owned(),
                }),
            }),
        ),
    ] {
        assert_eq!(told(kind, value), expected, "{kind} {value:?}");
    }
    let top: Metadata = serde_json::from_value(
        json!({"name": "web", "annotations": {"apps.kruise.io/surge-on-eviction": "true"}}),
    )
    .unwrap();
    let unmarked = Metadata {
        name: "web-1".into(),
        ..Metadata::default()
    };
    match Instead::of(&unmarked, ("Deployment", &top), "b", "there is no room") {
        Some(Instead::Never { message }) => assert!(
            message.contains("spec.template.metadata.annotations"),
            "{message}"
        ),
        other => panic!("a pod without the annotation: {other:?}"),
    }
    for (kind, value, says) in [
        (
            "StatefulSet",
            "true",
            "StatefulSet web cannot bring another pod before this one goes",
        ),
        (
            "CloneSet",
            "yes",
            "there is no room; annotation apps.kruise.io/surge-on-eviction of CloneSet web is \"yes\"",
        ),
    ] {
        match told(kind, Some(value)) {
            Some(Instead::Never { message }) => assert!(message.starts_with(says), "{message}"),
            other => panic!("{kind} {value}: {other:?}"),
        }
    }
}

#[test]
fn replacement_is_awaited_for_ten_minutes() {
    let there = pod(None, &json!({"pod-template-hash": "released-01234567"}));
    assert!(is_released(&there.metadata) && is_open(&asked(599), Some(&there), now()));
    assert!(!is_open(&asked(600), Some(&there), now()));
    let held = pod(Some(("apps.kruise.io/v1beta1", "CloneSet")), &json!({}));
    assert!(!is_open(&asked(600), Some(&held), now()) && !is_open(&asked(0), None, now()));
    let deployment = Some(DeploymentReference {
        name: "web".to_owned(),
        uid: "d".to_owned(),
    });
    let of_set = pod(Some(("apps/v1", "ReplicaSet")), &json!({}));
    let first = step(
        &Replacement {
            deployment,
            ..asked(0)
        },
        &of_set,
        now(),
    )
    .unwrap();
    assert!(
        json!(first.actions[0])
            .to_string()
            .contains(r#""kind":"Deployment""#),
        "it goes with its Deployment"
    );
    let owned = pod(
        Some(("apps/v1", "ReplicaSet")),
        &json!({"pod-template-hash": "released-01234567"}),
    );
    assert!(
        !is_released(&owned.metadata),
        "its ReplicaSet has not let it go yet"
    );
}

#[test]
fn leftover_is_a_released_pod_with_its_deployment() {
    let deployment =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d"});
    let of_set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-a", "uid": "r", "controller": true});
    for (label, value, owners, phase, expected) in [
        (
            "released-01234567",
            "true",
            json!([deployment]),
            "Running",
            true,
        ),
        // The policy of the chart lets the controller delete no other.
        (
            "released-76543210",
            "true",
            json!([deployment]),
            "Running",
            false,
        ),
        (
            "released-01234567",
            "false",
            json!([deployment]),
            "Running",
            false,
        ),
        ("released-01234567", "true", json!([]), "Running", false),
        (
            "released-01234567",
            "true",
            json!([deployment, of_set]),
            "Running",
            false,
        ),
        (
            "released-01234567",
            "true",
            json!([deployment]),
            "Succeeded",
            false,
        ),
    ] {
        let metadata = json!({
            "name": "web-1", "uid": "0123456789", "labels": {"pod-template-hash": label}, "ownerReferences": owners,
            "annotations": {"apps.kruise.io/surge-on-eviction": value},
        });
        let pod: Pod =
            serde_json::from_value(json!({"metadata": metadata, "status": {"phase": phase}}))
                .unwrap();
        assert_eq!(
            is_leftover(&pod),
            expected,
            "{label} {value} {owners} {phase}"
        );
    }
}

#[test]
fn replaced_pod_has_a_deployment_without_unready_pods() {
    let deployment =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d"});
    let leftover = json!({"metadata": {"name": "web-1", "ownerReferences": [deployment]}});
    let leftover: Pod = serde_json::from_value(leftover).unwrap();
    let pod = |set: &str, hash: &str, ready: &str| -> Arc<Pod> {
        let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": set, "uid": "r", "controller": true});
        let status =
            json!({"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]});
        let metadata =
            json!({"name": "b", "labels": {"pod-template-hash": hash}, "ownerReferences": [owner]});
        Arc::new(serde_json::from_value(json!({"metadata": metadata, "status": status})).unwrap())
    };
    for (all, expected) in [
        (vec![], true),
        (vec![pod("web-a", "a", "True")], true),
        (
            vec![pod("web-a", "a", "True"), pod("web-b", "b", "False")],
            false,
        ),
        (
            vec![
                pod("web-other-a", "a", "False"),
                pod("we", "a", "False"),
                pod("web-a", "b", "False"),
            ],
            true,
        ),
    ] {
        assert_eq!(is_replaced(&leftover, &all, now()), expected, "{all:?}");
    }
}

#[test]
fn capacity_of_a_replacement_is_for_its_pod_only() {
    let spec = json!({"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 1});
    let rules = Rules::of(&serde_json::from_value(spec).unwrap()).unwrap();
    let request = |uid: &str| Request {
        pod: uid.to_owned(),
        uid: uid.to_owned(),
        operation: ProtectedOperation::Evict,
        holder: "admin".to_owned(),
        is_available: true,
        generation: None,
        container_ids: Vec::new(),
        resizes: false,
        grant: None,
        is_again: false,
        is_repair: false,
        passes: false,
    };
    let ledger = Some(Ledger {
        counted: "1".to_owned(),
        ..Ledger::default()
    });
    let mut status = PodUnavailableBudgetStatus {
        ledger,
        ..PodUnavailableBudgetStatus::default()
    };
    set_numbers(&mut status, 1, 1, 1);
    assert_eq!(
        reserve(&mut status, (&rules, 0), &request("a"), now()),
        LedgerDecision::Refused(Refused::UsedUp)
    );
    assert!(ask_replacement(&mut status, &request("a"), None, now()));
    assert!(
        !ask_replacement(&mut status, &request("a"), None, now()),
        "it is noted already"
    );
    let later = now() + SignedDuration::from_secs(60);
    assert!(
        ask_replacement(&mut status, &request("a"), None, later),
        "and again when a minute is over"
    );
    set_numbers(&mut status, 2, 1, 1);
    assert_eq!(
        reserve(&mut status, (&rules, 0), &request("b"), now()),
        LedgerDecision::Refused(Refused::UsedUp)
    );
    assert_eq!(
        reserve(&mut status, (&rules, 0), &request("a"), now()),
        LedgerDecision::Reserved
    );
    assert!(status.ledger.unwrap().replacements.is_empty());
}
