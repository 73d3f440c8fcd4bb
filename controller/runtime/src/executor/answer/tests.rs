use berth_workload::plan::{Action, Body, PodPatch, Target};
use serde_json::{Value, json};

use super::*;
use crate::client::refusal;

fn patch() -> Request {
    let target = Target {
        namespace: "ns".into(),
        name: "a".into(),
        uid: "u1".into(),
        resource_version: None,
    };
    Request::of(&Action::PatchPod {
        target,
        patch: PodPatch::default(),
    })
}

fn pod(owner_uid: Option<&str>) -> Value {
    let owner = |uid| json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "uid": uid, "controller": true});
    let owners: Vec<_> = owner_uid.into_iter().map(owner).collect();
    json!({"metadata": {"namespace": "ns", "name": "a", "ownerReferences": owners}})
}

fn existing(request: &Request, object: &Value) -> Result<(), Failed> {
    super::existing(request, &Existing::deserialize(object).unwrap())
}

fn failed(code: u16, message: &str, causes: &[(&str, &str)]) -> Failed {
    let causes = causes
        .iter()
        .map(|(field, message)| ((*field).to_owned(), (*message).to_owned()))
        .collect();
    Failed {
        code,
        message: message.into(),
        causes,
        ..Failed::default()
    }
}

#[test]
fn what_is_permanent() {
    for (code, message, permanent) in [
        (400, "bad", true),
        (403, "forbidden: user cannot patch", true),
        (
            403,
            "pods \"a\" is forbidden: exceeded quota: q, requested: pods=1",
            false,
        ),
        (
            403,
            "unable to create new content in namespace ns because it is being terminated",
            false,
        ),
        (404, "not found", false),
        (409, "modified", false),
        (422, "invalid", true),
        (429, "slow down", false),
        (500, "oh", false),
        (0, "connection refused", false),
    ] {
        assert_eq!(
            failure(&patch(), failed(code, message, &[])).permanent,
            permanent,
            "{code} {message}"
        );
    }
}

#[test]
fn resize_is_infeasible_by_the_type_of_the_cause() {
    let target = || Target {
        namespace: "ns".into(),
        name: "a".into(),
        uid: "u1".into(),
        resource_version: None,
    };
    let resize = Request::of(&Action::ResizePod {
        target: target(),
        resources: Default::default(),
    });
    let answer = |reason: &str| {
        let causes = json!([{"reason": reason}]);
        let status = json!({"message": "no room", "reason": "Forbidden", "code": 403, "details": {"causes": causes}});
        refusal(403, &http::HeaderMap::new(), status.to_string().as_bytes())
    };
    for (request, answer, infeasible) in [
        (&resize, answer("NodeCapacity"), true),
        (&resize, answer("UnsupportedPlatform"), true),
        (&resize, answer("Other"), false),
        (
            &resize,
            failed(403, "node didn't have enough allocatable resources", &[]),
            false,
        ),
        (
            &resize,
            failed(422, "invalid", &[("NodeCapacity", "")]),
            false,
        ),
        (&patch(), answer("NodeCapacity"), false),
    ] {
        let failure = failure(request, answer);
        assert_eq!(
            (failure.infeasible, failure.permanent),
            (infeasible, true),
            "{failure:?}"
        );
    }
}

#[test]
fn eviction_refused_by_budget_is_permanent() {
    let target = Target {
        namespace: "ns".into(),
        name: "a".into(),
        uid: "u1".into(),
        resource_version: None,
    };
    let evict = Request::of(&Action::EvictPod { target });
    let two = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    for (code, message, permanent) in [
        (429, "Cannot evict pod", true),
        (500, two, true),
        (500, "oh", false),
        (0, "connection refused", false),
    ] {
        let failure = failure(&evict, failed(code, message, &[]));
        assert_eq!(
            (failure.permanent, failure.outdated),
            (permanent, false),
            "{code} {message}"
        );
    }
}

