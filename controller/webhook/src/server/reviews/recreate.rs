//! AdmissionReviews of ContainerRecreateRequests that are created: the webhook fills in fields of
//! their pod, or refuses.
//!
//! The webhook reads the pod in the request's namespace, with the controller's own right to read
//! pods. So an author who may create a request there sees the fields of the pod that the request
//! copies.

use std::borrow::Cow;
use std::time::Duration;

use berth_api::kinds::CONTAINER_RECREATE_REQUEST;
use berth_api::kinds::containerrecreaterequest::filled_in::{self, fill, node_of};
use berth_api::name::{Name, Namespace};
use berth_api::v1beta1::containerrecreaterequest::ContainerRecreateRequestSpec;
use berth_api::weight::without_managed_fields;
use kube::Client;
use kube::api::GetParams;
use kube::core::Request as KubeRequest;
use serde::Deserialize;
use serde_json::Value;

use super::admission::Look;
use super::pod_review::{Answer, read};
use crate::pods::missing::Missing;
use crate::server::judge::Judge;

/// Shorter than the apiserver waits for an answer. After this time the controller fills the request
/// in.
pub(in crate::server) const PATIENCE: Duration = Duration::from_millis(1500);

/// A review that the webhook answers after it has read the pod and its node from the apiserver.
pub(in crate::server) struct Question {
    uid: String,
    namespace: String,
    request: Value,
    pod: String,
}

/// The answer to a review, if the webhook need not read the request's pod; otherwise the question
/// that reads the pod.
///
/// # Errors
/// The body is no AdmissionReview of an object.
pub(in crate::server) fn look(
    body: &[u8],
    judge: &Judge,
) -> Result<Look<Question>, serde_json::Error> {
    let review = read(body)?;
    let mut answer = Answer::to(&review.uid);
    if let Some(why) = judge.closed.get(CONTAINER_RECREATE_REQUEST.plural) {
        answer.refuse(why);
        return answer.written().map(Look::Answer);
    }
    let text = review.object().unwrap_or_default();
    let limits = (CONTAINER_RECREATE_REQUEST.limits)(judge.object_max_bytes);
    // A request that is too large or unreadable is left to the schema and the validating webhook,
    // which refuse it.
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

/// The pod that a request names; empty if it names none. The status is not read: a client may send
/// an invalid one, such as Go's with an empty phase, and the apiserver drops it.
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
    pub(in crate::server) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The answer, with the pod that the apiserver returned.
    ///
    /// # Errors
    /// None that a review could cause.
    pub(in crate::server) async fn answer(
        self,
        judge: &Judge,
        missing: &Missing,
    ) -> Result<Vec<u8>, serde_json::Error> {
        let filled = tokio::time::timeout(PATIENCE, self.fill(&judge.client, missing)).await;
        let mut answer = Answer::to(&self.uid);
        match filled {
            Ok(Ok(Some(filled))) => answer.change(&self.request, &filled)?,
            Ok(Err(refusal)) => answer.refuse(&refusal),
            // Without an answer nothing is refused: the controller fills the request in, or
            // completes it.
            _ => {}
        }
        answer.written()
    }

    /// The answer when too many reviews wait: the request passes, and the controller fills it in.
    ///
    /// # Errors
    /// None that a review could cause.
    pub(in crate::server) fn overloaded(self) -> Result<Vec<u8>, serde_json::Error> {
        Answer::to(&self.uid).written()
    }

    /// The request, filled in; `None` if the apiserver did not answer.
    ///
    /// # Errors
    /// The reason to refuse the request.
    async fn fill(&self, client: &Client, missing: &Missing) -> Result<Option<Value>, String> {
        let Ok(namespace) = Namespace::parse(&self.namespace) else {
            return Ok(None);
        };
        let named = |collection: &str, name: &str| {
            KubeRequest::new(collection).get(name, &GetParams::default())
        };
        // No pod has an invalid name.
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
                let pod = pod.map(|text| filled_in::read(&text)).transpose();
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
            &filled_in::read(&node)?,
        )?;
        Ok(Some(filled))
    }
}

/// The apiserver did not answer.
pub(in crate::server) struct Unknown;

/// The text of an object; `None` if it does not exist.
pub(in crate::server) async fn get(
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
mod tests;
