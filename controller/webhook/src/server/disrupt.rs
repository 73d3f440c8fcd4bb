//! AdmissionReviews of pods that are deleted or evicted: budgets are drawn from, or the answer says who has used them up.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Value, json};

use super::Judge;
use super::admission::Look;
use super::pod_review::Unanswered;
use crate::pods::{Change, Disruption, NotYet};

/// The longest name of a user that is told.
const LONGEST_USER: usize = 256;

/// A review that only budgets can answer.
pub(super) struct Question {
    uid: String,
    disruption: Disruption,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    #[serde(borrow)]
    uid: Cow<'a, str>,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    operation: String,
    #[serde(default)]
    sub_resource: String,
    #[serde(default)]
    dry_run: bool,
    #[serde(default)]
    user_info: User,
    object: Option<Value>,
    old_object: Option<Value>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct User {
    username: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Eviction {
    delete_options: Option<DeleteOptions>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct DeleteOptions {
    dry_run: Option<Vec<String>>,
    preconditions: Option<Preconditions>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Preconditions {
    uid: Option<String>,
}

/// Does what takes no waiting.
///
/// # Errors
/// The text is no AdmissionReview.
pub(super) fn look(body: &[u8]) -> Result<Look<Question>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Review<'a> {
        #[serde(borrow)]
        request: Request<'a>,
    }
    let Review { request } = serde_json::from_slice(body)?;
    let Request { uid, namespace, name, operation, sub_resource, dry_run, user_info, object, old_object } = request;
    let change = match (&*operation, &*sub_resource) {
        ("DELETE", _) => Change::Delete,
        ("CREATE", _) => Change::Evict,
        (_, "resize") => Change::Resize,
        _ => Change::Update,
    };
    let (eviction, new) = if change == Change::Evict { (object, None) } else { (None, object) };
    let eviction = eviction.map(Eviction::deserialize).transpose()?;
    let options = eviction.and_then(|eviction| eviction.delete_options).unwrap_or_default();
    let is_dry_run = dry_run || options.dry_run.is_some_and(|all| !all.is_empty());
    let mut user = user_info.username;
    user.truncate(user.floor_char_boundary(LONGEST_USER));
    let disruption = Disruption {
        namespace,
        pod: name,
        object: old_object,
        uid: options.preconditions.and_then(|preconditions| preconditions.uid),
        change,
        new,
        user,
        is_dry_run,
    };
    Ok(Look::Asks(Question { uid: uid.into_owned(), disruption }))
}

impl Question {
    /// The answer, by what budgets say.
    ///
    /// # Errors
    /// They say nothing, so the failure policy decides.
    pub(super) async fn answer(self, judge: &Judge) -> Result<Vec<u8>, Unanswered> {
        let budgets = judge.budgets.as_ref().ok_or(NotYet("PodUnavailableBudgets"))?;
        let refused = budgets.draw(self.disruption).await?;
        let mut response = json!({"uid": self.uid, "allowed": refused.is_none()});
        if let Some(message) = refused {
            // kubectl drain tries this again every five seconds, and gives up at any other. With a time to wait, clients would sleep
            // in silence.
            let causes = json!([{"reason": "DisruptionBudget", "message": message}]);
            response["status"] = json!({
                "status": "Failure", "code": 429, "reason": "TooManyRequests", "message": message, "details": {"causes": causes},
            });
        }
        Ok(serde_json::to_vec(
            &json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}),
        )?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(request: Value) -> Disruption {
        let Look::Asks(question) = look(json!({"request": request}).to_string().as_bytes()).unwrap() else {
            panic!("it is answered at once")
        };
        question.disruption
    }

    #[test]
    fn what_is_to_befall_a_pod_is_read_from_deletions_and_evictions() {
        let pod = json!({"metadata": {"name": "web"}});
        let deletion = asked(json!({
            "uid": "u", "namespace": "a", "name": "web", "operation": "DELETE", "oldObject": pod, "userInfo": {"username": "me"},
        }));
        let expected = Disruption {
            namespace: "a".to_owned(),
            pod: "web".to_owned(),
            object: Some(pod),
            user: "me".to_owned(),
            ..Disruption::default()
        };
        assert_eq!(deletion, expected);
        let eviction = |options: Value| {
            asked(json!({
                "uid": "u", "namespace": "a", "name": "web", "subResource": "eviction", "operation": "CREATE",
                "object": {"kind": "Eviction", "deleteOptions": options}, "userInfo": {"username": "me"},
            }))
        };
        for (options, uid, is_dry_run) in [
            (json!(null), None, false),
            (json!({"preconditions": {"uid": "x"}}), Some("x".to_owned()), false),
            (json!({"dryRun": ["All"]}), None, true),
        ] {
            let found = eviction(options);
            assert!(found.change == Change::Evict && found.object.is_none());
            assert_eq!((found.uid, found.is_dry_run), (uid, is_dry_run));
        }
        for (sub_resource, change) in [("", Change::Update), ("resize", Change::Resize)] {
            let pod = json!({"metadata": {"name": "web"}});
            let found = asked(json!({
                "uid": "u", "namespace": "a", "name": "web", "operation": "UPDATE", "subResource": sub_resource,
                "object": pod, "oldObject": pod, "userInfo": {"username": "me"},
            }));
            assert_eq!((found.change, found.new.is_some(), found.object.is_some()), (change, true, true));
        }
        assert!(look(b"{}").is_err());
    }
}
