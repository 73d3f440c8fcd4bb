//! AdmissionReviews of evictions: each is bound to the pod that has the name now, for a budget grants one pod, not whatever takes its
//! name next.

use std::borrow::Cow;

use berth_api::name::{Name, Namespace};
use kube::Client;
use serde_json::{Value, json};

use super::Judge;
use super::admission::Look;
use super::pod_review::{Answer, Request, Unanswered};
use super::recreate::{Unknown, get};
use crate::pods::NotYet;

/// What the apiserver is asked: the uid of the pod.
pub(super) struct Question {
    review: Request<'static, Value>,
}

/// Does what takes no waiting.
///
/// # Errors
/// The text is no AdmissionReview of an eviction.
pub(super) fn look(body: &[u8]) -> Result<Look<Question>, serde_json::Error> {
    let Request { uid, namespace, pod: eviction } = super::pod_review::read::<Value>(body)?;
    let owned = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
    let review = Request { uid: owned(uid), namespace: owned(namespace), pod: eviction };
    let is_bound = |eviction: &Value| eviction.pointer(UID).is_some_and(Value::is_string);
    if review.pod.as_ref().is_none_or(is_bound) {
        return Answer::to(&review).written().map(Look::Answer);
    }
    Ok(Look::Asks(Question { review }))
}

/// Where an eviction says which pod is meant.
const UID: &str = "/deleteOptions/preconditions/uid";

impl Question {
    /// The answer, by what the apiserver says of the pod.
    ///
    /// # Errors
    /// It says nothing.
    pub(super) async fn answer(self, judge: &Judge) -> Result<Vec<u8>, Unanswered> {
        let mut answer = Answer::to(&self.review);
        if let Some(before) = &self.review.pod
            && let Some(uid) = self.uid(before, &judge.client).await?
        {
            let mut after = before.clone();
            let options = object(&mut after["deleteOptions"]);
            object(&mut options["preconditions"])["uid"] = json!(uid);
            answer.change(before, &after)?;
        }
        Ok(answer.written()?)
    }

    /// The uid of the pod that an eviction names; `None` where there is none, and the apiserver will say so.
    async fn uid(&self, eviction: &Value, client: &Client) -> Result<Option<String>, NotYet> {
        let name = eviction["metadata"]["name"].as_str().unwrap_or_default();
        let (Ok(namespace), Ok(name)) = (Namespace::parse(&self.review.namespace), Name::parse(name)) else {
            return Ok(None);
        };
        match get(client, &format!("/api/v1/namespaces/{namespace}/pods"), name.as_str()).await {
            Ok(pod) => Ok(pod.and_then(|pod| pod["metadata"]["uid"].as_str().map(str::to_owned))),
            Err(Unknown) => Err(NotYet("pods")),
        }
    }
}

/// An object in place of what is none.
fn object(value: &mut Value) -> &mut Value {
    if !value.is_object() {
        *value = json!({});
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_eviction_that_names_its_pod_by_uid_is_let_through_as_it_is() {
        let review = |eviction: Value| {
            let review = json!({"request": {"uid": "u", "namespace": "a", "object": eviction}});
            look(review.to_string().as_bytes()).unwrap()
        };
        let bound = json!({"metadata": {"name": "web"}, "deleteOptions": {"preconditions": {"uid": "x"}}});
        let Look::Answer(answer) = review(bound) else { panic!("the apiserver is asked") };
        assert!(!String::from_utf8(answer).unwrap().contains("patch"));
        for options in [Value::Null, json!({"preconditions": null}), json!({"preconditions": {"resourceVersion": "1"}})]
        {
            let eviction = json!({"metadata": {"name": "web"}, "deleteOptions": options});
            assert!(matches!(review(eviction), Look::Asks(_)), "{options}");
        }
        let mut bare = Value::Null;
        object(&mut bare)["uid"] = json!("x");
        assert_eq!(bare, json!({"uid": "x"}));
    }
}
