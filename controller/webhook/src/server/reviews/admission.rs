//! AdmissionReviews of our own kinds. They only refuse. The failure policy is Ignore: an object
//! that was never reviewed is refused by the controller, with a condition and an event.

use std::time::Duration;

use berth_api::weight::without_managed_fields;
use kube::core::Status;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::kinds;
use crate::server::judge::Judge;

/// How often faults that depend on other objects are checked again before the refusal, and the time
/// between two checks.
const LOOKS: u32 = 10;
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// An incoming AdmissionReview, with the parts of the request that validation reads.
#[derive(Deserialize)]
struct Review<'a> {
    #[serde(borrow)]
    request: Request<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    uid: String,
    resource: Resource,
    #[serde(default)]
    namespace: String,
    #[serde(borrow, default)]
    object: Option<&'a RawValue>,
    #[serde(borrow, default)]
    old_object: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Resource {
    resource: String,
}

/// An outgoing AdmissionReview.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    api_version: &'static str,
    kind: &'static str,
    response: Response,
}

#[derive(Serialize)]
struct Response {
    uid: String,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

/// The client that sends the review.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asker {
    /// The apiserver, by the path that only it knows. It sends the review of an object that a user
    /// writes.
    Apiserver,
    /// Any client that reaches the port. It can claim any namespace for the object, so its answer
    /// contains nothing of other objects.
    Anybody,
}

/// The result of the check that needs no call.
pub(crate) enum Look<Q> {
    /// An outgoing AdmissionReview.
    Answer(Vec<u8>),
    /// Only the apiserver can answer.
    Asks(Q),
}

impl<Q> Look<Q> {
    /// Maps the kind of question.
    pub(in crate::server) fn map<R>(self, question: impl FnOnce(Q) -> R) -> Look<R> {
        match self {
            Self::Answer(answer) => Look::Answer(answer),
            Self::Asks(asks) => Look::Asks(question(asks)),
        }
    }
}

/// The open questions about an object that has no fault of its own.
pub(crate) struct Question {
    uid: String,
    namespace: String,
    /// A question for the apiserver.
    template: Option<kinds::Template>,
    beside: Option<Beside>,
}

/// A SidecarSet with faults that depend on other objects, as far as those are known. If an author
/// makes two objects at once and one names the other, the review may come before this replica sees
/// the first.
struct Beside {
    set: String,
    old: Option<String>,
    faults: Vec<String>,
}

/// Answers an AdmissionReview from the apiserver.
///
/// # Errors
/// When the text is no AdmissionReview with a request.
pub async fn review(body: &[u8], judge: &Judge) -> Result<Vec<u8>, serde_json::Error> {
    match look(body, judge, Asker::Apiserver)? {
        Look::Answer(answer) => Ok(answer),
        Look::Asks(question) => question.answer(judge).await,
    }
}

/// Does the part that takes a processor and no waiting.
///
/// # Errors
/// When the text is no AdmissionReview with a request.
pub(crate) fn look(
    body: &[u8],
    judge: &Judge,
    asker: Asker,
) -> Result<Look<Question>, serde_json::Error> {
    let Review { request }: Review<'_> = serde_json::from_slice(body)?;
    let (refusal, warnings) = match decision(&request, judge, asker) {
        Ok((None, None)) if asker == Asker::Apiserver => (None, beside(&request, judge)),
        Ok((None, None)) => (None, Vec::new()),
        Ok((template, beside)) => {
            let Request { uid, namespace, .. } = request;
            return Ok(Look::Asks(Question {
                uid,
                namespace,
                template,
                beside,
            }));
        }
        Err(message) => (Some(message), Vec::new()),
    };
    answer(request.uid, refusal, warnings).map(Look::Answer)
}

/// Warnings with which an object is accepted: budgets that may hold the same pods, and fields that
/// do not count.
fn beside(request: &Request<'_>, judge: &Judge) -> Vec<String> {
    let budgets = judge
        .budgets
        .as_ref()
        .filter(|_| request.old_object.is_none());
    let object = request.object.map(RawValue::get);
    let overlaps = budgets
        .zip(object)
        .and_then(|(budgets, object)| budgets.beside(&request.resource.resource, object));
    let ignored = object.map(|object| kinds::warnings_about(&request.resource.resource, object));
    overlaps
        .into_iter()
        .chain(ignored.into_iter().flatten())
        .collect()
}

