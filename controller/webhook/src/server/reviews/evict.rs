//! AdmissionReviews of evictions: each is bound to the pod that has the name now. A budget grants
//! one pod, not any pod that has its name later.

use std::borrow::Cow;

use berth_api::name::{Name, Namespace};
use berth_api::weight::Limits;
use kube::Client;
use kube::api::GetParams;
use kube::core::Request as KubeRequest;
use serde::Deserialize;
use serde_json::{Value, json};

use super::admission::Look;
use super::pod_review::{Answer, Unanswered, read};
use super::recreate::{Unknown, get};
use crate::pods::NotYet;
use crate::pods::missing::Missing;
use crate::server::judge::Judge;

/// The limits of an eviction: it has a name and a few options. A larger one is not bound to a pod,
/// and is refused later.
const LIMITS: Limits = Limits {
    values: 512,
    ..Limits::fixed(16 << 10)
};

/// A question to the apiserver: the uid of the pod.
pub(in crate::server) struct Question {
    uid: String,
    namespace: String,
    eviction: Value,
}

/// Does the part that needs no waiting.
///
/// # Errors
/// The text is no AdmissionReview of an eviction.
pub(in crate::server) fn look(body: &[u8]) -> Result<Look<Question>, serde_json::Error> {
    let request = read(body)?;
    let text = request
        .object()
        .filter(|text| LIMITS.check("eviction", text).is_ok());
    let eviction: Option<Value> = text.map(serde_json::from_str).transpose()?;
    match eviction.filter(|eviction| !eviction.pointer(UID).is_some_and(Value::is_string)) {
        None => Answer::to(&request.uid).written().map(Look::Answer),
        Some(eviction) => {
            let [uid, namespace] = [request.uid, request.namespace].map(Cow::into_owned);
            Ok(Look::Asks(Question {
                uid,
                namespace,
                eviction,
            }))
        }
    }
}

/// The field of an eviction with the uid of its pod.
const UID: &str = "/deleteOptions/preconditions/uid";

impl Question {
    /// The namespace of the review.
    pub(in crate::server) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The answer, with the uid that the apiserver gave. If the apiserver did not answer in time,
    /// the uid in the store is used: if that pod is gone, the apiserver refuses the eviction.
    ///
    /// # Errors
    /// Neither has one.
    pub(in crate::server) fn answer(
        self,
        read: Result<Option<String>, NotYet>,
        judge: &Judge,
    ) -> Result<Vec<u8>, Unanswered> {
        let known = || {
            judge
                .budgets
                .as_ref()?
                .known_uid(&self.namespace, self.pod())
        };
        let uid = read.or_else(|not_yet| known().map(Some).ok_or(not_yet))?;
        let mut answer = Answer::to(&self.uid);
        if let Some(uid) = uid {
            let mut after = self.eviction.clone();
            let options = object(&mut after["deleteOptions"]);
            object(&mut options["preconditions"])["uid"] = json!(uid);
            answer.change(&self.eviction, &after)?;
        }
        Ok(answer.written()?)
    }

    /// The name of the pod.
    fn pod(&self) -> &str {
        self.eviction["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
    }

    /// The uid of the pod that the eviction names; `None` if there is no such pod, and then the
    /// apiserver refuses.
    ///
    /// # Errors
    /// The apiserver does not say.
    pub(in crate::server) async fn pods_uid(
        &self,
        client: &Client,
        missing: &Missing,
    ) -> Result<Option<String>, NotYet> {
        #[derive(Deserialize)]
        struct Identified {
            metadata: Identity,
        }
        #[derive(Deserialize)]
        struct Identity {
            uid: String,
        }
        let (Ok(namespace), Ok(name)) =
            (Namespace::parse(&self.namespace), Name::parse(self.pod()))
        else {
            return Ok(None);
        };
        if missing.has(namespace.as_str(), name.as_str()) {
            return Ok(None);
        }
        let pods = KubeRequest::new(format!("/api/v1/namespaces/{namespace}/pods"));
        let unknown = NotYet("pods");
        let request = pods
            .get_metadata(name.as_str(), &GetParams::default())
            .map_err(|_| unknown)?;
        let found = get(client, request).await.map_err(|Unknown| unknown)?;
        missing.looked(namespace.as_str(), name.as_str(), found.is_some());
        let found = found
            .map(|text| serde_json::from_str(&text))
            .transpose()
            .map_err(|_| unknown)?;
        Ok(found.map(
            |Identified {
                 metadata: Identity { uid },
             }| uid,
        ))
    }
}

/// The value as an object. A value that is no object is replaced by an empty one.
fn object(value: &mut Value) -> &mut Value {
    if !value.is_object() {
        *value = json!({});
    }
    value
}

#[cfg(test)]
mod tests;
