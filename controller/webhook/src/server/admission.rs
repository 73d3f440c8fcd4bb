//! AdmissionReviews of our own kinds. They only refuse; what slips through (the failure policy is Ignore) is refused
//! by the controller, with a condition and an event.

use kube::core::Status;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Judge;
use crate::kinds;

/// An AdmissionReview on its way in; of the request only what validation looks at.
#[derive(Deserialize)]
struct Review {
    request: Request,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    uid: String,
    resource: Resource,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    object: Option<Value>,
    #[serde(default)]
    old_object: Option<Value>,
}

#[derive(Deserialize)]
struct Resource {
    resource: String,
}

/// An AdmissionReview on its way out.
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
}

/// Answers an AdmissionReview.
///
/// # Errors
/// When the text is no AdmissionReview with a request.
pub async fn review(body: &[u8], judge: &Judge) -> Result<Vec<u8>, serde_json::Error> {
    let Review { request } = serde_json::from_slice(body)?;
    let status =
        verdict(&request, judge).await.err().map(|message| Status::failure(&message, "Invalid").with_code(422));
    let response = Response { uid: request.uid, allowed: status.is_none(), status };
    serde_json::to_vec(&Answer { api_version: "admission.k8s.io/v1", kind: "AdmissionReview", response })
}

async fn verdict(request: &Request, judge: &Judge) -> Result<(), String> {
    // Of a deletion there is no object, and nothing to look at.
    let Some(object) = &request.object else { return Ok(()) };
    let resource = &request.resource.resource;
    if let Some(why) = judge.closed.get(resource.as_str()).filter(|_| kinds::asks(object, request.old_object.as_ref()))
    {
        return Err(why.clone());
    }
    kinds::readable(resource, object)?;
    kinds::faultless(object, request.old_object.as_ref())?;
    match kinds::template_to_judge(resource, object, request.old_object.as_ref()) {
        Some(template) => kinds::judge_template(&judge.client, &request.namespace, &template).await,
        None => Ok(()),
    }
}
