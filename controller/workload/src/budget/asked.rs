//! Whether the apiserver asks before pods of a budget are taken out of service, and about what.

use berth_api::names::condition::ENFORCED;
use berth_api::v1beta1::podunavailablebudget::ProtectedOperation;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::condition::condition;
use crate::gates::{Gate, Gates};

/// The reason where it asks about a part.
const IN_PART: &str = "AskedInPart";
/// Stands before what is missing.
const BUT: &str = ", but ";

/// Whether the apiserver asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// About all that the budget protects pods from.
    Always,
    /// Not about all: what is missing, and the remedy.
    InPart(String),
    /// About nothing: why, and the remedy.
    Never(String),
}

impl Asked {
    /// About what of these operations it asks, where it asks about the namespace.
    pub fn of(operations: &[ProtectedOperation], gates: Gates) -> Self {
        for (gate, name) in
            [(Gate::PodWebhook, "PodWebhook"), (Gate::PodUnavailableBudgetDelete, "PodUnavailableBudgetDeleteGate")]
        {
            if !gates.has(gate) {
                return Self::Never(format!("feature gate {name} is off: turn it on"));
            }
        }
        let is_missing =
            |operation: &&ProtectedOperation| operation.is_change() && !gates.has(Gate::PodUnavailableBudgetUpdate);
        let missing: Vec<_> = operations.iter().filter(is_missing).map(|operation| operation.name()).collect();
        if missing.is_empty() {
            return Self::Always;
        }
        let message = format!(
            "nobody is asked about {}: turn on feature gate PodUnavailableBudgetUpdateGate",
            missing.join(", ")
        );
        if missing.len() == operations.len() { Self::Never(message) } else { Self::InPart(message) }
    }

    /// As a condition has told it.
    pub fn told<'a>(conditions: impl IntoIterator<Item = &'a Condition>) -> Self {
        let told = conditions.into_iter().find(|told| told.type_ == ENFORCED);
        match told.map(|told| (&*told.status, &*told.reason, &told.message)) {
            Some(("False", _, message)) => Self::Never(message.clone()),
            Some((_, IN_PART, message)) => {
                Self::InPart(message.split_once(BUT).map_or(&**message, |(_, missing)| missing).to_owned())
            }
            _ => Self::Always,
        }
    }

    /// What nobody is asked about, in words.
    pub fn missing(&self) -> Option<String> {
        match self {
            Self::Always => None,
            Self::InPart(message) => Some(format!("not everybody is refused: {message}")),
            Self::Never(why) => Some(format!("nobody is refused: {why}")),
        }
    }

    /// The condition that says it.
    pub fn condition(&self, now: Timestamp) -> Condition {
        let asks = "the apiserver asks before a pod is taken out of service";
        let (is_enforced, reason, message) = match self {
            Self::Always => (true, "Asked", asks.to_owned()),
            Self::InPart(message) => (true, IN_PART, format!("{asks}{BUT}{message}")),
            Self::Never(why) => (false, "NotAsked", why.clone()),
        };
        condition(ENFORCED, is_enforced, reason, message, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_says_which_of_its_operations_nobody_asks_about_and_which_gate_helps() {
        use ProtectedOperation::{Delete, Evict, Resize, Update};
        let with =
            |gates: &[(Gate, bool)]| gates.iter().fold(Gates::default(), |all, (gate, is_on)| all.with(*gate, *is_on));
        let updates = with(&[(Gate::PodUnavailableBudgetUpdate, true)]);
        let (webhook, deletes) =
            (with(&[(Gate::PodWebhook, false)]), with(&[(Gate::PodUnavailableBudgetDelete, false)]));
        for (operations, gates, expected) in [
            (vec![Delete, Evict], Gates::default(), ("True", "Asked", "the apiserver asks")),
            (vec![Delete, Update, Evict], updates, ("True", "Asked", "the apiserver asks")),
            (
                vec![Delete, Update, Evict],
                Gates::default(),
                ("True", "AskedInPart", "asked about UPDATE: turn on feature gate PodUnavailableBudgetUpdateGate"),
            ),
            (vec![Evict, Update, Resize], Gates::default(), ("True", "AskedInPart", "asked about UPDATE, RESIZE")),
            (
                vec![Update, Resize],
                Gates::default(),
                (
                    "False",
                    "NotAsked",
                    "asked about UPDATE, RESIZE: turn on feature gate PodUnavailableBudgetUpdateGate",
                ),
            ),
            (vec![Update], updates, ("True", "Asked", "the apiserver asks")),
            (vec![Delete], webhook, ("False", "NotAsked", "PodWebhook is off")),
            (vec![Delete], deletes, ("False", "NotAsked", "PodUnavailableBudgetDeleteGate is off")),
        ] {
            let asked = Asked::of(&operations, gates);
            let found = asked.condition(Timestamp::UNIX_EPOCH);
            assert_eq!(Asked::told([&found]), asked);
            let (status, reason, says) = expected;
            assert_eq!((&*found.status, &*found.reason), (status, reason), "{operations:?} {gates:?}");
            assert!(found.message.contains(says), "{}", found.message);
        }
    }
}
