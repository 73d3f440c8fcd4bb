//! AdmissionReviews of new pods that SidecarSets select: they get their sidecars. A pod stays untyped JSON, so that fields which are
//! newer than we are survive.

use serde_json::Value;

use super::pod_review::{Answer, Unanswered, read};
use crate::pods::{Injected, Injector};

/// The most bytes of a warning; a client shows no longer ones.
const LONGEST_WARNING: usize = 250;

/// Answers an AdmissionReview of a new pod with the patch that gives it its sidecars.
///
/// # Errors
/// There is no answer to it, or none yet.
pub(crate) fn review(body: &[u8], injector: &dyn Injector) -> Result<Vec<u8>, Unanswered> {
    let request = read::<Value>(body)?;
    let mut answer = Answer::to(&request);
    if let Some(pod) = request.pod.filter(Value::is_object) {
        let Injected { pod: injected, warnings, refused } = injector.inject(&request.namespace, &pod)?;
        if !warnings.is_empty() {
            answer.warn(warnings.iter().map(|warning| &warning[..warning.floor_char_boundary(LONGEST_WARNING)]));
        }
        if let Some(message) = refused {
            answer.refuse(&message);
        } else if let Some(injected) = injected {
            answer.change(&pod, &injected)?;
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

    /// Gives the pod a container, but for pods of some names.
    #[derive(Debug)]
    struct Adds;

    impl Injector for Adds {
        fn faults(&self, _: &str, _: Option<&str>) -> Vec<String> {
            Vec::new()
        }

        fn inject(&self, namespace: &str, pod: &Value) -> Result<Injected, NotYet> {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            let warnings = vec!["w".repeat(300)];
            match (namespace, name) {
                ("", _) => Err(NotYet("SidecarSets")),
                (_, "bad") => Ok(Injected { refused: Some("no".to_owned()), warnings, pod: None }),
                (_, "other") => Ok(Injected::default()),
                _ => {
                    let mut pod = pod.clone();
                    pod["spec"]["containers"].as_array_mut().unwrap().push(json!({"name": "sidecar"}));
                    Ok(Injected { pod: Some(pod), ..Injected::default() })
                }
            }
        }
    }

    fn ask(namespace: &str, pod: &Value) -> Result<Value, Unanswered> {
        let request = json!({"uid": "u", "namespace": namespace, "object": pod});
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
        Ok(serde_json::from_slice(&super::review(review.to_string().as_bytes(), &Adds)?).unwrap())
    }

    #[test]
    fn the_patch_of_an_answer_makes_of_the_pod_the_injected_one() {
        let pod =
            json!({"metadata": {"name": "web"}, "spec": {"containers": [{"name": "main", "new": [1]}], "newer": 1}});
        let answer = ask("default", &pod).unwrap();
        let patch: ByteString = serde_json::from_value(answer["response"]["patch"].clone()).unwrap();
        let patch: json_patch::Patch = serde_json::from_slice(&patch.0).unwrap();
        let (mut patched, mut expected) = (pod.clone(), pod);
        json_patch::patch(&mut patched, &patch).unwrap();
        expected["spec"]["containers"].as_array_mut().unwrap().push(json!({"name": "sidecar"}));
        assert_eq!(patched, expected);
    }

    #[test]
    fn a_pod_is_let_through_as_it_is_or_refused_with_a_short_warning() {
        let named = |name: &str| json!({"metadata": {"name": name}, "spec": {"containers": []}});
        assert_eq!(ask("default", &named("other")).unwrap()["response"], json!({"uid": "u", "allowed": true}));
        let refused = ask("default", &named("bad")).unwrap()["response"].clone();
        assert_eq!((&refused["allowed"], &refused["status"]["message"]), (&json!(false), &json!("no")));
        assert_eq!(refused["warnings"][0].as_str().unwrap().len(), LONGEST_WARNING);
        assert!(matches!(ask("", &named("web")), Err(Unanswered::NotYet(_))));
        assert!(matches!(super::review(b"{}", &Adds), Err(Unanswered::NoReview(_))));
    }
}
