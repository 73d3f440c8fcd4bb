use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

/// An apiserver that has these objects by path, and fails with this code for all others.
async fn apiserver(objects: Vec<(&'static str, Value)>, code: u16) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            let head = String::from_utf8(head).unwrap();
            let is_it = |(path, _): &&(&str, Value)| head.starts_with(&format!("GET {path}"));
            let (status, body) = match objects.iter().find(is_it) {
                Some((_, object)) => (200, object.clone()),
                None => (
                    code,
                    json!({"kind": "Status", "status": "Failure", "code": code, "reason": "x"}),
                ),
            };
            let body = body.to_string();
            let answer = format!(
                "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
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

fn judge(client: Client, closed: &[&'static str]) -> Judge {
    let closed: BTreeMap<_, _> = closed
        .iter()
        .map(|plural| (*plural, "off: turn it on".to_owned()))
        .collect();
    Judge {
        closed,
        ..Judge::asking(client)
    }
}

fn review(object: &Value) -> Vec<u8> {
    json!({"request": {"uid": "u", "namespace": "default", "object": object}})
        .to_string()
        .into_bytes()
}

fn request(container: &str) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "ContainerRecreateRequest", "metadata": {"name": "demo"},
        "spec": {"podName": "web", "containers": [{"name": container}], "strategy": {"failurePolicy": "Fail"}},
    })
}

fn objects() -> Vec<(&'static str, Value)> {
    let pod = json!({
        "metadata": {"name": "web", "uid": "pod"},
        "spec": {"nodeName": "n1", "terminationGracePeriodSeconds": 30, "containers": [{"name": "app"}]},
        "status": {"phase": "Running", "containerStatuses": [{"name": "app", "containerID": "c://a", "restartCount": 0}]},
    });
    vec![
        ("/api/v1/namespaces/default/pods/web", pod),
        ("/api/v1/nodes/n1", json!({"metadata": {"name": "n1"}})),
    ]
}

async fn answered(object: &Value, judge: &Judge) -> Value {
    let answer = match look(&review(object), judge).unwrap() {
        Look::Answer(answer) => answer,
        Look::Asks(question) => question.answer(judge, &Missing::default()).await.unwrap(),
    };
    serde_json::from_slice::<Value>(&answer).unwrap()["response"].take()
}

#[tokio::test]
async fn request_is_completed_from_its_pod() {
    let answer = answered(
        &request("app"),
        &judge(apiserver(objects(), 404).await, &[]),
    )
    .await;
    let patch: ByteString = serde_json::from_value(answer["patch"].clone()).unwrap();
    let patch: json_patch::Patch = serde_json::from_slice(&patch.0).unwrap();
    let mut patched = request("app");
    json_patch::patch(&mut patched, &patch).unwrap();
    assert_eq!(
        patched["metadata"]["labels"]["crr.apps.kruise.io/pod-uid"],
        "pod"
    );
    assert_eq!(
        patched["spec"]["containers"][0]["statusContext"]["containerID"],
        "c://a"
    );
    assert_eq!(
        patched["spec"]["strategy"],
        json!({"failurePolicy": "Fail", "terminationGracePeriodSeconds": 30})
    );
}

#[tokio::test]
async fn wrong_request_is_refused_and_unknown_allowed() {
    let known = judge(apiserver(objects(), 404).await, &[]);
    let refused = answered(&request("db"), &known).await;
    let message = refused["status"]["message"].as_str().unwrap();
    assert!(
        refused["allowed"] == false && message.contains("spec.containers[db]"),
        "{message}"
    );
    let mut bomb = objects();
    bomb[0].1["spec"]["tolerations"] = vec![json!({"key": "a"}); 105_000].into();
    let refused = answered(&request("app"), &judge(apiserver(bomb, 404).await, &[])).await;
    let message = refused["status"]["message"].as_str().unwrap();
    assert!(
        message.starts_with("spec.podName: pod web cannot be read: spec: has "),
        "{message}"
    );
    for pod in ["other", "a/b", "../nodes/n1"] {
        let mut request = request("app");
        request["spec"]["podName"] = json!(pod);
        assert_eq!(answered(&request, &known).await["allowed"], false, "{pod}");
    }
    let through = json!({"uid": "u", "allowed": true});
    let broken = judge(apiserver(Vec::new(), 500).await, &[]);
    assert_eq!(answered(&request("app"), &broken).await, through);
    // The schema refuses it.
    for odd in [
        json!({"spec": "x"}),
        json!({"metadata": {}, "spec": {"podName": "web", "containers": "x"}}),
        json!(null),
    ] {
        assert_eq!(answered(&odd, &known).await, through, "{odd}");
    }
    let closed = judge(
        apiserver(objects(), 404).await,
        &["containerrecreaterequests"],
    );
    assert_eq!(
        answered(&request("app"), &closed).await["status"]["message"],
        "off: turn it on"
    );
    assert!(look(b"{}", &known).is_err());
}

#[test]
fn pod_name_is_read_despite_other_fields() {
    for (request, expected) in [
        (
            json!({"spec": {"podName": "a", "containers": [{"name": "b"}]}, "status": {"phase": ""}}),
            "a",
        ),
        (json!({"spec": {"podName": "a", "containers": 7}}), ""),
        (json!({"spec": {"podName": 7}}), ""),
        (json!({"spec": {}}), ""),
        (json!([]), ""),
    ] {
        assert_eq!(pod_name(&request.to_string()), expected, "{request}");
    }
}
