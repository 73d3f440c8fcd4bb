//! Whether the apiserver calls the webhook before pods of a budget are taken out of service, and
//! for which operations.

use berth_api::names::condition::ENFORCED;
use berth_api::v1beta1::podunavailablebudget::ProtectedOperation;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::feature_gates::{Gate, Gates};
use crate::objects::condition::condition;

/// The reason if the webhook is called only for some operations.
const IN_PART: &str = "AskedInPart";
/// The reason if calls of the webhook fail.
const UNANSWERED: &str = "NotAnswered";
/// Separates the first words of a message from the missing operations.
const BUT: &str = ", but ";
/// Precedes the operations for which the webhook is not called.
const NOT_CALLED: &str = "the apiserver does not call the webhook";

/// Whether the apiserver calls the webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebhookCalls {
    /// For all operations that the budget protects pods from.
    Always,
    /// For some operations only: the missing ones, and the remedy.
    InPart(String),
    /// For all, but the calls fail: the cause, and the remedy.
    Unanswered(String),
    /// For none: the cause, and the remedy.
    Never(String),
}

impl WebhookCalls {
    /// For which of these operations the apiserver calls the webhook in a namespace that the
    /// webhook covers. An empty list means that the budget's operations are unknown: then the
    /// webhook refuses all of them.
    pub fn of(operations: &[ProtectedOperation], gates: Gates) -> Self {
        let operations: &[ProtectedOperation] = if operations.is_empty() {
            &ProtectedOperation::ALL
        } else {
            operations
        };
        let is_missing = |operation: &&ProtectedOperation| !is_reviewed(**operation, gates);
        let missing: Vec<_> = operations.iter().filter(is_missing).collect();
        let by_gate = [
            (false, "PodUnavailableBudgetDeleteGate"),
            (true, "PodUnavailableBudgetUpdateGate"),
        ];
        let remedies = by_gate.into_iter().filter_map(|(is_change, gate)| {
            let names = missing
                .iter()
                .filter(|missing| missing.is_change() == is_change);
            let names: Vec<_> = names.map(|missing| missing.name()).collect();
            (!names.is_empty())
                .then(|| format!("for {}: turn on feature gate {gate}", names.join(", ")))
        });
        let remedies = remedies.collect::<Vec<_>>().join("; nor ");
        if missing.len() == operations.len() {
            return Self::Never(format!("{NOT_CALLED} {remedies}"));
        }
        if !gates.has(Gate::PodWebhook) {
            return Self::Never("feature gate PodWebhook is off: turn it on".to_owned());
        }
        if missing.is_empty() {
            Self::Always
        } else {
            Self::InPart(format!("{NOT_CALLED} {remedies}"))
        }
    }

    /// Reads the value from a condition.
    pub fn from_conditions<'a>(conditions: impl IntoIterator<Item = &'a Condition>) -> Self {
        let enforced = conditions
            .into_iter()
            .find(|enforced| enforced.type_ == ENFORCED);
        match enforced.map(|enforced| (&*enforced.status, &*enforced.reason, &enforced.message)) {
            Some(("False", UNANSWERED, message)) => Self::Unanswered(message.clone()),
            Some(("False", _, message)) => Self::Never(message.clone()),
            Some((_, IN_PART, message)) => Self::InPart(
                message
                    .split_once(BUT)
                    .map_or(&**message, |(_, missing)| missing)
                    .to_owned(),
            ),
            _ => Self::Always,
        }
    }

    /// A message about the operations for which the webhook is not called.
    pub fn missing(&self) -> Option<String> {
        match self {
            Self::Always => None,
            Self::InPart(message) => Some(format!(
                "the budget does not check every request: {message}"
            )),
            Self::Unanswered(why) => Some(format!("the apiserver gets no answer: {why}")),
            Self::Never(why) => Some(format!("the budget checks no request: {why}")),
        }
    }

    /// The condition `Enforced`.
    pub fn condition(&self, now: Timestamp) -> Condition {
        let asks = "the apiserver calls the webhook before a pod is taken out of service";
        let (is_enforced, reason, message) = match self {
            Self::Always => (true, "Asked", asks.to_owned()),
            Self::InPart(message) => (true, IN_PART, format!("{asks}{BUT}{message}")),
            Self::Unanswered(why) => (false, UNANSWERED, why.clone()),
            Self::Never(why) => (false, "NotAsked", why.clone()),
        };
        condition(ENFORCED, is_enforced, reason, message, now)
    }
}

/// Whether the webhook is called for an operation, if the apiserver calls it at all.
pub fn is_reviewed(operation: ProtectedOperation, gates: Gates) -> bool {
    gates.has(if operation.is_change() {
        Gate::PodUnavailableBudgetUpdate
    } else {
        Gate::PodUnavailableBudgetDelete
    })
}

#[cfg(test)]
mod tests;
