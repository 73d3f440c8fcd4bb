//! AdmissionReviews of pods that are deleted or evicted: the answer reserves from budgets, or says
//! which budget is used up.

use std::borrow::Cow;
use std::time::Duration;

use berth_api::weight::Limits;
use berth_workload::objects::pod::Pod;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::admission::Look;
use super::pod_review::Unanswered;
use crate::pods::{Change, Changed, Disruption, NotYet};
use crate::server::judge::Judge;

/// Shorter than the apiserver waits for an answer about a pod that is to go.
pub(in crate::server) const PATIENCE: Duration = Duration::from_secs(4);
/// The longest name of a user in a message.
const LONGEST_USER: usize = 256;

/// A review that only budgets can answer.
pub(in crate::server) struct Question {
    uid: String,
    disruption: Box<Disruption>,
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
    #[serde(borrow)]
    object: Option<&'a RawValue>,
    #[serde(borrow)]
    old_object: Option<&'a RawValue>,
}

/// The fields that name the object of a review.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Named {
    metadata: NameOf,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct NameOf {
    name: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct User {
    username: String,
    groups: Vec<String>,
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

/// Does the part that needs no waiting.
///
/// # Errors
/// The text is no AdmissionReview.
pub(in crate::server) fn look(body: &[u8]) -> Result<Look<Question>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Review<'a> {
        #[serde(borrow)]
        request: Request<'a>,
    }
    let Review { request } = serde_json::from_slice(body)?;
    let Request {
        uid,
        namespace,
        name,
        operation,
        sub_resource,
        dry_run,
        user_info,
        object,
        old_object,
    } = request;
    let change = match (&*operation, &*sub_resource) {
        ("DELETE", _) => Change::Delete,
        ("CREATE", _) => Change::Evict,
        (_, "resize") => Change::Resize,
        _ => Change::Update,
    };
    let is_eviction = change == Change::Evict;
    let options = options(object.filter(|_| is_eviction))?;
    let is_dry_run = dry_run || options.dry_run.is_some_and(|all| !all.is_empty());
    let new = object.filter(|_| !is_eviction);
    let object = old_object.map(|text| Pod::read(text.get()));
    let new =
        new.filter(|new| Limits::check_pod(new.get()).is_ok() && !matches!(object, Some(Err(_))));
    let new = new.map(|new| changed(old_object, new)).transpose()?;
    let mut user = user_info.username;
    user.truncate(user.floor_char_boundary(LONGEST_USER));
    let disruption = Disruption {
        namespace,
        pod: old_object.and_then(shown_name).unwrap_or(name),
        object,
        uid: options
            .preconditions
            .and_then(|preconditions| preconditions.uid),
        change,
        new,
        user,
        groups: user_info.groups,
        is_dry_run,
    };
    Ok(Look::Asks(Question {
        uid: uid.into_owned(),
        disruption: Box::new(disruption),
    }))
}

/// The options of an eviction.
fn options(eviction: Option<&RawValue>) -> Result<DeleteOptions, serde_json::Error> {
    let eviction = eviction.map(|text| serde_json::from_str::<Eviction>(text.get()));
    let options = eviction
        .transpose()?
        .and_then(|eviction| eviction.delete_options);
    Ok(options.unwrap_or_default())
}

/// The name in the object. The review of a pod that is deleted with a collection has the name only
/// there.
fn shown_name(object: &RawValue) -> Option<String> {
    let Named { metadata } = serde_json::from_str(object.get()).ok()?;
    Some(metadata.name).filter(|name| !name.is_empty())
}

/// The changes of an update. Both trees are dropped here, so that a review that waits for budgets
/// holds only a slim pod.
fn changed(old: Option<&RawValue>, new: &RawValue) -> Result<Changed, serde_json::Error> {
    let tree = |text: &RawValue| serde_json::from_str::<Value>(text.get());
    let old = old.map(tree).transpose()?.unwrap_or_default();
    Ok(Changed::of(&old, &tree(new)?))
}

impl Question {
    /// The namespace of the review.
    pub(in crate::server) fn namespace(&self) -> &str {
        &self.disruption.namespace
    }

    /// The answer from budgets, for a review that began to wait at `began`. If budgets do not
    /// answer in time and pods must stay then, the answer is the same as for a used-up budget.
    /// Otherwise the failure policy would refuse, and kubectl drain would not retry.
    ///
    /// # Errors
    /// Budgets do not answer in time, and the failure policy lets pods go.
    pub(in crate::server) async fn answer(
        self,
        judge: &Judge,
        began: Instant,
    ) -> Result<Vec<u8>, Unanswered> {
        let budgets = judge
            .budgets
            .as_ref()
            .ok_or(NotYet("PodUnavailableBudgets"))?;
        let fails_open = budgets.fails_open(&self.disruption);
        let reserved =
            tokio::time::timeout_at(began + PATIENCE, budgets.reserve_for(*self.disruption)).await;
        let refused = match reserved.unwrap_or(Err(NotYet("budgets in time"))) {
            Err(not_yet) if !fails_open => Some(format!(
                "{not_yet}, so the budgets of the pod cannot be checked: try again"
            )),
            reserved => reserved?,
        };
        Ok(answer(&self.uid, refused.as_deref())?)
    }

    /// The answer if too many other reviews wait.
    ///
    /// # Errors
    /// The failure policy lets pods go.
    pub(in crate::server) fn overloaded(self, judge: &Judge) -> Result<Vec<u8>, Unanswered> {
        let Disruption { namespace, pod, .. } = &*self.disruption;
        if judge
            .budgets
            .as_ref()
            .is_none_or(|budgets| budgets.fails_open(&self.disruption))
        {
            return Err(NotYet("budgets in time").into());
        }
        let refused = format!(
            "pod {namespace}/{pod} stays: too many requests of namespace {namespace} wait for its budgets: try again"
        );
        Ok(answer(&self.uid, Some(&refused))?)
    }
}

fn answer(uid: &str, refused: Option<&str>) -> Result<Vec<u8>, serde_json::Error> {
    let mut response = json!({"uid": uid, "allowed": refused.is_none()});
    if let Some(message) = refused {
        // kubectl drain retries this answer every five seconds, and gives up at any other. With a
        // time to wait, clients would sleep in silence.
        let causes = json!([{"reason": "DisruptionBudget", "message": message}]);
        response["status"] = json!({
            "status": "Failure", "code": 429, "reason": "TooManyRequests", "message": message, "details": {"causes": causes},
        });
    }
    serde_json::to_vec(
        &json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}),
    )
}

#[cfg(test)]
mod tests;
