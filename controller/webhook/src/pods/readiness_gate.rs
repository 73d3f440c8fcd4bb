//! All new pods, of any author, get the readiness gate `KruisePodReady`. By it several writers may
//! take a pod out of service.

use std::collections::BTreeSet;

use berth_api::names::condition::KRUISE_POD_READY;
use serde_json::{Value, json};

use super::entry::{IS_NO_MIRROR, TIMEOUT, hash, none_of, pods_created};
use crate::endpoint::Endpoint;

/// The first part of the path of the handler. Only the apiserver knows the last part, because the
/// answers contain data of SidecarSets.
pub const GATE_PATH: &str = "/gate-readiness";
/// The first part of the name of the entry.
pub(super) const NAME: &str = "readiness-gate-";

/// Whether new pods get the gate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadinessGate {
    /// Namespaces whose pods are left alone; `None` if no pod gets the readiness gate.
    but_in: Option<BTreeSet<String>>,
}

impl ReadinessGate {
    /// For all pods except those of the protected namespaces.
    pub fn of_all_but(protected: BTreeSet<String>) -> Self {
        Self {
            but_in: Some(protected),
        }
    }

    /// The intersection of the two.
    pub(super) fn within(self, other: &Self) -> Self {
        if other.but_in.is_some() {
            self
        } else {
            Self::default()
        }
    }

    /// The entry. The webhook is not called for pods that have the readiness gate already, such as
    /// pods of our workloads.
    pub(super) fn webhook(&self, endpoint: &Endpoint, trust: (&str, &str)) -> Option<Value> {
        let namespaces = json!({"matchExpressions": none_of(self.but_in.as_ref()?)});
        let lacks_gate = format!(
            "!object.spec.?readinessGates.orValue([]).exists(gate, gate.?conditionType.orValue('') == '{KRUISE_POD_READY}')"
        );
        Some(json!({
            "name": format!("{NAME}{}.pods.kruise.io", hash(&namespaces)), "admissionReviewVersions": ["v1"],
            "sideEffects": "None", "failurePolicy": "Ignore", "timeoutSeconds": TIMEOUT, "matchPolicy": "Exact",
            "reinvocationPolicy": "Never", "namespaceSelector": namespaces, "rules": [pods_created()],
            "clientConfig": endpoint.secret_client_config(GATE_PATH, trust),
            "matchConditions": [
                {"name": "is-no-mirror-pod", "expression": IS_NO_MIRROR},
                {"name": "lacks-the-gate", "expression": lacks_gate},
            ],
        }))
    }
}

#[cfg(test)]
mod tests;
