//! The pod webhook: for which pods the apiserver calls it, and what it does with a pod.
//!
//! It is called for no pod unless a kind asks for it. The rules of all kinds become entries of the
//! MutatingWebhookConfiguration of the chart, which the leader writes.

mod added;
mod disruptions;
mod entry;
mod labels;
pub mod missing;
mod pins;
pub(crate) mod pod_webhook;
mod readiness_gate;
mod requests;
mod sidecars;

use k8s_openapi::api::admissionregistration::v1::{MutatingWebhook, ValidatingWebhook};
use serde::Serialize;
use serde_json::{Value, json};

use crate::endpoint::Endpoint;

pub use added::Added;
pub use disruptions::{
    Budgets, Change, Changed, DISRUPT_PATH, DISRUPTIONS, Disruption, Disruptions, EVICT_PATH,
};
pub use entry::{NotYet, UNTOUCHED};
pub use pins::{PIN_PATH, PinnedWorkload, Records, Scope};
pub use readiness_gate::{GATE_PATH, ReadinessGate};
pub use requests::RECREATE_PATH;
pub use sidecars::{
    INJECT_PATH, Injected, Injector, Labels, Lacks, PROBE, SidecarRequest, Sidecars,
    applied_warning, left_out_warning, says_applied, says_left_out,
};

/// The MutatingWebhookConfiguration of the chart.
pub const MUTATING: &str = "kruise-mutating-webhook-configuration";

/// For which pods the webhook is called: the rules of all kinds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asks {
    /// Pods that are to run on the node of an earlier pod.
    pub pins: Scope,
    /// Pods that get further containers.
    pub sidecars: Sidecars,
    /// Pods that get a readiness gate.
    pub readiness_gate: ReadinessGate,
    /// ContainerRecreateRequests, which copy fields of their pods.
    pub requests: bool,
    /// Pods that are deleted or evicted.
    pub disruptions: Disruptions,
}

impl Asks {
    /// The intersection of the two.
    pub(crate) fn within(self, other: &Self) -> Self {
        Self {
            pins: self.pins.within(&other.pins),
            sidecars: self.sidecars.within(&other.sidecars),
            readiness_gate: self.readiness_gate.within(&other.readiness_gate),
            requests: self.requests && other.requests,
            disruptions: self.disruptions.within(&other.disruptions),
        }
    }

    /// The entries, complete.
    fn webhooks(&self, endpoint: &Endpoint, trust: (&str, &str)) -> Vec<Value> {
        let mut all = self.pins.webhooks(endpoint, trust);
        all.extend(self.sidecars.webhooks(endpoint, trust));
        all.extend(self.readiness_gate.webhook(endpoint, trust));
        all.extend(self.requests.then(|| requests::webhook(endpoint, trust)));
        all.extend(self.disruptions.binding(endpoint, trust));
        all
    }

    /// The entries for pods that are taken out of service, complete.
    fn validating(&self, endpoint: &Endpoint, trust: (&str, &str)) -> Vec<Value> {
        self.disruptions.webhooks(endpoint, trust)
    }

    /// The merge patch of the MutatingWebhookConfiguration, if its webhooks differ: with this
    /// bundle, and the paths of this seed.
    pub(crate) fn patch(
        &self,
        found: &[MutatingWebhook],
        endpoint: &Endpoint,
        trust: (&str, &str),
    ) -> Option<Value> {
        patch(&written(found), self.webhooks(endpoint, trust))
    }

    /// The merge patch of the ValidatingWebhookConfiguration [`DISRUPTIONS`], if its webhooks
    /// differ.
    pub(crate) fn patch_validating(
        &self,
        found: &[ValidatingWebhook],
        endpoint: &Endpoint,
        trust: (&str, &str),
    ) -> Option<Value> {
        patch(&written(found), self.validating(endpoint, trust))
    }
}

fn written<T: Serialize>(found: &[T]) -> Vec<Value> {
    found
        .iter()
        .filter_map(|found| serde_json::to_value(found).ok())
        .collect()
}

fn patch(found: &[Value], mut wanted: Vec<Value>) -> Option<Value> {
    for wanted in &mut wanted {
        let same = found.iter().find(|found| found["name"] == wanted["name"]);
        same.into_iter()
            .for_each(|found| sidecars::keep_added(found, wanted));
    }
    let is_as_wanted = found.len() == wanted.len()
        && found
            .iter()
            .zip(&wanted)
            .all(|(found, wanted)| has_all(found, wanted));
    (!is_as_wanted).then(|| json!({"webhooks": wanted}))
}

/// Has the object all wanted fields? It may have more: the server adds defaults.
fn has_all(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => wanted
            .iter()
            .all(|(key, wanted)| has_all(found.get(key).unwrap_or(&Value::Null), wanted)),
        (Value::Array(found), Value::Array(wanted)) => {
            found.len() == wanted.len()
                && found
                    .iter()
                    .zip(wanted)
                    .all(|(found, wanted)| has_all(found, wanted))
        }
        _ => found == wanted,
    }
}

#[cfg(test)]
mod tests;
