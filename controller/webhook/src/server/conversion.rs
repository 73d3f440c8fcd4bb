//! ConversionReviews: every object of a review in the version that it asks for, or the reason why not.

use kube::core::Status;
use kube::core::conversion::{ConversionRequest, ConversionResponse, ConversionReview};
use serde_json::Value;

use crate::kinds;

/// Answers a ConversionReview.
///
/// # Errors
/// When the text is no ConversionReview with a request.
pub fn review(body: &[u8]) -> Result<Vec<u8>, serde_json::Error> {
    let review: ConversionReview = serde_json::from_slice(body)?;
    let mut request = ConversionRequest::from_review(review).map_err(serde::de::Error::custom)?;
    let objects = std::mem::take(&mut request.objects);
    let desired = request.desired_api_version.clone();
    let response = ConversionResponse::for_request(request);
    let converted: Result<Vec<Value>, String> = objects.into_iter().map(|object| convert(object, &desired)).collect();
    let response = match converted {
        Ok(objects) => response.success(objects),
        Err(message) => {
            tracing::warn!(desired, message, "an object cannot be converted");
            response.failure(Status::failure(&message, "Invalid"))
        }
    };
    serde_json::to_vec(&response.into_review())
}

fn convert(object: Value, desired: &str) -> Result<Value, String> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (kind, namespace, name) = (text("/kind"), text("/metadata/namespace"), text("/metadata/name"));
    kinds::convert(object, desired).map_err(|error| {
        let separator = if namespace.is_empty() { "" } else { "/" };
        format!("{kind} {namespace}{separator}{name} cannot be converted to {desired}: {error}")
    })
}
