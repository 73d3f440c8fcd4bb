use k8s_openapi::ByteString;
use serde_json::json;

use super::*;
use crate::pods::NotYet;

#[derive(Debug)]
struct ToNode(&'static str);

impl Records for ToNode {
    fn persistent_pod_state(&self, _: &str, _: (&str, &str, &str)) -> Option<String> {
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
    let review =
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
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
fn pod_without_record_passes_unchanged() {
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
