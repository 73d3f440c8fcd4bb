//! The text about a budget and those of its federation: their pods, and the users of their
//! capacity.

use berth_api::names::condition::BLOCKED;
use berth_api::v1alpha1::distributedpoddisruptionbudget::FederatedStatus;
use berth_workload::budget::count::Unknown;
use berth_workload::budget::ledger::users;
use berth_workload::budget::{Fault, Rules, floor};
use berth_workload::plan::Waiting;
use jiff::Timestamp;

use super::status::{place, reported_sharing, sharing};
use super::{Snapshot, status};

/// How many pods there are and must be, and the contribution of each budget of the federation; then
/// each pod that uses the budget, with time and user.
pub fn explain(snapshot: &Snapshot, now: Timestamp) -> Vec<Waiting> {
    let of_all = |reason: String| Waiting {
        pod: String::new(),
        reason,
    };
    let rules = match Rules::of_distributed(&snapshot.budget.spec) {
        Ok(rules) => rules,
        Err(Fault { field, message }) => {
            return vec![of_all(format!(
                "{field} {message}; until then its pods are refused"
            ))];
        }
    };
    if let Err(Unknown { message }) = snapshot.view.expected_by(&rules) {
        return vec![of_all(format!(
            "its pods are refused, for how many are expected is not known: {message}"
        ))];
    }
    let next = status(snapshot, now);
    let (healthy, own, amount) = (next.current_healthy, next.own.healthy, rules.amount.words());
    let unknown = next
        .conditions
        .iter()
        .find(|condition| condition.type_ == BLOCKED)
        .map(|condition| &condition.message);
    let mut lines = vec![of_all(match unknown {
        Some(why) => format!(
            "{healthy} pods are healthy, {own} of them its own; its pods are refused: {why}"
        ),
        None => format!(
            "{healthy} of {} pods are healthy, {own} of them its own; {} must be ({amount}): {} of its own may go",
            next.expected_pods, next.desired_healthy, next.disruptions_allowed
        ),
    })];
    let brought = next.federated_statuses.iter().map(brings);
    lines.extend(brought.map(of_all));
    // Only a running controller reads budgets of other clusters.
    let mut shared = sharing(snapshot, &next.federated_statuses);
    if shared.is_empty() {
        shared = reported_sharing(snapshot);
    }
    lines.extend(shared.into_iter().map(of_all));
    let floor = floor::binding(&snapshot.budget);
    if floor > 0 {
        lines.push(of_all(format!(
            "{floor} of its own never go, for other clusters may count on them"
        )));
    }
    lines.extend(snapshot.webhook_calls.missing().map(of_all));
    if let Err(without) = &snapshot.keeps {
        lines.push(of_all(without.message(
            snapshot.budget.metadata.name.as_deref().unwrap_or_default(),
        )));
    }
    lines.extend(users(next.ledger.as_ref()));
    lines
}

/// The text about the contribution of another budget.
fn brings(other: &FederatedStatus) -> String {
    let name = format!("{} {}", other.kind, place(other));
    let name = name.trim();
    let shared = if other.shared > 0 {
        format!(", without {} counted already", other.shared)
    } else {
        String::new()
    };
    let (healthy, expected) = (other.healthy, other.expected);
    if other.reachable {
        return format!("{name} brings {healthy} of {expected} pods{shared}");
    }
    let brings = if healthy > 0 {
        format!("{healthy} at least")
    } else {
        "none".to_owned()
    };
    format!("{name} brings {brings}{shared}: it {}", other.message)
}
