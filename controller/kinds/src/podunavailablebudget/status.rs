//! The numbers of the status, and the entries that stay in the ledger.

use berth_api::names::condition::{BLOCKED, CHILD_PDB, ENFORCED, TOTAL_KNOWN};
use berth_api::v1beta1::podunavailablebudget::PodUnavailableBudgetStatus;
use berth_workload::budget::child::{self, Without};
use berth_workload::budget::count::{Expected, Unknown};
use berth_workload::budget::ledger::{
    name_pods, note_counted, note_settled, set_numbers, unless_only_its_view,
};
use berth_workload::budget::webhook_calls::WebhookCalls;
use berth_workload::budget::{Fault, Rules};
use berth_workload::objects::condition::{condition, put, set};
use jiff::Timestamp;

use super::{NO_PODS, Snapshot, UNCOUNTED};

/// The status to write. It equals the budget's present status if nothing changed.
pub fn status(snapshot: &Snapshot, now: Timestamp) -> PodUnavailableBudgetStatus {
    let mut next = snapshot.budget.status.clone().unwrap_or_default();
    next.observed_generation = snapshot.budget.metadata.generation.unwrap_or_default();
    let counted = count(snapshot, &mut next, now);
    if counted.is_err() {
        // No caller may reserve from the budget while its numbers are unknown.
        next.unavailable_allowed = 0;
    }
    name_pods(&mut next);
    let blocked = counted
        .err()
        .map(|(reason, message)| condition(BLOCKED, true, reason, message, now));
    put(&mut next.conditions, BLOCKED, blocked);
    let unknown = total_unknown(snapshot)
        .map(|message| condition(TOTAL_KNOWN, false, "PodsCounted", message, now));
    put(&mut next.conditions, TOTAL_KNOWN, unknown);
    let is_counted = next
        .ledger
        .as_ref()
        .is_some_and(|ledger| !ledger.counted.is_empty());
    let enforced = match &snapshot.webhook_calls {
        WebhookCalls::Always | WebhookCalls::InPart(_)
            if next.total_replicas == 0 && is_counted =>
        {
            condition(
                ENFORCED,
                true,
                NO_PODS,
                "no pods are expected".to_owned(),
                now,
            )
        }
        calls => calls.condition(now),
    };
    set(&mut next.conditions, enforced);
    let name = snapshot.budget.metadata.name.as_deref().unwrap_or_default();
    let kept = (snapshot.keeps != Err(Without::NotRequested))
        .then(|| child::kept_condition(&snapshot.keeps, name, now));
    put(&mut next.conditions, CHILD_PDB, kept);
    unless_only_its_view(next, snapshot.budget.status.as_ref(), |status| {
        &mut status.ledger
    })
}

/// The reason why no workload gives the number of expected pods, if the budget counts without that
/// number.
pub(super) fn total_unknown(snapshot: &Snapshot) -> Option<String> {
    let rules = Rules::of_budget(&snapshot.budget).ok()?;
    let Unknown { message } = snapshot.view.expected.as_ref().err()?;
    let is_counted = snapshot.view.expected_by(&rules).is_ok();
    is_counted
        .then(|| format!("status.totalReplicas is the number of pods that there are: {message}"))
}

/// Whether the budget's pods cannot be counted.
pub(super) fn is_blocked(status: &PodUnavailableBudgetStatus) -> bool {
    status
        .conditions
        .iter()
        .any(|condition| condition.type_ == BLOCKED)
}

/// Sets the numbers and settles entries.
fn count(
    snapshot: &Snapshot,
    next: &mut PodUnavailableBudgetStatus,
    now: Timestamp,
) -> Result<(), (&'static str, String)> {
    let taken_over = if next.ledger.is_none() {
        snapshot.view.taken_over(next, now)
    } else {
        Vec::new()
    };
    let ledger = next.ledger.get_or_insert_default();
    ledger.entries = snapshot.view.open(&ledger.entries, now);
    ledger.entries.extend(taken_over);
    ledger.recount = false;
    ledger.replacements = snapshot.view.replacements(&ledger.replacements, now);
    note_settled(ledger, &snapshot.view.position);
    let rules = Rules::of_budget(&snapshot.budget)
        .map_err(|Fault { field, message }| ("InvalidSpec", format!("{field} {message}")))?;
    let expected = snapshot
        .view
        .expected_by(&rules)
        .map_err(|Unknown { message }| (UNCOUNTED, message))?;
    let Expected { total, selector } = &expected;
    let desired = rules
        .amount
        .desired(*total)
        .map_err(|problem| ("InvalidSpec", problem))?;
    let available = snapshot
        .view
        .available(&rules, &expected, &ledger.entries, now);
    note_counted(ledger);
    ledger.selector = selector.as_ref().map(ToString::to_string);
    set_numbers(next, available, *total, desired);
    Ok(())
}

/// Whether a change of the status must be written at once: because other readers could believe that
/// more pods may be disrupted than is true, or because no pod may be disrupted before the write.
pub fn is_urgent(
    old: Option<&PodUnavailableBudgetStatus>,
    new: &PodUnavailableBudgetStatus,
) -> bool {
    old.is_none_or(|old| {
        old.observed_generation != new.observed_generation
            || old.ledger.as_ref().is_none_or(|ledger| ledger.recount)
            || new.unavailable_allowed < old.unavailable_allowed
    })
}