#[test]
fn another_object_of_the_name_is_a_conflict() {
    let answer = failed(422, "invalid", &[("metadata.uid", "field is immutable")]);
    let failure = failure(&patch(), answer);
    assert_eq!(
        (failure.code, failure.permanent, failure.outdated),
        (409, false, true)
    );
    assert!(
        failure.message.contains("\"a\"") && failure.message.contains("u1"),
        "{}",
        failure.message
    );
}

#[test]
fn changed_object_makes_the_write_outdated() {
    let target = Target {
        namespace: "ns".into(),
        name: "a".into(),
        uid: "u1".into(),
        resource_version: None,
    };
    let delete = Request::of(&Action::DeletePod { target });
    let create = Request::of(&Action::CreatePod {
        body: Body::from(&pod(Some("o1"))),
    });
    let target = Target {
        namespace: "ns".into(),
        name: "a".into(),
        uid: "u1".into(),
        resource_version: None,
    };
    let barrier = Request::of(&Action::OpenBarrier {
        pod: target,
        keys: vec!["p_1".to_owned()],
    });
    for (request, code, outdated) in [
        // The ConfigMap of an earlier pod of this name.
        (barrier, 422, true),
        (patch(), 409, true),
        (patch(), 404, true),
        (patch(), 500, false),
        (patch(), 422, false),
        (delete, 409, true),
        // No namespace, or a name that is taken.
        (create, 404, false),
    ] {
        let failure = failure(&request, failed(code, "no", &[]));
        assert_eq!(failure.outdated, outdated, "{} {code}", request.write);
        assert!(
            !(failure.outdated && failure.permanent),
            "{} {code}",
            request.write
        );
    }
}

#[test]
fn taken_name_is_outdated_only_for_revisions() {
    let metadata = json!({"namespace": "ns", "name": "web-1"});
    let body = || Body::from(&json!({"metadata": metadata}));
    for (action, outdated) in [
        (Action::CreateRevision { body: body() }, true),
        (Action::CreatePod { body: body() }, false),
        (Action::CreateClaim { body: body() }, false),
    ] {
        let request = Request::of(&action);
        let refusal = existing(&request, &pod(Some("another"))).unwrap_err();
        let failure = failure(&request, refusal);
        assert_eq!(
            (failure.taken, failure.outdated, failure.permanent),
            (true, outdated, false),
            "{}",
            request.write
        );
    }
}

#[test]
fn template_errors_name_the_workloads_fields() {
    let request = Request::of(&Action::ValidateTemplate {
        namespace: "ns".into(),
        template: Body::from(&json!({})),
    });
    let causes = [
        ("template.spec.containers[0].image", "Required value"),
        ("template.spec.restartPolicy", "Unsupported value"),
    ];
    let failure = failure(
        &request,
        failed(422, "PodTemplate \"berth-validate-x\" is invalid", &causes),
    );
    let expected = "spec.template.spec.containers[0].image: Required value; spec.template.spec.restartPolicy: Unsupported value";
    assert_eq!(
        (failure.message.as_str(), failure.permanent),
        (expected, true)
    );
}

#[test]
fn existing_pod_of_other_owner_is_a_conflict() {
    let create = Request::of(&Action::CreatePod {
        body: Body::from(&pod(Some("o1"))),
    });
    assert!(existing(&create, &pod(Some("o1"))).is_ok());
    for (object, word) in [(pod(Some("o2")), "o2"), (pod(None), "no controller")] {
        let failed = existing(&create, &object).unwrap_err();
        assert_eq!(failed.code, 409);
        assert!(failed.message.contains(word), "{failed}");
    }
    // The uid of our owner, under another kind or group.
    for (field, value) in [("kind", "Nothing"), ("apiVersion", "none.example/v1")] {
        let mut forged = pod(Some("o1"));
        forged["metadata"]["ownerReferences"][0][field] = json!(value);
        assert!(existing(&create, &forged).is_err(), "{field}");
    }
    let mut going = pod(Some("o1"));
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert!(
        existing(&create, &going)
            .unwrap_err()
            .message
            .contains("being deleted")
    );
    // An object without an owner does not belong to a request without an owner.
    assert!(
        existing(
            &Request::of(&Action::CreatePod {
                body: Body::from(&pod(None))
            }),
            &pod(None)
        )
        .is_err()
    );
}
