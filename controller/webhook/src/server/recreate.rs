//! AdmissionReviews of ContainerRecreateRequests that are created: they are filled in with what their pod is, or refused.
//!
//! The pod is asked for, in the request's namespace and by the controller's own right to read pods: whoever may create a request there
//! learns of the pod what the request copies.

use std::borrow::Cow;
use std::time::Duration;

use berth_api::kinds::CONTAINER_RECREATE_REQUEST;
use berth_api::name::{Name, Namespace};
use berth_api::recreated::{self, fill, node_of};
use berth_api::v1beta1::containerrecreaterequest::ContainerRecreateRequestSpec;
use berth_api::weight::without_managed_fields;
use kube::Client;
use kube::api::GetParams;
use kube::core::Request as KubeRequest;
use serde::Deserialize;
use serde_json::Value;

use super::admission::Look;
use super::judge::Judge;
use super::pod_review::{Answer, read};
use crate::missing::Missing;

/// Less than the apiserver waits for an answer. After it the controller fills the request in.
pub(super) const PATIENCE: Duration = Duration::from_millis(1500);

/// What the apiserver is asked: about the pod, and about its node.
pub(super) struct Question {
    uid: String,
    namespace: String,
    request: Value,
    pod: String,
}

/// Does what takes no waiting.
///
/// # Errors
/// The text is no AdmissionReview of an object.
pub(super) fn look(body: &[u8], judge: &Judge) -> Result<Look<Question>, serde_json::Error> {
    let review = read(body)?;
    let mut answer = Answer::to(&review.uid);
    if let Some(why) = judge.closed.get(CONTAINER_RECREATE_REQUEST.plural) {
        answer.refuse(why);
        return answer.written().map(Look::Answer);
    }
    let text = review.object().unwrap_or_default();
    let limits = (CONTAINER_RECREATE_REQUEST.limits)(judge.object_max_bytes);
    // What is too large, or is none, the schema or the validating webhook refuses.
    let is_light = limits.check_object(&without_managed_fields(text)).is_ok();
    let pod = if is_light {
        pod_name(text)
    } else {
        String::new()
    };
    if pod.is_empty() {
        return answer.written().map(Look::Answer);
    }
    let [uid, namespace] = [review.uid, review.namespace].map(Cow::into_owned);
    Ok(Look::Asks(Question {
        uid,
        namespace,
        request: serde_json::from_str(text)?,
        pod,
    }))
}

/// The pod that a request names; empty where it names none. Of the status nothing is read: a client may send a status that is none,
/// such as Go's with an empty phase, and the apiserver drops it.
fn pod_name(request: &str) -> String {
    #[derive(Deserialize)]
    struct Named {
        spec: ContainerRecreateRequestSpec,
    }
    serde_json::from_str::<Named>(request)
        .map(|named| named.spec.pod_name)
        .unwrap_or_default()
}

impl Question {
    /// The namespace of the review.
    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The answer, by what the apiserver says of the pod.
    ///
    /// # Errors
    /// None that a review could cause.
    pub(super) async fn answer(
        self,
        judge: &Judge,
        missing: &Missing,
    ) -> Result<Vec<u8>, serde_json::Error> {
        let filled = tokio::time::timeout(PATIENCE, self.fill(&judge.client, missing)).await;
        let mut answer = Answer::to(&self.uid);
        match filled {
            Ok(Ok(Some(filled))) => answer.change(&self.request, &filled)?,
            Ok(Err(refusal)) => answer.refuse(&refusal),
            // Nothing is known, so nothing is refused: the controller fills it in, or completes it.
            _ => {}
        }
        answer.written()
    }

    /// The answer where it is not asked.
    ///
    /// # Errors
    /// None that a review could cause.
    pub(super) fn unasked(self) -> Result<Vec<u8>, serde_json::Error> {
        Answer::to(&self.uid).written()
    }

    /// The request, filled in; `None` where the apiserver did not say.
    async fn fill(&self, client: &Client, missing: &Missing) -> Result<Option<Value>, String> {
        let Ok(namespace) = Namespace::parse(&self.namespace) else {
            return Ok(None);
        };
        let named = |collection: &str, name: &str| {
            KubeRequest::new(collection).get(name, &GetParams::default())
        };
        // A name that is none is that of no pod.
        let pod = match Name::parse(&self.pod) {
            Ok(name) if !missing.has(namespace.as_str(), name.as_str()) => {
                let Ok(request) = named(
                    &format!("/api/v1/namespaces/{namespace}/pods"),
                    name.as_str(),
                ) else {
                    return Ok(None);
                };
                let Ok(pod) = get(client, request).await else {
                    return Ok(None);
                };
                missing.looked(namespace.as_str(), name.as_str(), pod.is_some());
                let pod = pod.map(|text| recreated::read(&text)).transpose();
                pod.map_err(|why| format!("spec.podName: pod {} cannot be read: {why}", self.pod))?
            }
            _ => None,
        };
        let name = node_of(&self.request, pod.as_ref())?;
        let Ok(request) = named("/api/v1/nodes", name) else {
            return Ok(None);
        };
        let Ok(node) = get(client, request).await else {
            return Ok(None);
        };
        let node = node.ok_or_else(|| {
            format!(
                "spec.podName: node {name} of pod {} does not exist",
                self.pod
            )
        })?;
        let mut filled = self.request.clone();
        fill(
            &mut filled,
            &pod.unwrap_or_default(),
            &recreated::read(&node)?,
        )?;
        Ok(Some(filled))
    }
}

/// The apiserver did not say.
pub(super) struct Unknown;

/// The text of an object; `None` where there is none.
pub(super) async fn get(
    client: &Client,
    request: http::Request<Vec<u8>>,
) -> Result<Option<String>, Unknown> {
    match client.request_text(request).await {
        Ok(object) => Ok(Some(object)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(_) => Err(Unknown),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::ByteString;
    use serde_json::json;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// An apiserver that has these objects by path, and fails with this code for what it has not.
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
    async fn a_request_comes_back_with_what_its_pod_is() {
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
    async fn what_is_wrong_is_refused_and_what_is_not_known_is_let_through() {
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
    fn the_pod_is_read_whatever_else_a_client_sends() {
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
}
