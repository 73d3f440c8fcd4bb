//! AdmissionReviews of new pods: those that take another's place are pinned to where that was.

use berth_api::weight::Limits;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::pod_review::{Answer, Unanswered, read};
use crate::pods::Records;

/// A pod; only what is read or changed of it.
#[derive(Serialize, Deserialize)]
struct Pod {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<Map<String, Value>>,
    #[serde(default)]
    owner_references: Value,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(skip_serializing_if = "Option::is_none")]
    node_selector: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    affinity: Option<Value>,
}

/// Answers an AdmissionReview of a new pod with the patch that pins it. A pod that is too large to be read is not pinned.
///
/// # Errors
/// There is no answer to it, or none yet.
pub(crate) fn review(body: &[u8], records: &dyn Records) -> Result<Vec<u8>, Unanswered> {
    let request = read(body)?;
    let mut answer = Answer::to(&request.uid);
    if let Some(text) = request
        .object()
        .filter(|text| Limits::check_pod(text).is_ok())
    {
        let before = serde_json::to_value(serde_json::from_str::<Pod>(text)?)?;
        let mut after = before.clone();
        if records.pin(&request.namespace, &mut after)? {
            answer.change(&before, &after)?;
        }
    }
    Ok(answer.written()?)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use serde_json::json;

    use super::*;
    use crate::pods::NotYet;

    #[derive(Debug)]
    struct ToNode(&'static str);

    impl Records for ToNode {
        fn keeper(&self, _: &str, _: (&str, &str, &str)) -> Option<String> {
            None
        }

        fn pin(&self, namespace: &str, pod: &mut Value) -> Result<bool, NotYet> {
            if namespace.is_empty() {
                return Err(NotYet("PersistentPodStates"));
            }
            if pod["metadata"]["name"] != "db-0" {
                return Ok(false);
            }
            pod["spec"]["nodeSelector"]["host"] = json!(self.0);
            pod["metadata"]["annotations"]["by"] = json!("x");
            Ok(true)
        }
    }

    fn ask(namespace: &str, pod: &Value) -> Result<Value, Unanswered> {
        let request = json!({"uid": "u", "namespace": namespace, "object": pod});
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
        let answer = review_text(&review)?;
        Ok(serde_json::from_slice(&answer).unwrap())
    }

    fn review_text(review: &Value) -> Result<Vec<u8>, Unanswered> {
        super::review(review.to_string().as_bytes(), &ToNode("n1"))
    }

    #[test]
    fn the_patch_of_an_answer_makes_of_the_whole_pod_the_pinned_one() {
        for pod in [
            json!({"metadata": {"name": "db-0", "labels": {"a": "b"}}, "spec": {"containers": [{"name": "main"}]}}),
            json!({"metadata": {"name": "db-0", "annotations": {"k": "v"}}, "spec": {"nodeSelector": {"z": "1"}, "containers": []}}),
        ] {
            let answer = ask("default", &pod).unwrap();
            assert_eq!(
                (&answer["response"]["uid"], &answer["response"]["allowed"]),
                (&json!("u"), &json!(true))
            );
            let patch: ByteString =
                serde_json::from_value(answer["response"]["patch"].clone()).unwrap();
            let patch: json_patch::Patch = serde_json::from_slice(&patch.0).unwrap();
            let mut patched = pod.clone();
            json_patch::patch(&mut patched, &patch).unwrap();
            let mut expected = pod;
            expected["spec"]["nodeSelector"]["host"] = json!("n1");
            expected["metadata"]["annotations"]["by"] = json!("x");
            assert_eq!(patched, expected);
        }
    }

    #[test]
    fn a_pod_without_a_record_is_let_through_as_it_is_and_who_does_not_know_says_so() {
        let pod = json!({"metadata": {"name": "db-9"}, "spec": {}});
        assert_eq!(
            ask("default", &pod).unwrap()["response"],
            json!({"uid": "u", "allowed": true})
        );
        assert!(matches!(ask("", &pod), Err(Unanswered::NotYet(_))));
        assert!(matches!(
            super::review(b"{}", &ToNode("n1")),
            Err(Unanswered::NoReview(_))
        ));
    }
}
