use std::sync::Arc;

use k8s_openapi::ByteString;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

/// Gives each pod a container, except pods of some names.
#[derive(Debug)]
struct Adds;

impl Injector for Adds {
    fn faults(&self, _: &str, _: Option<&str>) -> Vec<String> {
        Vec::new()
    }

    fn inject(
        &self,
        namespace: &str,
        labels: Option<&Labels>,
        pod: &Value,
    ) -> Result<Injected, Lacks> {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let warnings = vec!["w".repeat(300)];
        match (namespace, name) {
            ("", _) => Err(Lacks::Store(NotYet("SidecarSets"))),
            ("new", _) if labels.is_none() => Err(Lacks::Namespace),
            ("new", _) if labels.is_some_and(|labels| labels["team"] != "a") => {
                Ok(Injected::default())
            }
            (_, "bad") => Ok(Injected {
                refused: Some("no".to_owned()),
                warnings,
                pod: None,
            }),
            (_, "other") => Ok(Injected::default()),
            _ => {
                let mut pod = pod.clone();
                pod["spec"]["containers"]
                    .as_array_mut()
                    .unwrap()
                    .push(json!({"name": "sidecar"}));
                Ok(Injected {
                    pod: Some(pod),
                    ..Injected::default()
                })
            }
        }
    }
}

fn looked(namespace: &str, pod: &Value) -> Result<Look<Question>, Unanswered> {
    let request = json!({"uid": "u", "namespace": namespace, "object": pod});
    let review =
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
    look(review.to_string().as_bytes(), &Adds)
}

fn ask(namespace: &str, pod: &Value) -> Result<Value, Unanswered> {
    let Look::Answer(answer) = looked(namespace, pod)? else {
        panic!("the apiserver is to be asked")
    };
    Ok(serde_json::from_slice(&answer).unwrap())
}

#[test]
fn the_patch_of_an_answer_makes_of_the_pod_the_injected_one() {
    let pod = json!({"metadata": {"name": "web"}, "spec": {"containers": [{"name": "main", "new": [1]}], "newer": 1}});
    let answer = ask("default", &pod).unwrap();
    let patch: ByteString = serde_json::from_value(answer["response"]["patch"].clone()).unwrap();
    let patch: json_patch::Patch = serde_json::from_slice(&patch.0).unwrap();
    let (mut patched, mut expected) = (pod.clone(), pod);
    json_patch::patch(&mut patched, &patch).unwrap();
    expected["spec"]["containers"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "sidecar"}));
    assert_eq!(patched, expected);
}

#[test]
fn pod_passes_unchanged_or_is_refused_with_warning() {
    let named = |name: &str| json!({"metadata": {"name": name}, "spec": {"containers": []}});
    assert_eq!(
        ask("default", &named("other")).unwrap()["response"],
        json!({"uid": "u", "allowed": true})
    );
    let refused = ask("default", &named("bad")).unwrap()["response"].clone();
    assert_eq!(
        (&refused["allowed"], &refused["status"]["message"]),
        (&json!(false), &json!("no"))
    );
    assert_eq!(
        refused["warnings"][0].as_str().unwrap().len(),
        LONGEST_WARNING
    );
    assert!(matches!(ask("", &named("web")), Err(Unanswered::NotYet(_))));
    assert!(matches!(look(b"{}", &Adds), Err(Unanswered::NoReview(_))));
}

#[test]
fn pod_beyond_a_limit_is_refused_before_it_is_read() {
    let bomb = json!({"metadata": {"name": "web"}, "spec": {"tolerations": vec![json!({"key": "a"}); 20_000]}});
    let refused = ask("default", &bomb).unwrap()["response"].clone();
    let message = refused["status"]["message"].as_str().unwrap();
    assert!(
        refused["allowed"] == false && message.contains("sidecars: spec: has 40002 JSON values"),
        "{message}"
    );
    let fat = json!({"metadata": {"name": "web", "annotations": {"x.kruise.io/y": "y".repeat(70_000)}}, "spec": {}});
    let refused = ask("default", &fat).unwrap()["response"].clone();
    let message = refused["status"]["message"].as_str().unwrap();
    assert!(
        refused["allowed"] == false && message.contains("annotations of kruise.io"),
        "{message}"
    );
}

/// An apiserver that has one namespace, and answers any number of requests.
async fn apiserver(team: &'static str) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            let is_it = head.starts_with(b"GET /api/v1/namespaces/new ");
            let (status, body) = if is_it {
                let metadata = json!({"name": "new", "labels": {"team": team}});
                (
                    "200 OK",
                    json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": metadata}),
                )
            } else {
                (
                    "404 Not Found",
                    json!({"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound"}),
                )
            };
            let body = body.to_string();
            let answer = format!(
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    Client::try_from(kube::Config::new(
        format!("http://{address}").parse().unwrap(),
    ))
    .unwrap()
}

#[tokio::test]
async fn unknown_namespace_is_read_and_decides() {
    let pod = json!({"metadata": {"name": "web"}, "spec": {"containers": []}});
    for (team, is_changed) in [("a", true), ("b", false)] {
        let judge = Judge {
            injector: Some(Arc::new(Adds)),
            ..Judge::asking(apiserver(team).await)
        };
        let Look::Asks(question) = looked("new", &pod).unwrap() else {
            panic!("it is known")
        };
        let answer: Value =
            serde_json::from_slice(&question.answer(&judge).await.unwrap()).unwrap();
        assert_eq!(answer["response"]["allowed"], true);
        assert_eq!(
            answer["response"]["patch"].is_string(),
            is_changed,
            "{team}"
        );
        // For an invalid name, and for a namespace that the apiserver does not have, the failure
        // policy decides.
        for namespace in ["gone", "new/../../nodes"] {
            let Look::Asks(question) = looked("new", &pod).unwrap() else {
                panic!("it is known")
            };
            let question = Question {
                namespace: namespace.to_owned(),
                ..question
            };
            assert!(
                matches!(question.answer(&judge).await, Err(Unanswered::NotYet(_))),
                "{namespace}"
            );
        }
    }
}
