//! ContainerRecreateRequests, of whomever: what they copy from their pods is in the answer to their creation already.

use berth_api::kinds::CONTAINER_RECREATE_REQUEST;
use serde_json::{Value, json};

use super::entry::TIMEOUT;
use crate::endpoint::Endpoint;

/// What the path of the handler begins with. How it ends, the apiserver alone is told: the answers tell what a pod is.
pub const RECREATE_PATH: &str = "/fill-recreate-request";

/// The entry. Where nobody answers, the controller fills a request in later.
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
