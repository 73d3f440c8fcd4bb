//! Whether the apiserver asks before pods of a budget are taken out of service, and about what.

use berth_api::names::condition::ENFORCED;
use berth_api::v1beta1::podunavailablebudget::ProtectedOperation;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::feature_gates::{Gate, Gates};
use crate::objects::condition::condition;

/// The reason where it asks about a part.
const IN_PART: &str = "AskedInPart";
/// The reason where calls fail.
const UNANSWERED: &str = "NotAnswered";
/// Stands before what is missing.
const BUT: &str = ", but ";

/// Whether the apiserver asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// About all that the budget protects pods from.
    Always,
    /// Not about all: what is missing, and the remedy.
    InPart(String),
    /// About all, and the calls fail: why, and the remedy.
    Unanswered(String),
    /// About nothing: why, and the remedy.
    Never(String),
}

impl Asked {
    /// About what of these operations it asks, where it asks about the namespace. None where nobody knows which they are: then all are
    /// refused.
    pub fn of(operations: &[ProtectedOperation], gates: Gates) -> Self {
        let operations: &[ProtectedOperation] = if operations.is_empty() {
            &ProtectedOperation::ALL
        } else {
            operations
        };
        let is_missing = |operation: &&ProtectedOperation| !is_asked_about(**operation, gates);
        let missing: Vec<_> = operations.iter().filter(is_missing).collect();
        let by_gate = [
            (false, "PodUnavailableBudgetDeleteGate"),
            (true, "PodUnavailableBudgetUpdateGate"),
        ];
        let told = by_gate.into_iter().filter_map(|(is_change, gate)| {
            let names = missing
                .iter()
                .filter(|missing| missing.is_change() == is_change);
            let names: Vec<_> = names.map(|missing| missing.name()).collect();
            (!names.is_empty())
                .then(|| format!("about {}: turn on feature gate {gate}", names.join(", ")))
        });
        let told = told.collect::<Vec<_>>().join("; nor ");
        if missing.len() == operations.len() {
            return Self::Never(format!("nobody is asked {told}"));
        }
        if !gates.has(Gate::PodWebhook) {
            return Self::Never("feature gate PodWebhook is off: turn it on".to_owned());
        }
        if missing.is_empty() {
            Self::Always
        } else {
            Self::InPart(format!("nobody is asked {told}"))
        }
    }

    /// As a condition has told it.
    pub fn told<'a>(conditions: impl IntoIterator<Item = &'a Condition>) -> Self {
        let told = conditions.into_iter().find(|told| told.type_ == ENFORCED);
        match told.map(|told| (&*told.status, &*told.reason, &told.message)) {
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

    /// What nobody is asked about, in words.
    pub fn missing(&self) -> Option<String> {
        match self {
            Self::Always => None,
            Self::InPart(message) => Some(format!("not everybody is refused: {message}")),
            Self::Unanswered(why) => Some(format!("the apiserver gets no answer: {why}")),
            Self::Never(why) => Some(format!("nobody is refused: {why}")),
        }
    }

    /// The condition that says it.
    pub fn condition(&self, now: Timestamp) -> Condition {
        let asks = "the apiserver asks before a pod is taken out of service";
        let (is_enforced, reason, message) = match self {
            Self::Always => (true, "Asked", asks.to_owned()),
            Self::InPart(message) => (true, IN_PART, format!("{asks}{BUT}{message}")),
            Self::Unanswered(why) => (false, UNANSWERED, why.clone()),
            Self::Never(why) => (false, "NotAsked", why.clone()),
        };
        condition(ENFORCED, is_enforced, reason, message, now)
    }
}

/// Whether budgets are asked about this, where the apiserver asks at all.
pub fn is_asked_about(operation: ProtectedOperation, gates: Gates) -> bool {
    gates.has(if operation.is_change() {
        Gate::PodUnavailableBudgetUpdate
    } else {
        Gate::PodUnavailableBudgetDelete
    })
}

#[cfg(test)]
mod tests;
