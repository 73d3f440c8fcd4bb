//! AdmissionReviews of new pods: a pod that replaces another one is pinned to the place of that
//! pod.

use berth_api::weight::Limits;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::pod_review::{Answer, Unanswered, read};
use crate::pods::Records;

/// The fields of a pod that are read or changed.
#[derive(Serialize, Deserialize)]
struct Pod {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<Map<String, Value>>,
    #[serde(default)]
    owner_references: Value,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(skip_serializing_if = "Option::is_none")]
    node_selector: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    affinity: Option<Value>,
}

/// Answers an AdmissionReview of a new pod with the patch that pins it. A pod that is too large to
/// be read is not pinned.
///
/// # Errors
/// There is no answer to it, or none yet.
pub(crate) fn review(body: &[u8], records: &dyn Records) -> Result<Vec<u8>, Unanswered> {
    let request = read(body)?;
    let mut answer = Answer::to(&request.uid);
    if let Some(text) = request
        .object()
        .filter(|text| Limits::check_pod(text).is_ok())
    {
        let before = serde_json::to_value(serde_json::from_str::<Pod>(text)?)?;
        let mut after = before.clone();
        if records.pin(&request.namespace, &mut after)? {
            answer.change(&before, &after)?;
        }
    }
    Ok(answer.written()?)
}

#[cfg(test)]
mod tests;
