//! The text about a budget: its pods, and the users of its capacity.

use berth_workload::budget::count::Unknown;
use berth_workload::budget::ledger::users;
use berth_workload::budget::{Fault, Rules};
use berth_workload::plan::Waiting;
use jiff::Timestamp;

use super::Snapshot;
use super::status::{status, total_unknown};

/// How many pods it has and must keep; then each pod that uses the budget, with time and user.
pub fn explain(snapshot: &Snapshot, now: Timestamp) -> Vec<Waiting> {
    let of_all = |reason: String| Waiting {
        pod: String::new(),
        reason,
    };
    let rules = match Rules::of_budget(&snapshot.budget) {
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
    let surplus = next.current_available - next.total_replicas;
    let more = if surplus > 0 {
        format!(", {surplus} of them more than are expected")
    } else {
        String::new()
    };
    let mut lines = vec![of_all(format!(
        "{} of {} pods are available{more}, {} must be ({}): {} may go",
        next.current_available,
        next.total_replicas,
        next.desired_available,
        rules.amount.words(),
        next.unavailable_allowed
    ))];
    lines.extend(total_unknown(snapshot).map(of_all));
    lines.extend(snapshot.webhook_calls.missing().map(of_all));
    lines.extend(users(next.ledger.as_ref()));
    lines
}
