//! AdmissionReviews of new pods, of any author: they get the readiness gate `KruisePodReady`, and
//! with it their sidecars.

use berth_api::names::condition::KRUISE_POD_READY;
use berth_api::weight::Limits;
use serde_json::{Value, json};

use super::pod_review::{Answer, read};
use crate::pods::Injector;

/// Answers an AdmissionReview of a new pod with the patch that adds the readiness gate; and its
/// sidecars, if they are known. So a pod gets its sidecars although the apiserver does not yet call
/// for the pods of a new SidecarSet. Refusals are left to the injection's own entry. A pod that is
/// too large to be read stays as it is.
///
/// # Errors
/// The text is no AdmissionReview of a pod.
pub(crate) fn review(
    body: &[u8],
    injector: Option<&dyn Injector>,
) -> Result<Vec<u8>, serde_json::Error> {
    let request = read(body)?;
    let mut answer = Answer::to(&request.uid);
    let text = request
        .object()
        .filter(|text| Limits::check_pod(text).is_ok());
    let pod = text.map(serde_json::from_str::<Value>).transpose()?;
    if let Some(pod) = pod.filter(|pod| pod["spec"].is_object()) {
        let injected =
            injector.and_then(|injector| injector.inject_ahead(&request.namespace, &pod));
        let mut gated = injected.unwrap_or_else(|| pod.clone());
        if add_gate(&mut gated["spec"]["readinessGates"]) || gated != pod {
            answer.change(&pod, &gated)?;
        }
    }
    answer.written()
}

/// Adds the readiness gate to a list, or makes one; `false` if it is there already.
fn add_gate(gates: &mut Value) -> bool {
    let ours = json!({"conditionType": KRUISE_POD_READY});
    match gates {
        Value::Array(gates)
            if gates
                .iter()
                .any(|gate| gate["conditionType"] == KRUISE_POD_READY) =>
        {
            false
        }
        Value::Array(gates) => {
            gates.push(ours);
            true
        }
        none => {
            *none = json!([ours]);
            true
        }
    }
}

#[cfg(test)]
mod tests;
