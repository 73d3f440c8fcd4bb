//! ContainerRecreateRequests of any author: the answer to their creation contains the fields that
//! they copy from their pods.

use berth_api::kinds::CONTAINER_RECREATE_REQUEST;
use serde_json::{Value, json};

use super::entry::TIMEOUT;
use crate::endpoint::Endpoint;

/// The first part of the path of the handler. Only the apiserver knows the last part, because the
/// answers contain fields of a pod.
pub const RECREATE_PATH: &str = "/fill-recreate-request";

/// The entry. If no replica answers, the controller fills the request in later.
pub(super) fn webhook(endpoint: &Endpoint, trust: (&str, &str)) -> Value {
    let kind = CONTAINER_RECREATE_REQUEST;
    let versions: Vec<_> = kind.versions().map(|version| version.name()).collect();
    json!({
        "name": format!("{}.{}", kind.plural, kind.group), "admissionReviewVersions": ["v1"],
        "sideEffects": "None", "failurePolicy": "Ignore", "timeoutSeconds": TIMEOUT, "matchPolicy": "Exact",
        "reinvocationPolicy": "Never",
        "rules": [{
            "apiGroups": [kind.group], "apiVersions": versions, "operations": ["CREATE"], "resources": [kind.plural],
            "scope": "Namespaced",
        }],
        "clientConfig": endpoint.secret_client_config(RECREATE_PATH, trust),
    })
}

#[cfg(test)]
mod tests;
