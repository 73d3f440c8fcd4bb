//! The parts that entries of the pod webhook share.

use berth_api::names::label::NAMESPACE_NAME;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;

/// The webhook is never called for pods in namespaces with this label, which is OpenKruise's own.
pub const UNTOUCHED: (&str, &str) = ("control-plane", "openkruise");

/// How long the apiserver waits for an answer, in seconds.
pub(super) const TIMEOUT: i32 = 2;

/// The most bytes of names in one entry: the apiserver compiles no longer expression than 100,000
/// characters.
pub(super) const MOST_BYTES: usize = 60_000;

/// The rule of all entries.
pub(super) fn pods_created() -> Value {
    json!({
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"], "scope": "Namespaced",
    })
}

/// The stores are not complete yet, so there is no answer about the pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this replica has not read all {0} yet")]
pub struct NotYet(pub &'static str);

/// Selects all namespaces except the protected ones and those with the label [`UNTOUCHED`].
pub(super) fn none_of(protected: &BTreeSet<String>) -> Vec<Value> {
    let named = json!({"key": NAMESPACE_NAME, "operator": "NotIn", "values": protected});
    let labelled = json!({"key": UNTOUCHED.0, "operator": "NotIn", "values": [UNTOUCHED.1]});
    (!protected.is_empty())
        .then_some(named)
        .into_iter()
        .chain([labelled])
        .collect()
}

/// A short hash of an entry's selector of namespaces, which is part of the entry's name.
pub(super) fn hash(selector: &Value) -> String {
    let hash = Sha256::digest(selector.to_string());
    hash.iter()
        .take(4)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// A mirror pod must not be changed: it only shows a pod that a kubelet runs anyway.
pub(super) const IS_NO_MIRROR: &str =
    "!('kubernetes.io/config.mirror' in object.metadata.?annotations.orValue({}))";
