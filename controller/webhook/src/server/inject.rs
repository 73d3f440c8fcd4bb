//! AdmissionReviews of new pods that SidecarSets select: they get their sidecars. A pod stays untyped JSON, so that fields which are
//! newer than we are survive.

use std::borrow::Cow;

use k8s_openapi::ByteString;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Unanswered;
use crate::pods::{Injected, Injector};

/// The most bytes of a warning; a client shows no longer ones.
const LONGEST_WARNING: usize = 250;

/// An AdmissionReview on its way in.
#[derive(Deserialize)]
struct Review<'a> {
    #[serde(borrow)]
    request: Request<'a>,
}

#[derive(Deserialize)]
struct Request<'a> {
    uid: Cow<'a, str>,
    #[serde(default)]
    namespace: Cow<'a, str>,
    #[serde(default)]
    object: Value,
}

/// Answers an AdmissionReview of a new pod with the patch that gives it its sidecars.
///
/// # Errors
/// There is no answer to it, or none yet.
pub(crate) fn review(body: &[u8], injector: &dyn Injector) -> Result<Vec<u8>, Unanswered> {
    let Review { request } = serde_json::from_slice::<Review<'_>>(body)?;
    let mut response = json!({"uid": request.uid, "allowed": true});
    if request.object.is_object() {
        let Injected { pod, warnings, refused } = injector.inject(&request.namespace, &request.object)?;
        if !warnings.is_empty() {
            response["warnings"] = warnings.iter().map(|warning| short(warning)).collect();
        }
        if let Some(message) = refused {
            response["allowed"] = json!(false);
            response["status"] = json!({"code": 403, "reason": "Forbidden", "message": message});
        } else if let Some(pod) = pod {
            let patch = serde_json::to_vec(&json_patch::diff(&request.object, &pod))?;
            response["patchType"] = json!("JSONPatch");
            response["patch"] = json!(ByteString(patch));
        }
    }
    let answer = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
    Ok(serde_json::to_vec(&answer)?)
}

fn short(text: &str) -> String {
    let end = text.char_indices().map(|(at, _)| at).find(|at| *at >= LONGEST_WARNING).unwrap_or(text.len());
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
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