impl Beside {
    /// `None` if it has no such faults.
    fn of(set: &str, old: Option<&str>, judge: &Judge) -> Option<Self> {
        let faults = judge.injector.as_ref()?.faults(set, old);
        (!faults.is_empty()).then(|| Self {
            set: set.to_owned(),
            old: old.map(str::to_owned),
            faults,
        })
    }

    /// The faults that remain after a short wait, in which this replica may see objects that were
    /// made before.
    async fn faults_that_stay(self, judge: &Judge) -> Vec<String> {
        let Some(injector) = &judge.injector else {
            return self.faults;
        };
        let mut faults = self.faults;
        for _ in 0..LOOKS {
            if faults.is_empty() {
                break;
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
            faults = injector.faults(&self.set, self.old.as_deref());
        }
        faults
    }
}

impl Question {
    /// The namespace of the review.
    pub(in crate::server) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The answer without asking the question.
    ///
    /// # Errors
    /// None that a review could cause.
    pub(crate) fn overloaded(self) -> Result<Vec<u8>, serde_json::Error> {
        answer(
            self.uid,
            self.beside.map(|beside| beside.faults.join("; ")),
            Vec::new(),
        )
    }

    /// Asks the question and answers the review.
    pub(crate) async fn answer(self, judge: &Judge) -> Result<Vec<u8>, serde_json::Error> {
        if let Some(beside) = self.beside {
            let faults = beside.faults_that_stay(judge).await;
            if !faults.is_empty() {
                return answer(self.uid, Some(faults.join("; ")), Vec::new());
            }
        }
        let Some(template) = self.template else {
            return answer(self.uid, None, Vec::new());
        };
        match kinds::judge_template(&judge.client, &self.namespace, &template).await {
            Ok(warnings) => answer(self.uid, None, warnings),
            Err(refusal) => answer(self.uid, Some(refusal), Vec::new()),
        }
    }
}

fn answer(
    uid: String,
    refusal: Option<String>,
    warnings: Vec<String>,
) -> Result<Vec<u8>, serde_json::Error> {
    let status = refusal.map(|message| Status::failure(&message, "Invalid").with_code(422));
    let response = Response {
        uid,
        allowed: status.is_none(),
        status,
        warnings,
    };
    serde_json::to_vec(&Answer {
        api_version: "admission.k8s.io/v1",
        kind: "AdmissionReview",
        response,
    })
}

/// The open questions: the template to be judged, and the faults that depend on other objects; or
/// why the object is refused.
fn decision(
    request: &Request<'_>,
    judge: &Judge,
    asker: Asker,
) -> Result<(Option<kinds::Template>, Option<Beside>), String> {
    // A deletion has no object to check.
    let Some(object) = request.object.map(RawValue::get) else {
        return Ok((None, None));
    };
    let old = request.old_object.map(RawValue::get);
    let resource = &request.resource.resource;
    let asks = kinds::asks(object, old);
    if let Some(why) = judge.closed.get(resource.as_str()).filter(|_| asks) {
        return Err(why.clone());
    }
    let object = without_managed_fields(object);
    if let Err(why) = kinds::bounded(resource, &object, judge.object_max_bytes) {
        // An object that was stored before may lose its finalizers.
        return if asks { Err(why) } else { Ok((None, None)) };
    }
    kinds::readable(resource, &object)?;
    // An old object that is too large is not read.
    let old = old.filter(|old| kinds::bounded(resource, old, judge.object_max_bytes).is_ok());
    kinds::faultless(&object, old)?;
    if let (Some(records), None, Asker::Apiserver) = (&judge.records, old, asker) {
        kinds::is_of_free_workload(&**records, resource, &request.namespace, &object)?;
    }
    let is_set = asks && *resource == berth_api::kinds::SIDECAR_SET.plural;
    let may_know = asker == Asker::Apiserver;
    let beside = (is_set && may_know)
        .then(|| Beside::of(&object, old, judge))
        .flatten();
    // The apiserver is called with our account, in the namespace that the review names. So a
    // stranger's review must not lead to a call.
    let template = may_know
        .then(|| kinds::template_to_judge(resource, &object, old))
        .flatten();
    Ok((template, beside))
}
