//! AdmissionReviews of new pods, whoever makes them: they get the readiness gate `KruisePodReady`.

use berth_api::names::condition::KRUISE_POD_READY;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::pod_review::{Answer, read};

/// A pod; only what is read or changed of it.
#[derive(Serialize, Deserialize)]
struct Pod {
    spec: Spec,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(skip_serializing_if = "Option::is_none")]
    readiness_gates: Option<Vec<Value>>,
}

/// Answers an AdmissionReview of a new pod with the patch that gives it the gate.
///
/// # Errors
/// The text is no AdmissionReview of a pod.
pub(crate) fn review(body: &[u8]) -> Result<Vec<u8>, serde_json::Error> {
    let request = read::<Pod>(body)?;
    let mut answer = Answer::to(&request);
    if let Some(mut pod) = request.pod {
        let before = json!(pod);
        let gates = pod.spec.readiness_gates.get_or_insert_default();
        if !gates.iter().any(|gate| gate["conditionType"] == KRUISE_POD_READY) {
            gates.push(json!({"conditionType": KRUISE_POD_READY}));
            answer.change(&before, &json!(pod))?;
        }
    }
    answer.written()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;

    #[test]
    fn a_pod_gets_the_gate_once_and_keeps_all_that_it_has() {
        let (ours, other) =
            (json!({"conditionType": KRUISE_POD_READY}), json!({"conditionType": "x.io/y", "later": 1}));
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
            assert_eq!((&answer["response"]["uid"], &answer["response"]["allowed"]), (&json!("u"), &json!(true)));
            let mut patched = pod.clone();
            if answer["response"]["patch"].is_string() {
                let patch: ByteString = serde_json::from_value(answer["response"]["patch"].clone()).unwrap();
                let patch: json_patch::Patch = serde_json::from_slice(&patch.0).unwrap();
                json_patch::patch(&mut patched, &patch).unwrap();
            }
            pod["spec"]["readinessGates"] = expected;
            assert_eq!(patched, pod);
        }
        assert!(review(b"{}").is_err());
    }

    fn review_of(request: &Value) -> Vec<u8> {
        review(request.to_string().as_bytes()).unwrap()
    }
}
