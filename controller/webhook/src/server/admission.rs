//! AdmissionReviews of our own kinds. They only refuse; what slips through (the failure policy is Ignore) is refused
//! by the controller, with a condition and an event.

use serde::{Deserialize, Serialize};
use serde_json::Value;

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
    object: Option<Value>,
    #[serde(default)]
    old_object: Option<Value>,
}

#[derive(Deserialize)]
struct Resource {
    version: String,
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
    status: Option<kube::core::Status>,
}

/// Answers an AdmissionReview.
///
/// # Errors
/// When the text is no AdmissionReview with a request.
pub(super) fn review(body: &[u8]) -> Result<Vec<u8>, serde_json::Error> {
    let Review { request } = serde_json::from_slice(body)?;
    let Request { uid, resource, object, old_object } = request;
    let verdict = match &object {
        // A deletion: nothing to look at.
        None => Ok(()),
        Some(object) => kinds::validate(&resource.resource, &resource.version, object, old_object.as_ref()),
    };
    let status = verdict.err().map(|message| kube::core::Status::failure(&message, "Invalid").with_code(422));
    let response = Response { uid, allowed: status.is_none(), status };
    serde_json::to_vec(&Answer { api_version: "admission.k8s.io/v1", kind: "AdmissionReview", response })
}
