//! What entries of the pod webhook share.

use berth_api::names::label::NAMESPACE_NAME;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;

/// Whoever labels a namespace with this is called for by nobody: the peer's own mark.
pub const UNTOUCHED: (&str, &str) = ("control-plane", "openkruise");

/// How long the apiserver waits for an answer, in seconds.
pub(super) const TIMEOUT: i32 = 2;

/// The most bytes of names in one entry: the apiserver compiles no longer expression than 100,000 characters.
pub(super) const MOST_BYTES: usize = 60_000;

/// What all entries are about.
pub(super) fn pods_created() -> Value {
    json!({
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"], "scope": "Namespaced",
    })
}

/// What is known is not complete yet, so nothing can be said of the pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this replica has not read all {0} yet")]
pub struct NotYet(pub &'static str);

/// Selects all namespaces but the protected ones and those whose label says so.
pub(super) fn none_of(protected: &BTreeSet<String>) -> Vec<Value> {
    let named = json!({"key": NAMESPACE_NAME, "operator": "NotIn", "values": protected});
    let labelled = json!({"key": UNTOUCHED.0, "operator": "NotIn", "values": [UNTOUCHED.1]});
    (!protected.is_empty())
        .then_some(named)
        .into_iter()
        .chain([labelled])
        .collect()
}

/// A few letters by which the name of an entry tells its selector of namespaces.
pub(super) fn hash(selector: &Value) -> String {
    let hash = Sha256::digest(selector.to_string());
    hash.iter()
        .take(4)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Nobody changes a mirror pod: it is what a kubelet runs anyway.
pub(super) const IS_NO_MIRROR: &str =
    "!('kubernetes.io/config.mirror' in object.metadata.?annotations.orValue({}))";
