use k8s_openapi::ByteString;

use super::*;
use crate::pods::{Injected, Labels, Lacks};

#[test]
fn a_pod_gets_the_gate_once_and_keeps_all_that_it_has() {
    let (ours, other) = (
        json!({"conditionType": KRUISE_POD_READY}),
        json!({"conditionType": "x.io/y", "later": 1}),
    );
    for (gates, expected) in [
        (None, json!([ours])),
        (Some(json!([])), json!([ours])),
        (Some(json!([other])), json!([other, ours])),
        (Some(json!([ours, other])), json!([ours, other])),
    ] {
        let mut pod = json!({"metadata": {"name": "web"}, "spec": {"containers": [{"name": "main"}], "later": 1}});
        if let Some(gates) = gates {
            pod["spec"]["readinessGates"] = gates;
        }
        let review = json!({"request": {"uid": "u", "namespace": "default", "object": pod}});
        let answer: Value = serde_json::from_slice(&review_of(&review)).unwrap();
        assert_eq!(
            (&answer["response"]["uid"], &answer["response"]["allowed"]),
            (&json!("u"), &json!(true))
        );
        let mut patched = pod.clone();
        if answer["response"]["patch"].is_string() {
            let patch: ByteString =
                serde_json::from_value(answer["response"]["patch"].clone()).unwrap();
            let patch: json_patch::Patch = serde_json::from_slice(&patch.0).unwrap();
            json_patch::patch(&mut patched, &patch).unwrap();
        }
        pod["spec"]["readinessGates"] = expected;
        assert_eq!(patched, pod);
    }
    assert!(review(b"{}", None).is_err());
}

/// Gives pods of the namespace `new` a container, and refuses those of `bad`.
#[derive(Debug)]
struct Adds;

impl Injector for Adds {
    fn faults(&self, _: &str, _: Option<&str>) -> Vec<String> {
        Vec::new()
    }

    fn inject(&self, namespace: &str, _: Option<&Labels>, pod: &Value) -> Result<Injected, Lacks> {
        let mut pod = pod.clone();
        pod["spec"]["containers"] = json!([{"name": "sidecar"}]);
        match namespace {
            "new" => Ok(Injected {
                pod: Some(pod),
                ..Injected::default()
            }),
            "bad" => Ok(Injected {
                pod: Some(pod),
                refused: Some("no".to_owned()),
                ..Injected::default()
            }),
            _ => Err(Lacks::Namespace),
        }
    }
}

#[test]
fn gate_is_added_even_if_sidecars_are_undecided() {
    for (namespace, containers) in [
        ("new", json!([{"name": "sidecar"}])),
        ("bad", json!([])),
        ("unknown", json!([])),
    ] {
        let mut pod = json!({"spec": {"containers": []}});
        let request = json!({"request": {"uid": "u", "namespace": namespace, "object": pod}});
        let answer = review(request.to_string().as_bytes(), Some(&Adds)).unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!(answer["response"]["allowed"], true, "{namespace}");
        let patch: ByteString =
            serde_json::from_value(answer["response"]["patch"].clone()).unwrap();
        json_patch::patch(
            &mut pod,
            &serde_json::from_slice::<json_patch::Patch>(&patch.0).unwrap(),
        )
        .unwrap();
        assert_eq!(
            (
                &pod["spec"]["containers"],
                pod["spec"]["readinessGates"].as_array().unwrap().len()
            ),
            (&containers, 1)
        );
    }
}

fn review_of(request: &Value) -> Vec<u8> {
    review(request.to_string().as_bytes(), None).unwrap()
}
